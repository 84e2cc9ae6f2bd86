"""Paths, read."""

from __future__ import annotations

import pytest

from manta.localplane.apiserver.routes import Route, parse_route


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/api/v1", Route("", "v1")),
        ("/api/v1/", Route("", "v1")),
        ("/api/v1/pods", Route("", "v1", "pods")),
        ("/api/v1/nodes/n", Route("", "v1", "nodes", "", "n")),
        ("/api/v1/nodes/n/status", Route("", "v1", "nodes", "", "n", "status")),
        ("/api/v1/namespaces", Route("", "v1", "namespaces")),
        ("/api/v1/namespaces/x", Route("", "v1", "namespaces", "", "x")),
        ("/api/v1/namespaces/x/status", Route("", "v1", "namespaces", "", "x", "status")),
        ("/api/v1/namespaces/x/finalize", Route("", "v1", "namespaces", "", "x", "finalize")),
        ("/api/v1/namespaces/x/pods", Route("", "v1", "pods", "x")),
        ("/api/v1/namespaces/x/pods/p/log", Route("", "v1", "pods", "x", "p", "log")),
        (
            "/api/v1/namespaces/x/pods/p:80/proxy/a/b",
            Route("", "v1", "pods", "x", "p:80", "proxy", "a/b"),
        ),
        ("/apis/apps/v1/deployments", Route("apps", "v1", "deployments")),
        (
            "/apis/ray.io/v1/namespaces/x/rayclusters/c",
            Route("ray.io", "v1", "rayclusters", "x", "c"),
        ),
        ("/api/v1/watch/pods", Route("", "v1", "pods", watch_prefix=True)),
    ],
)
def test_paths_name_resources(path, route) -> None:
    assert parse_route(path) == route


@pytest.mark.parametrize(
    "path", ["/", "/api", "/apis", "/apis/apps", "/version", "/api/v1//pods", "/foo/v1/pods"]
)
def test_other_paths_name_none(path) -> None:
    assert parse_route(path) is None


@pytest.mark.parametrize(
    ("path", "method", "watch", "verb"),
    [
        ("/api/v1/pods", "GET", False, "list"),
        ("/api/v1/pods", "GET", True, "watch"),
        ("/api/v1/nodes/n", "GET", False, "get"),
        ("/api/v1/nodes/n", "HEAD", False, "get"),
        ("/api/v1/watch/nodes/n", "GET", True, "watch"),
        ("/api/v1/pods", "POST", False, "create"),
        ("/api/v1/nodes/n", "PUT", False, "update"),
        ("/api/v1/nodes/n", "PATCH", False, "patch"),
        ("/api/v1/nodes/n", "DELETE", False, "delete"),
        ("/api/v1/nodes", "DELETE", False, "deletecollection"),
        ("/api/v1/nodes", "OPTIONS", False, "options"),
    ],
)
def test_methods_become_verbs(path, method, watch, verb) -> None:
    assert parse_route(path).verb(method, watch=watch) == verb
