"""RayServices on a whole control plane: they serve, change in place, move, rest and go."""

from __future__ import annotations

from typing import Any

import pytest_asyncio

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.resources import CUSTOM_RESOURCE_DEFINITIONS, GATEWAYS, HTTP_ROUTES, SERVICES
from manta.kube.errors import AlreadyExists
from support.operator_fixture import OperatorFixture, until
from support.operator_objects import a_service, settle
from support.rayservice import GATEWAY_CRDS
from support.rayservice_objects import cluster_config, incremental, scaled_config

Json = dict[str, Any]
NEXT = "rayproject/ray:2.61.0"


def said(status: Json, type_: str) -> tuple[str, str]:
    found = [one for one in status.get("conditions") or () if one["type"] == type_]
    return (found[0]["status"], found[0]["reason"]) if found else ("", "")


def active(status: Json) -> str:
    return str((status.get("activeServiceStatus") or {}).get("rayClusterName") or "")


def pending(status: Json) -> str:
    return str((status.get("pendingServiceStatus") or {}).get("rayClusterName") or "")


def serves(status: Json) -> bool:
    return said(status, "Ready") == ("True", "NonZeroServeEndpoints") and not pending(status)


async def serving(operator_fixture: OperatorFixture, name: str, **spec: Any) -> str:
    """A RayService that serves; the name of its cluster."""
    await operator_fixture.make(RAY_SERVICES, a_service(operator_fixture, name, **spec))
    return active((await operator_fixture.until(RAY_SERVICES, name, serves))["status"])


async def selected(operator_fixture: OperatorFixture, service: str) -> str:
    found = await operator_fixture.get(SERVICES, service)
    return str(found["spec"]["selector"]["ray.io/cluster"]) if found else ""


async def upgrade(operator_fixture: OperatorFixture, name: str, config: Json) -> None:
    await operator_fixture.edit(
        RAY_SERVICES, name, {"spec": {"rayClusterConfig": settle(operator_fixture, config)}}
    )


async def test_a_service_serves_from_all_its_pods(operated: OperatorFixture, name: str) -> None:
    cluster = await serving(operated, name)
    found = await operated.until(
        RAY_SERVICES, name, lambda status: status.get("numServeEndpoints") == 2
    )
    assert found["status"]["serviceStatus"] == "Running"
    assert found["metadata"]["finalizers"] == ["ray.io/rayservice-finalizer"]
    assert await selected(operated, f"{name}-serve-svc") == cluster
    assert await selected(operated, f"{name}-head-svc") == cluster
    head = operated.ray.head(operated.namespace, f"{cluster}-head-svc")
    assert len(head.puts) == 1


async def test_a_new_serve_config_reaches_the_same_cluster(
    operated: OperatorFixture, name: str
) -> None:
    cluster = await serving(operated, name)
    config = "applications: [{name: app, import_path: demo.better}]"
    await operated.edit(RAY_SERVICES, name, {"spec": {"serveConfigV2": config}})
    head = operated.ray.head(operated.namespace, f"{cluster}-head-svc")

    async def reported() -> bool:
        return bool(head.puts[-1]["applications"][0]["import_path"] == "demo.better")

    await until(reported)
    found = await operated.until(RAY_SERVICES, name, serves)
    assert active(found["status"]) == cluster


async def test_a_new_spec_moves_to_a_new_cluster_and_the_old_one_goes(
    operated: OperatorFixture, name: str
) -> None:
    old = await serving(operated, name, rayClusterDeletionDelaySeconds=2)
    before = await operated.get(SERVICES, f"{name}-serve-svc")
    await upgrade(operated, name, cluster_config(NEXT))
    found = await operated.until(
        RAY_SERVICES, name, lambda status: serves(status) and active(status) != old
    )
    new = active(found["status"])
    assert await selected(operated, f"{name}-serve-svc") == new
    after = await operated.get(SERVICES, f"{name}-serve-svc")
    assert before is not None
    assert after is not None
    assert before["spec"]["clusterIP"] == after["spec"]["clusterIP"]
    await operated.until_gone(RAY_CLUSTERS, old)
    assert await operated.get(RAY_CLUSTERS, new) is not None


