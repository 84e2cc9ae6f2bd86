"""The activator as a process with the chart's rights: it stands in for a head that sleeps, and wakes it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import ENDPOINT_SLICES, EVENTS, SECRETS, SERVICES
from manta.kube.client import Client
from manta.kube.config import load
from manta.kube.errors import Forbidden
from manta.kube.transport import HttpTransport
from support.helm import rendered
from support.operator_fixture import (
    OperatorFixture,
    OperatorProcess,
    account_with,
    own_address,
    until,
)
from support.operator_objects import a_cluster

Json = dict[str, Any]
SUSPENDED = "manta.ray.io/idle-suspended"
ACTIVATOR = "manta-activator"
OF_THE_ACTIVATOR = f"endpointslice.kubernetes.io/managed-by={ACTIVATOR}"


def is_state(wanted: str) -> Any:
    return lambda status: status.get("state") == wanted


def rules_of_the_chart(role: str) -> list[Json]:
    name = f"fullnameOverride={role.removesuffix('-activator')}"
    found = rendered("--set", "installCRDs=false", "--set", "activator.enabled=true", "--set", name)
    [rules] = [
        one["rules"]
        for one in found
        if one["kind"] == "ClusterRole" and one["metadata"]["name"] == role
    ]
    return list(rules)


@asynccontextmanager
async def an_activator(operated: OperatorFixture, *, killed: bool = False) -> AsyncIterator[Path]:
    """`manta activator`, as the chart lets it; its kubeconfig. In the end it is stopped, or `killed`, and uninstalled."""
    if operated.external:
        pytest.skip("it would take part in the clusters of others")
    role = f"{operated.namespace}-{ACTIVATOR}"
    async with account_with(operated, ACTIVATOR, rules_of_the_chart(role)) as kubeconfig:
        command = [str(Path(sys.executable).with_name("manta")), "activator"]
        where = ["--kubeconfig", str(kubeconfig), "--address", own_address(), "--owner", role]
        process = OperatorProcess([*command, *where], operated.directory / "activator.log")
        await process.start()
        try:
            yield kubeconfig
        finally:
            # To stop asserts that nothing was forbidden.
            await (process.kill() if killed else process.stop())


async def fall_asleep(operated: OperatorFixture, name: str) -> None:
    """As the operator does it: in one patch."""
    marks = {"annotations": {SUSPENDED: "2026-01-01T00:00:00Z"}}
    await operated.edit(RAY_CLUSTERS, name, {"metadata": marks, "spec": {"suspend": True}})
    await operated.until(RAY_CLUSTERS, name, is_state("suspended"))


async def stand_in(operated: OperatorFixture, name: str) -> Json:
    async def there() -> Json | None:
        return await operated.get(ENDPOINT_SLICES, f"{name}-head-svc-{ACTIVATOR}")

    return await until(there, lambda: operated.all(ENDPOINT_SLICES)) or {}


async def get(address: str, port: int, way: str) -> bytes:
    """`way`: by which the fake dashboards, which all have one address, know the cluster."""
    reader, writer = await asyncio.open_connection(address, port)
    head = f"Host: head\r\nConnection: close\r\nX-Forwarded-Uri: {way}/api/version"
    writer.write(f"GET /api/version HTTP/1.1\r\n{head}\r\n\r\n".encode())
    try:
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


@pytest.mark.timeout(240)
async def test_a_connection_wakes_a_cluster_that_sleeps_and_is_served_by_its_head(
    operated: OperatorFixture, name: str
) -> None:
    body = a_cluster(operated, name)
    body["spec"]["headGroupSpec"]["serviceType"] = "NodePort"  # a Service with an address
    await operated.make(RAY_CLUSTERS, body)
    await operated.until(RAY_CLUSTERS, name, is_state("ready"))
    async with an_activator(operated) as kubeconfig:
        await fall_asleep(operated, name)
        one = await stand_in(operated, name)
        [owner] = one["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"]) == (
            "ClusterRole",
            f"{operated.namespace}-{ACTIVATOR}",
        )
        assert one["metadata"]["labels"]["kubernetes.io/service-name"] == f"{name}-head-svc"
        ports = {port["name"]: port["port"] for port in one["ports"]}
        assert "dashboard" in ports
        assert not {"metrics", "gcs-server"} & set(ports)
        # Nobody else has endpoints for the Service: all of its connections come here.
        labels = f"kubernetes.io/service-name={name}-head-svc"
        slices = await operated.all(ENDPOINT_SLICES, labels)
        assert [found["metadata"]["name"] for found in slices if found.get("endpoints")] == [
            one["metadata"]["name"]
        ]
        [address] = one["endpoints"][0]["addresses"]
        way = f"/api/v1/namespaces/{operated.namespace}/services/{name}-head-svc:dashboard/proxy"
        answer = await get(address, ports["dashboard"], way)
        assert answer.startswith(b"HTTP/1.1 200"), answer
        found = await operated.until(RAY_CLUSTERS, name, is_state("ready"))
        assert found["spec"]["suspend"] is False
        await operated.until_none(ENDPOINT_SLICES, OF_THE_ACTIVATOR)
        await _marks_are_gone(operated, name)
        await _has_no_other_rights(kubeconfig, operated.namespace)
    await operated.delete(RAY_CLUSTERS, name)
    await operated.until_gone(RAY_CLUSTERS, name)


async def _marks_are_gone(operated: OperatorFixture, name: str) -> None:
    """The operator says who resumed it, and takes its marks away."""

    async def resumed() -> bool:
        found = await operated.get(RAY_CLUSTERS, name) or {}
        events = [one["reason"] for one in await operated.all(EVENTS)]
        marked = SUSPENDED in found["metadata"].get("annotations", {})
        return "IdleResumed" in events and not marked

    await until(resumed)


async def _has_no_other_rights(kubeconfig: Path, namespace: str) -> None:
    client = Client(HttpTransport(load(kubeconfig)))
    try:
        with pytest.raises(Forbidden):
            await client.list(SECRETS, namespace)
        with pytest.raises(Forbidden):
            await client.delete(RAY_CLUSTERS, Key(namespace, "any"))
        with pytest.raises(Forbidden):
            await client.patch(SERVICES, Key(namespace, "any"), {"spec": {}})
    finally:
        await client.close()


@pytest.mark.timeout(240)
async def test_a_cluster_that_is_deleted_in_its_sleep_leaves_no_endpoints(
    operated: OperatorFixture, name: str
) -> None:
    body = a_cluster(operated, name)
    body["spec"]["headGroupSpec"]["serviceType"] = "NodePort"
    await operated.make(RAY_CLUSTERS, body)
    await operated.until(RAY_CLUSTERS, name, is_state("ready"))
    async with an_activator(operated):
        await fall_asleep(operated, name)
        await stand_in(operated, name)
        await operated.delete(RAY_CLUSTERS, name)
        await operated.until_gone(RAY_CLUSTERS, name)
        await operated.until_none(ENDPOINT_SLICES, OF_THE_ACTIVATOR)


@pytest.mark.timeout(240)
async def test_one_that_is_killed_and_uninstalled_leaves_no_endpoints(
    operated: OperatorFixture, name: str
) -> None:
    body = a_cluster(operated, name)
    body["spec"]["headGroupSpec"]["serviceType"] = "NodePort"
    await operated.make(RAY_CLUSTERS, body)
    await operated.until(RAY_CLUSTERS, name, is_state("ready"))
    async with an_activator(operated, killed=True):
        await fall_asleep(operated, name)
        await stand_in(operated, name)
    assert await operated.get(SERVICES, f"{name}-head-svc") is not None
    await operated.until_none(ENDPOINT_SLICES, OF_THE_ACTIVATOR)
    await operated.delete(RAY_CLUSTERS, name)
    await operated.until_gone(RAY_CLUSTERS, name)
