from __future__ import annotations

from typing import Any

import msgspec

from manta.api.core import Service
from manta.api.discovery import EndpointSlice
from manta.api.meta import Key
from manta.localplane.node.services.proxy import Backend, ListenAddress, endpoints, listeners


def a_service(name: str, **spec: Any) -> Service:
    meta = {"name": name, "namespace": "default"}
    return msgspec.convert({"metadata": meta, "spec": spec}, Service)


def a_slice(*listed: dict[str, Any], port: int = 8000) -> EndpointSlice:
    body = {"endpoints": list(listed), "ports": [{"name": "http", "port": port}]}
    return msgspec.convert(body, EndpointSlice)


def test_a_service_has_a_door_on_its_address_and_one_outside() -> None:
    port = {"name": "http", "port": 80, "nodePort": 30080}
    backend = Backend(Key("default", "web"), "http", 80)
    found = listeners([a_service("web", type="NodePort", clusterIP="10.96.0.7", ports=[port])])
    assert found == {
        ListenAddress("10.96.0.7", 80): backend,
        ListenAddress("127.0.0.1", 30080, outside=True): backend,
    }


def test_headless_external_and_sctp_services_have_no_doors() -> None:
    services = [
        a_service("a", clusterIP="None", ports=[{"port": 80}]),
        a_service("b", type="ExternalName", externalName="x", ports=[{"port": 80}]),
        a_service("c", clusterIP="10.96.0.8", ports=[{"port": 53, "protocol": "SCTP"}]),
    ]
    assert listeners(services) == {}


def test_connections_go_to_ready_endpoints_of_the_named_port() -> None:
    one = a_slice(
        {"addresses": ["10.88.0.2"], "conditions": {"ready": True}},
        {"addresses": ["10.88.0.3"], "conditions": {"ready": False, "serving": True}},
    )
    assert endpoints([one], "http") == (("10.88.0.2", 8000),)
    assert endpoints([one], "other") == ()


def test_without_ready_endpoints_those_that_still_serve_are_used() -> None:
    leaving = {"ready": False, "serving": True, "terminating": True}
    one = a_slice(
        {"addresses": ["10.88.0.3"], "conditions": leaving},
        {"addresses": ["10.88.0.4"], "conditions": {"ready": False, "serving": False}},
    )
    assert endpoints([one], "http") == (("10.88.0.3", 8000),)


def test_udp_and_tcp_may_share_a_port() -> None:
    ports = [
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
    ]
    found = listeners([a_service("dns", clusterIP="10.96.0.10", ports=ports)])
    assert {(door.protocol, backend.port_name) for door, backend in found.items()} == {
        ("UDP", "dns"),
        ("TCP", "dns-tcp"),
    }
