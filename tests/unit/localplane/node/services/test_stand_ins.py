"""The name of a headless Service that sleeps leads to an address that stands in for it."""

from __future__ import annotations

import asyncio
import socket
import struct
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import msgspec
import pytest

from manta.api.core import Service
from manta.api.discovery import EndpointSlice
from manta.localplane.node.services.dns_messages import AAAA, A, encode_name
from manta.localplane.node.services.dns_server import DnsServer
from manta.localplane.node.services.dns_zone import Zone
from manta.localplane.node.services.proxy import ListenAddress, listeners
from manta.localplane.node.services.stand_ins import StandIns

RANGE = IPv4Network("10.96.0.0/29")


def service(name: str, address: str = "None") -> Service:
    spec = {"clusterIP": address, "ports": [{"name": "dashboard", "port": 8265}]}
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    return msgspec.convert(body, Service)


def endpoint_slice(name: str) -> EndpointSlice:
    labels = {"kubernetes.io/service-name": name}
    body = {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.88.0.2"], "conditions": {"ready": True}}],
    }
    return msgspec.convert(body, EndpointSlice)


def test_the_proxy_listens_on_the_address_with_the_ports_of_the_service() -> None:
    services = [service("sleeper"), service("awake"), service("usual", "10.96.0.1")]
    stand_ins = StandIns(RANGE, lambda: services)
    address = stand_ins.add(services[0])
    assert address == "10.96.0.6"
    assert stand_ins.add(services[0]) == address
    found = listeners(stand_ins.listening())
    assert {at: backend.service.name for at, backend in found.items()} == {
        ListenAddress("10.96.0.1", 8265): "usual",
        ListenAddress("10.96.0.6", 8265): "sleeper",
    }


def test_a_service_that_is_deleted_or_gets_an_address_has_no_stand_in() -> None:
    services = [service("one"), service("two")]
    stand_ins = StandIns(RANGE, lambda: services)
    assert [stand_ins.add(one) for one in services] == ["10.96.0.6", "10.96.0.5"]
    services[:] = [service("two", "10.96.0.2")]
    assert [one.host for one in listeners(stand_ins.listening())] == ["10.96.0.2"]


def test_an_address_that_the_api_server_gave_away_is_replaced() -> None:
    services = [service("sleeper")]
    stand_ins = StandIns(RANGE, lambda: services)
    assert stand_ins.add(services[0]) == "10.96.0.6"
    services.append(service("new", "10.96.0.6"))
    assert stand_ins.add(services[0]) == "10.96.0.5"
    assert len(listeners(stand_ins.listening())) == 2


def test_a_range_that_is_full_has_no_stand_in() -> None:
    services = [service(f"s{number}", f"10.96.0.{number}") for number in range(1, 7)]
    assert StandIns(RANGE, lambda: services).add(service("sleeper")) == ""


def query(name: str, kind: int) -> bytes:
    return (
        struct.pack("!HHHHHH", 7, 0x0100, 1, 0, 0, 0)
        + encode_name(name)
        + struct.pack("!HH", kind, 1)
    )


async def ask(packet: bytes) -> bytes:
    """The answer of a server that has a sleeping, an awake and an unknown Service."""

    async def stand_in(asked: Service) -> str:
        await asyncio.sleep(0)
        return "10.96.0.6" if asked.metadata.name == "sleeper" else ""

    def slices(_: str, name: str) -> list[EndpointSlice]:
        return [endpoint_slice(name)] if name == "awake" else []

    names = ("sleeper", "awake", "starting")
    zone = Zone(
        "cluster.local",
        service=lambda _, name: service(name) if name in names else None,
        slices=slices,
        all_slices=list,
        all_services=list,
    )
    server = DnsServer(zone, [], stand_in)
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.bind(("127.0.0.1", 0))
    datagrams.setblocking(False)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    await server.start(datagrams, listener)
    loop = asyncio.get_running_loop()
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            await loop.sock_connect(client, datagrams.getsockname())
            await loop.sock_sendall(client, packet)
            by_datagram = await asyncio.wait_for(loop.sock_recv(client, 512), 10)
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(struct.pack("!H", len(packet)) + packet)
        (length,) = struct.unpack("!H", await asyncio.wait_for(reader.readexactly(2), 10))
        assert await reader.readexactly(length) == by_datagram
        writer.close()
        return by_datagram
    finally:
        await server.stop()


CASES: dict[str, tuple[str, int, str]] = {
    "asleep": ("sleeper", A, "10.96.0.6"),
    "awake": ("awake", A, "10.88.0.2"),
    "without Pods, but not asleep": ("starting", A, ""),
    "asleep, another kind of record": ("sleeper", AAAA, ""),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_the_name_of_a_headless_service_leads_to_what_stands_in_only_while_it_sleeps(
    case: tuple[str, int, str],
) -> None:
    name, kind, expected = case
    answer: Any = await ask(query(f"{name}.default.svc.cluster.local", kind))
    _, flags, _, answers, _, _ = struct.unpack_from("!HHHHHH", answer)
    assert flags & 15 == 0
    assert answers == bool(expected)
    if expected:
        assert str(IPv4Address(answer[-4:])) == expected
