"""Addresses, ports and accounts for new objects."""

from __future__ import annotations

import asyncio
from ipaddress import IPv4Network
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import NAMESPACES, PODS, PRIORITY_CLASSES, SERVICE_ACCOUNTS, SERVICES
from manta.kube.client import Client
from manta.kube.errors import Forbidden, Invalid
from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.bootstrap import bootstrap
from manta.localplane.inprocess import InProcessTransport
from manta.localplane.store.store import Store
from manta.runtime.clock import SystemClock
from support.plane import memory_plane
from support.virtual import virtually

POD: dict[str, Any] = {
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


def service(name, **spec):
    return {"metadata": {"name": name}, "spec": {"ports": [{"port": 80}], **spec}}


async def test_services_get_addresses_of_their_own() -> None:
    async with memory_plane() as plane:
        made = [
            await plane.client.create(SERVICES, "default", service(f"s{number}"), into=dict)
            for number in range(20)
        ]
        addresses = {one["spec"]["clusterIP"] for one in made}
        assert len(addresses) == 20
        assert "10.96.0.1" not in addresses
        taken = made[0]["spec"]["clusterIP"]
        with pytest.raises(Invalid, match="provided IP is already allocated"):
            await plane.client.create(SERVICES, "default", service("x", clusterIP=taken))
        with pytest.raises(Invalid, match="not in the valid range"):
            await plane.client.create(SERVICES, "default", service("x", clusterIP="1.2.3.4"))
        await plane.client.delete(SERVICES, Key("default", "s0"))
        await plane.client.create(SERVICES, "default", service("x", clusterIP=taken))
        body = {"spec": {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"]}}
        with pytest.raises(Invalid, match="may not change once set"):
            await plane.client.patch(SERVICES, Key("default", "x"), body)


async def test_node_ports_are_not_shared() -> None:
    async with memory_plane() as plane:
        one = await plane.client.create(
            SERVICES, "default", service("a", type="NodePort"), into=dict
        )
        port = one["spec"]["ports"][0]["nodePort"]
        assert 30000 <= port < 32768
        other = service("b", type="NodePort", ports=[{"port": 80, "nodePort": port}])
        with pytest.raises(Invalid, match="provided port is already allocated"):
            await plane.client.create(SERVICES, "default", other)


async def test_priorities_are_looked_up() -> None:
    async with memory_plane() as plane:
        body = {"metadata": {"name": "high"}, "value": 7, "globalDefault": True}
        await plane.client.create(PRIORITY_CLASSES, "", body)
        made = await plane.client.create(PODS, "default", POD, into=dict)
        assert (made["spec"]["priority"], made["spec"]["priorityClassName"]) == (7, "high")


def strict_server():
    app = App(Store(), clock=SystemClock().now, demand_accounts=True)
    bootstrap(app)
    return Client(InProcessTransport(app))


@virtually
async def test_a_pod_needs_its_account() -> None:
    client = strict_server()
    body = {"metadata": POD["metadata"], "spec": {**POD["spec"], "serviceAccountName": "none"}}
    with pytest.raises(Forbidden, match="error looking up service account default/none"):
        await client.create(PODS, "default", body)
    with pytest.raises(Forbidden, match='serviceaccount "default" not found'):
        await client.create(PODS, "default", POD)


@virtually
async def test_the_account_of_a_new_namespace_is_awaited() -> None:
    client = strict_server()
    await client.create(NAMESPACES, "", {"metadata": {"name": "x"}})
    creating = asyncio.create_task(client.create(PODS, "x", POD))
    await asyncio.sleep(0.5)
    assert not creating.done()
    await client.create(SERVICE_ACCOUNTS, "x", {"metadata": {"name": "default"}})
    await creating


async def test_services_of_an_earlier_range_move_to_todays() -> None:
    store = Store()
    before = App(store, clock=SystemClock().now)
    bootstrap(before)
    client = Client(InProcessTransport(before))
    await client.create(SERVICES, "default", service("web", clusterIP="10.96.7.7"))
    await client.create(SERVICES, "default", service("bare", clusterIP="None"))
    after = App(store, clock=SystemClock().now, services=IPv4Network("10.99.0.0/16"))
    bootstrap(after)
    found = (await Client(InProcessTransport(after)).list(SERVICES, into=dict)).items
    addresses = {one["metadata"]["name"]: one["spec"]["clusterIP"] for one in found}
    assert addresses == {"kubernetes": "10.99.0.1", "web": "10.99.7.7", "bare": "None"}
