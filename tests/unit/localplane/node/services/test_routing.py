from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from manta.api.gateway import Gateway, HTTPRoute
from manta.api.meta import Key
from manta.api.networking import Ingress
from manta.api.well_known import ANNOTATION_REWRITE_TARGET
from manta.localplane.node.services.gateway_status import gateway_status, route_status
from manta.localplane.node.services.http_head import Head, MalformedHead, parse_head
from manta.localplane.node.services.routing import (
    Destination,
    Route,
    WeightedRoundRobin,
    choose,
    routes_of_gateway,
    routes_of_ingresses,
)

GATEWAY = msgspec.convert(
    {
        "metadata": {"name": "gw", "namespace": "default"},
        "spec": {"listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]},
    },
    Gateway,
)


def request(target: str = "/", host: str = "any", **headers: str) -> Head:
    return Head("GET", target, (("Host", host), *headers.items()))


def an_ingress(path: str, kind: str = "Prefix", host: str = "", **annotations: str) -> Ingress:
    backend = {"service": {"name": "svc", "port": {"number": 8265}}}
    rule: dict[str, Any] = {
        "http": {"paths": [{"path": path, "pathType": kind, "backend": backend}]}
    }
    if host:
        rule["host"] = host
    meta = {"name": "i", "namespace": "default", "annotations": annotations}
    return msgspec.convert({"metadata": meta, "spec": {"rules": [rule]}}, Ingress)


def a_route(*rules: dict[str, Any], **spec: Any) -> HTTPRoute:
    body = {"parentRefs": [{"name": "gw"}], "rules": list(rules), **spec}
    return msgspec.convert(
        {"metadata": {"name": "r", "namespace": "default"}, "spec": body}, HTTPRoute
    )


@pytest.mark.parametrize(
    ("path", "kind", "target", "found"),
    [
        ("/", "Prefix", "/anything", True),
        ("/foo", "Prefix", "/foo", True),
        ("/foo", "Prefix", "/foo/bar?x=1", True),
        ("/foo", "Prefix", "/foobar", False),
        ("/foo", "Exact", "/foo", True),
        ("/foo", "Exact", "/foo/", False),
        ("/c/(.*)", "ImplementationSpecific", "/c/x", True),
        ("/c/(.*)", "ImplementationSpecific", "/d/x", False),
    ],
)
def test_paths_of_an_ingress(path: str, kind: str, target: str, found: bool) -> None:
    routes = routes_of_ingresses([an_ingress(path, kind)])
    assert (choose(routes, request(target)) is not None) == found


@pytest.mark.parametrize(
    ("host", "asked", "found"),
    [
        ("", "x", True),
        ("a.b", "a.b:8080", True),
        ("a.b", "A.B", True),
        ("a.b", "c.b", False),
        ("*.b", "a.b", True),
        ("*.b", "b", False),
    ],
)
def test_hosts_of_an_ingress(host: str, asked: str, found: bool) -> None:
    routes = routes_of_ingresses([an_ingress("/", host=host)])
    assert (choose(routes, request(host=asked)) is not None) == found


def test_the_rewrite_that_kuberay_users_write_for_nginx() -> None:
    ingress = an_ingress("/raycluster/(.*)", **{ANNOTATION_REWRITE_TARGET: "/$1"})
    route = choose(routes_of_ingresses([ingress]), request("/raycluster/api/jobs?x=1"))
    assert route is not None
    assert route.rewrite(request("/raycluster/api/jobs?x=1")).target == "/api/jobs?x=1"


def test_the_most_particular_route_wins() -> None:
    def route(kind: Any, path: str) -> Route:
        return Route((), kind, path, (Destination(Key("default", path), 80),))

    routes = (route("prefix", "/"), route("prefix", "/a"), route("exact", "/a"))
    found = choose(routes, request("/a"))
    assert found is not None
    assert found.kind == "exact"
    found = choose(routes, request("/a/b"))
    assert found is not None
    assert found.path == "/a"


def test_only_routes_of_the_gateway_count() -> None:
    elsewhere = a_route({}, parentRefs=[{"name": "gw", "namespace": "other"}])
    assert routes_of_gateway(GATEWAY, [elsewhere]) == ()
    assert len(routes_of_gateway(GATEWAY, [a_route({})])) == 1


def test_filters_change_path_and_headers() -> None:
    filters = [
        {"type": "URLRewrite", "urlRewrite": {"path": {"replacePrefixMatch": "/new"}}},
        {
            "type": "RequestHeaderModifier",
            "requestHeaderModifier": {"set": [{"name": "X", "value": "1"}], "remove": ["Y"]},
        },
    ]
    matches = [{"path": {"type": "PathPrefix", "value": "/old"}}]
    (route,) = routes_of_gateway(GATEWAY, [a_route({"matches": matches, "filters": filters})])
    changed = route.rewrite(request("/old/x", Y="2"))
    assert changed.path == "/new/x"
    assert changed.header("x") == "1"
    assert changed.header("y") == ""


@pytest.mark.parametrize(
    ("weights", "expected"),
    [((90, 10), {"a": 90, "b": 10}), ((1, 1), {"a": 50, "b": 50}), ((0, 5), {"b": 100})],
)
def test_requests_are_shared_out_by_weight(weights: tuple[int, int], expected: Any) -> None:
    pair = tuple(
        Destination(Key("default", name), 80, weight)
        for name, weight in zip("ab", weights, strict=True)
    )
    shares = WeightedRoundRobin()
    taken = Counter(found.service.name for _ in range(100) if (found := shares.next(pair)))
    assert taken == expected


def test_nobody_gets_a_request_when_all_weights_are_zero() -> None:
    assert WeightedRoundRobin().next((Destination(Key("default", "a"), 80, 0),)) is None


def test_a_head_is_read_and_passed_on_for_one_request() -> None:
    head = parse_head(b"GET /x HTTP/1.1\r\nHost: h\r\nConnection: keep-alive\r\nA: b\r\n\r\n")
    sent = head.forwarded("1.2.3.4").encode().decode()
    assert "Connection: close\r\n" in sent
    assert "keep-alive" not in sent
    assert "X-Forwarded-For: 1.2.3.4\r\n" in sent
    assert "A: b\r\n" in sent


def test_an_upgrade_stays_an_upgrade() -> None:
    head = Head("GET", "/", (("Connection", "Upgrade"), ("Upgrade", "websocket")))
    assert "Connection: Upgrade\r\n" in head.forwarded("x").encode().decode()


@pytest.mark.parametrize(
    "data", [b"\r\n\r\n", b"GET /\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n"]
)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedHead):
        parse_head(data)


