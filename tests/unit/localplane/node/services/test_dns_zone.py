from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import msgspec
import pytest

from manta.api.core import Service
from manta.api.discovery import EndpointSlice
from manta.localplane.node.services.dns_messages import (
    AAAA,
    NOERROR,
    NXDOMAIN,
    PTR,
    SRV,
    A,
    MalformedQuery,
    Question,
    Record,
    Reply,
    encode_name,
    parse_question,
    render,
)
from manta.localplane.node.services.dns_zone import Zone

SERVICES = {
    ("default", "web"): {"clusterIP": "10.96.0.7", "ports": [{"name": "http", "port": 80}]},
    ("default", "head"): {"clusterIP": "None", "ports": [{"name": "gcs", "port": 6379}]},
    ("default", "early"): {"clusterIP": "None", "publishNotReadyAddresses": True},
    ("default", "out"): {"type": "ExternalName", "externalName": "example.org"},
}
ENDPOINTS = {
    "head": [
        {"addresses": ["10.88.0.2"], "conditions": {"ready": True}, "hostname": "head-0"},
        {"addresses": ["10.88.0.3"], "conditions": {"ready": False}},
    ],
    "early": [{"addresses": ["10.88.0.3"], "conditions": {"ready": False}}],
}


def make_service(namespace: str, name: str) -> Service | None:
    spec = SERVICES.get((namespace, name))
    if spec is None:
        return None
    return msgspec.convert(
        {"metadata": {"name": name, "namespace": namespace}, "spec": spec}, Service
    )


def make_slices(namespace: str, name: str) -> list[EndpointSlice]:
    meta = {"name": name, "namespace": namespace, "labels": {"kubernetes.io/service-name": name}}
    body = {"metadata": meta, "endpoints": ENDPOINTS.get(name, [])}
    return [msgspec.convert(body, EndpointSlice)]


ZONE = Zone(
    "cluster.local",
    service=make_service,
    slices=make_slices,
    all_slices=lambda: [one for name in ENDPOINTS for one in make_slices("default", name)],
    all_services=lambda: [found for key in SERVICES if (found := make_service(*key))],
    networks=(IPv4Network("10.88.0.0/20"), IPv4Network("10.96.0.0/16")),
)


def ask(name: str, kind: int = A) -> Reply | None:
    return ZONE.answer(Question(1, name, kind, 0, b""))


def values(reply: Reply | None) -> list[Any]:
    assert reply is not None
    assert reply.code == NOERROR
    return [str(record.value) for record in reply.records]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web.default.svc.cluster.local", ["10.96.0.7"]),
        ("head.default.svc.cluster.local", ["10.88.0.2"]),
        ("head-0.head.default.svc.cluster.local", ["10.88.0.2"]),
        ("10-88-0-2.head.default.svc.cluster.local", ["10.88.0.2"]),
        ("early.default.svc.cluster.local", ["10.88.0.3"]),
        ("out.default.svc.cluster.local", ["example.org"]),
        ("10-88-0-9.default.pod.cluster.local", ["10.88.0.9"]),
        ("default.svc.cluster.local", []),
        ("cluster.local", []),
    ],
)
def test_names_of_the_cluster(name: str, expected: list[str]) -> None:
    assert values(ask(name)) == expected


@pytest.mark.parametrize(
    "name",
    [
        "none.default.svc.cluster.local",
        "web.elsewhere.svc.cluster.local",
        "nobody.head.default.svc.cluster.local",
        "web.default.svc.cluster.local.default.svc.cluster.local",
        "9-9-9-9.default.pod.cluster.local",
        "example.org.cluster.local",
    ],
)
def test_names_that_are_not_there_are_denied_at_once(name: str) -> None:
    reply = ask(name)
    assert reply is not None
    assert reply.code == NXDOMAIN


def test_a_name_without_ipv6_exists_but_has_no_such_address() -> None:
    assert values(ask("head.default.svc.cluster.local", AAAA)) == []


@pytest.mark.parametrize(
    "name", ["example.org", "local", "notcluster.local", "8.8.8.8.in-addr.arpa"]
)
def test_names_of_others_are_passed_on(name: str) -> None:
    assert ask(name) is None


def test_ports_are_found_by_name() -> None:
    reply = ask("_gcs._tcp.head.default.svc.cluster.local", SRV)
    assert reply is not None
    assert [record.value.port for record in reply.records] == [6379]
    assert [str(record.value) for record in reply.extra] == ["10.88.0.2"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("7.0.96.10.in-addr.arpa", "web.default.svc.cluster.local"),
        ("2.0.88.10.in-addr.arpa", "head-0.head.default.svc.cluster.local"),
    ],
)
def test_addresses_lead_back_to_names(name: str, expected: str) -> None:
    assert values(ask(name, PTR)) == [expected]


def query(name: str, kind: int = A) -> bytes:
    header = struct.pack("!HHHHHH", 77, 0x0100, 1, 0, 0, 0)
    return header + encode_name(name) + struct.pack("!HH", kind, 1)


def test_a_question_is_read_and_its_answer_repeats_it() -> None:
    question = parse_question(query("WEB.default.svc.cluster.local"))
    assert (question.name, question.type) == ("web.default.svc.cluster.local", A)
    answer = render(question, Reply(records=(Record("x", IPv4Address("1.2.3.4"), 5),)))
    identity, flags, questions, answers, _, _ = struct.unpack_from("!HHHHHH", answer)
    assert (identity, flags & 0xF, questions, answers) == (77, NOERROR, 1, 1)
    assert answer.endswith(b"\x00\x05\x00\x04\x01\x02\x03\x04")


def test_an_answer_too_long_for_udp_sends_the_client_to_tcp() -> None:
    question = parse_question(query("many"))
    records = tuple(Record("many", IPv4Address(number), 5) for number in range(1, 100))
    short = render(question, Reply(records=records))
    assert len(short) <= 512
    assert struct.unpack_from("!H", short, 2)[0] & 0x0200
    assert len(render(question, Reply(records=records), limit=65535)) > 512


@pytest.mark.parametrize(
    "packet",
    [b"", b"\0" * 12, query("a")[:-2], query("a")[:14], query("a").replace(b"\1a", b"\xc0a")],
)
def test_garbage_is_refused(packet: bytes) -> None:
    with pytest.raises(MalformedQuery):
        parse_question(packet)