async def test_a_suspended_service_has_nothing_and_serves_again(
    operated: OperatorFixture, name: str
) -> None:
    old = await serving(operated, name)
    await operated.edit(RAY_SERVICES, name, {"spec": {"suspend": True}})
    await operated.until(
        RAY_SERVICES, name, lambda status: said(status, "Suspended") == ("True", "SuspendComplete")
    )
    await operated.until_gone(RAY_CLUSTERS, old)
    await operated.until_gone(SERVICES, f"{name}-serve-svc")
    await operated.edit(RAY_SERVICES, name, {"spec": {"suspend": False}})
    found = await operated.until(RAY_SERVICES, name, serves)
    assert active(found["status"]) != old


async def test_a_deleted_service_leaves_nothing(operated: OperatorFixture, name: str) -> None:
    cluster = await serving(operated, name)
    await operated.delete(RAY_SERVICES, name)
    await operated.until_gone(RAY_SERVICES, name)
    await operated.until_gone(RAY_CLUSTERS, cluster)
    for service in (f"{name}-serve-svc", f"{name}-head-svc"):
        await operated.until_gone(SERVICES, service)


# ── with a Gateway ───────────────────────────────────────────────────────────────────────


@pytest_asyncio.fixture(loop_scope="session")
async def gateways(operated: OperatorFixture) -> Any:
    """The kinds of the Gateway API, where nobody has installed them."""
    made = []
    for crd in GATEWAY_CRDS:
        annotation = {"api-approved.kubernetes.io": "unapproved, for a test"}
        body = {**crd, "metadata": {**crd["metadata"], "annotations": annotation}}
        try:
            await operated.client.create(CUSTOM_RESOURCE_DEFINITIONS, "", body)
            made.append(crd["metadata"]["name"])
        except AlreadyExists:
            continue
    yield operated
    for one in made:
        await operated.client.delete(CUSTOM_RESOURCE_DEFINITIONS, Key("", one))


async def accept(operator_fixture: OperatorFixture, name: str) -> None:
    """Play the gateway controller: whatever is asked for is done."""
    good = [
        {"type": type_, "status": "True", "reason": type_, "message": ""}
        for type_ in ("Accepted", "Programmed", "ResolvedRefs")
    ]

    async def both() -> bool:
        gateway = await operator_fixture.get(GATEWAYS, f"{name}-gateway")
        route = await operator_fixture.get(HTTP_ROUTES, f"{name}-httproute")
        return gateway is not None and route is not None

    await until(both)
    key = operator_fixture.key(f"{name}-gateway")
    body: Json = {"status": {"conditions": good}}
    await operator_fixture.client.patch(GATEWAYS, key, body, subresource="status")
    route = await operator_fixture.get(HTTP_ROUTES, f"{name}-httproute")
    assert route is not None
    parent = {"parentRef": route["spec"]["parentRefs"][0], "controllerName": "test"}
    body = {"status": {"parents": [parent | {"conditions": good}]}}
    key = operator_fixture.key(f"{name}-httproute")
    await operator_fixture.client.patch(HTTP_ROUTES, key, body, subresource="status")


async def test_an_incremental_upgrade_moves_the_traffic_step_by_step(
    gateways: OperatorFixture, name: str
) -> None:
    steps = incremental(step=50, surge=100, interval=1)
    config = scaled_config()
    old = await serving(gateways, name, upgradeStrategy=steps, rayClusterConfig=config)
    await accept(gateways, name)
    shares: list[tuple[int, ...]] = []
    await upgrade(gateways, name, scaled_config(NEXT))

    async def moved() -> bool:
        route = await gateways.get(HTTP_ROUTES, f"{name}-httproute")
        assert route is not None
        weights = tuple(one["weight"] for one in route["spec"]["rules"][0]["backendRefs"])
        if weights not in shares:
            shares.append(weights)
        status = (await gateways.get(RAY_SERVICES, name) or {}).get("status") or {}
        return serves(status) and active(status) != old

    await until(moved)
    assert (50, 50) in shares
    assert shares[0] == (100,)