def test_a_gateway_learns_its_address_and_that_it_works() -> None:
    status = gateway_status(GATEWAY, "10.96.255.254", "2026-11-15T00:00:00Z")
    assert status["addresses"] == [{"type": "IPAddress", "value": "10.96.255.254"}]
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "Accepted": "True",
        "Programmed": "True",
    }


@pytest.mark.parametrize(
    ("services", "resolved"), [({Key("default", "svc")}, "True"), (set(), "False")]
)
def test_a_route_learns_whether_its_services_exist(services: Any, resolved: str) -> None:
    route = a_route({"backendRefs": [{"name": "svc", "port": 80}]})
    status = route_status(route, [GATEWAY], frozenset(services), "2026-11-15T00:00:00Z")
    conditions = {one["type"]: one["status"] for one in status["parents"][0]["conditions"]}
    assert conditions == {"Accepted": "True", "ResolvedRefs": resolved}


def test_a_route_leads_to_no_service_of_another_namespace() -> None:
    """X7: that would take a ReferenceGrant of the other namespace."""
    route = a_route({"backendRefs": [{"name": "svc", "namespace": "team-b", "port": 80}]})
    [made] = routes_of_gateway(GATEWAY, [route])
    assert made.destinations == ()
    known = frozenset({Key("team-b", "svc")})
    status = route_status(route, [GATEWAY], known, "2026-11-15T00:00:00Z")
    reasons = [one["reason"] for one in status["parents"][0]["conditions"]]
    assert reasons == ["Accepted", "RefNotPermitted"]
