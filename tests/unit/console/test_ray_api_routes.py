"""Which requests the API answers, and which path reaches Kubernetes."""

from __future__ import annotations

import pytest

from manta.console.api.headers import to_caller, to_kubernetes
from manta.console.api.routes import ROUTES, Action, match, service_name
from manta.console.api.statuses import RefusedError

PROXY = "/api/v1/namespaces/default/services/demo-head-svc:8265/proxy"


@pytest.mark.parametrize(
    ("method", "path", "action", "sent"),
    [
        ("GET", "/apis/ray.io/v1", Action.FORWARD, "/apis/ray.io/v1"),
        ("GET", "/apis/ray.io/v1/", Action.FORWARD, "/apis/ray.io/v1"),
        ("GET", "/apis/ray.io/v1/rayjobs", Action.FORWARD, "/apis/ray.io/v1/rayjobs"),
        ("POST", "/apis/ray.io/v1/namespaces/a/rayclusters", Action.FILL, None),
        ("PUT", "/apis/ray.io/v1/namespaces/a/rayservices/b", Action.FILL, None),
        ("PATCH", "/apis/ray.io/v1/namespaces/a/rayservices/b", Action.FORWARD, None),
        ("PUT", "/apis/ray.io/v1/namespaces/a/rayjobs/b/status", Action.FORWARD, None),
        ("GET", "/apis/events.k8s.io/v1/namespaces/a/events", Action.EVENTS, None),
        ("POST", PROXY, Action.SERVICE, None),
        ("POST", f"{PROXY}/api/jobs/", Action.SERVICE, None),
        ("GET", f"{PROXY}/logs/a%2Fb//c%20d", Action.SERVICE, None),
        ("GET", "/api/v1/namespaces/a/pods/b/log", Action.LOG, None),
        ("POST", "/apis/v1/namespaces/a/compute_templates", Action.TEMPLATES, None),
        ("GET", "/apis/v1/compute_templates", Action.TEMPLATES, None),
        ("DELETE", "/apis/v1/namespaces/a/compute_templates/b", Action.TEMPLATE, None),
    ],
)
def test_a_request_finds_its_route(
    method: str, path: str, action: Action, sent: str | None
) -> None:
    found = match(method, path)
    assert (found.route.action, found.path) == (action, path if sent is None else sent)


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/namespaces/a/pods", 404),
        ("GET", "/api/v1/namespaces/a/secrets/b", 404),
        ("GET", "/apis/ray.io/v1alpha1/rayclusters", 404),
        ("GET", "/apis/apps/v1/deployments", 404),
        ("GET", "/apis/v1/namespaces/a/clusters", 404),
        ("POST", "/apis/events.k8s.io/v1/namespaces/a/events", 405),
        ("TRACE", "/apis/ray.io/v1/rayclusters", 405),
        ("CONNECT", PROXY, 405),
        ("POST", "/api/v1/namespaces/a/pods/b/log", 405),
    ],
)
def test_everything_else_is_refused_as_kubernetes_does(method: str, path: str, code: int) -> None:
    with pytest.raises(RefusedError) as refused:
        match(method, path)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "path",
    [
        "/apis/ray.io/v1/../../api/v1/secrets",
        "/apis/ray.io/v1/%2e%2e/%2e%2e/api/v1/secrets",
        "/apis/ray.io/v1/namespaces/a%2F..%2F..%2Fsecrets/rayclusters",
        "/apis/ray.io/v1/namespaces/a%5c..%5c/rayclusters",
        "/apis/ray.io/v1//rayclusters",
        "/apis/ray.io/v1/rayclusters%00",
        "/apis/ray.io/v1/rayclusters%0d%0aX-Evil:%201",
        "/apis/ray.io/v1/rayclusters/%252e%252e",
        "/apis/ray.io/v1/rayclusters/%ff",
        f"{PROXY}/../../../secrets",
        f"{PROXY}/%2e%2e/%2e%2e/secrets",
        f"{PROXY}/a%2f..%2f..%2fsecrets",
        f"{PROXY}/..%5c..%5csecrets",
        f"{PROXY}/a%0d%0aHost:%20evil",
        "/api/v1/namespaces/..%2f../services/demo/proxy/",
        "/api/v1/namespaces/default/services/demo%2fproxy%2f..%2f..%2fsecrets/proxy/",
    ],
)
def test_no_spelling_of_a_path_leads_out_of_its_route(path: str) -> None:
    with pytest.raises(RefusedError) as refused:
        match("GET", path)
    assert refused.value.code == 400


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("demo", "demo"),
        ("demo:8265", "demo"),
        ("demo:dashboard", "demo"),
        ("http:demo:8265", "demo"),
        ("https:demo:8265", "demo"),
        (":demo:8265", "demo"),
        ("http:demo:", "demo"),
    ],
)
def test_the_name_of_a_service_is_found_beside_scheme_and_port(text: str, name: str) -> None:
    assert service_name(text) == name


@pytest.mark.parametrize("text", ["", ":", "ftp:demo:1", "a:b:c:d", "Demo", "de mo", "demo:8@evil"])
def test_another_name_of_a_service_is_refused(text: str) -> None:
    with pytest.raises(RefusedError, match="invalid service format"):
        service_name(text)


def test_only_listed_headers_pass() -> None:
    given = {
        "accept": "application/json",
        "cookie": "manta-console=secret",
        "authorization": "Bearer x",
        "x-remote-user": "admin",
        "x-forwarded-for": "1.2.3.4",
        "x-ray-authorization": "Bearer ray",
        "connection": "x-remote-user",
        "transfer-encoding": "chunked",
    }
    assert to_kubernetes(given) == {"accept": "application/json"}
    assert set(to_kubernetes(given, service=True)) == {"accept", "x-ray-authorization"}


def test_impersonation_is_refused_and_not_ignored() -> None:
    with pytest.raises(RefusedError, match="impersonate-user"):
        to_kubernetes({"impersonate-user": "somebody"})


def test_a_service_sets_no_cookie_and_leads_nowhere_else() -> None:
    inside = f"{PROXY}/"
    answer = {"set-cookie": "manta-console=x", "etag": "1", "location": "https://evil.example/"}
    assert {name for name, _ in to_caller(answer, inside)} == {"etag", "Content-Security-Policy"}
    for location in (f"{inside}../../x", "//evil.example/", f"{inside}/%2E%2e/x", f"{inside}/a b"):
        assert "location" not in dict(to_caller({"location": location}, inside))
    assert dict(to_caller({"location": f"{inside}new/"}, inside))["location"] == f"{inside}new/"


def test_the_routes_that_only_we_have_are_marked() -> None:
    own = {one.path for one in ROUTES if not one.kuberay}
    assert own == {
        "/api/v1/namespaces/{namespace}/pods/{name}/log",
        "/apis/ray.io/v1/namespaces/{namespace}/raycronjobs",
        "/apis/ray.io/v1/namespaces/{namespace}/raycronjobs/{name}",
    }
