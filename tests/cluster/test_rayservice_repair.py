"""What a RayService owns is watched and repaired, at rest and with nothing else going on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from manta.api.gateway import Gateway, HTTPRoute
from manta.api.meta import Key
from manta.api.ray.resources import RAY_SERVICES
from manta.api.resources import GATEWAYS, HTTP_ROUTES, SERVICES, Resource
from manta.kube.client import Client
from manta.kube.errors import NotFound
from support.faults import status, touches
from support.raycluster import NAMESPACE, group
from support.rayservice import (
    GATEWAY_CRDS,
    World,
    a_world,
    accept_routes,
    condition,
    is_ready,
    message,
    operator,
    serves_from,
)
from support.rayservice_objects import cluster_config, incremental, scaled_config
from support.virtual import faulty, running, virtually

Until = Callable[[], Awaitable[bool]]


async def at_rest(world: World) -> str:
    """An incremental RayService that has been ready for five minutes; its cluster's name."""
    await world.create(upgradeStrategy=incremental(), rayClusterConfig=scaled_config())
    service = await world.until(is_ready)
    await asyncio.sleep(300)
    return service.status.active_service_status.ray_cluster_name


async def within(seconds: float, check: Until) -> None:
    async with asyncio.timeout(seconds):
        while not await check():
            await asyncio.sleep(0.1)


async def exists(world: World, resource: Resource, name: str) -> bool:
    try:
        await world.client.get(resource, Key(NAMESPACE, name))
    except NotFound:
        return False
    return True


def thing(kind: str, cluster: str) -> tuple[Resource, str]:
    return {
        "route": (HTTP_ROUTES, "demo-httproute"),
        "gateway": (GATEWAYS, "demo-gateway"),
        "cluster's serve Service": (SERVICES, f"{cluster}-serve-svc"),
        "head Service": (SERVICES, "demo-head-svc"),
    }[kind]


@pytest.mark.parametrize("kind", ["route", "gateway", "cluster's serve Service", "head Service"])
def test_what_is_deleted_at_rest_comes_back_within_seconds(kind: str) -> None:
    """S1."""

    @virtually
    async def scenario() -> None:
        async with (
            a_world(crds=GATEWAY_CRDS) as world,
            running(accept_routes(world)),
            operator(world),
        ):
            resource, name = thing(kind, await at_rest(world))
            await world.client.delete(resource, Key(NAMESPACE, name))
            await within(5, lambda: exists(world, resource, name))
            await world.until(is_ready, 10)

    scenario()


@virtually
async def test_the_stable_services_come_back_within_seconds() -> None:
    """S1, with the usual strategy."""
    async with a_world() as world, operator(world):
        await world.create()
        await world.until(is_ready)
        await asyncio.sleep(300)
        for name in ("demo-serve-svc", "demo-head-svc"):
            await world.client.delete(SERVICES, Key(NAMESPACE, name))
        for name in ("demo-serve-svc", "demo-head-svc"):
            await within(5, lambda name=name: exists(world, SERVICES, name))


async def weight(world: World) -> int:
    key = Key(NAMESPACE, "demo-httproute")
    route = await world.client.get(HTTP_ROUTES, key, into=HTTPRoute)
    return route.spec.rules[0].backend_refs[0].weight


@virtually
async def test_a_weight_and_a_class_that_were_changed_by_hand_are_restored() -> None:
    """S1."""
    async with a_world(crds=GATEWAY_CRDS) as world, running(accept_routes(world)), operator(world):
        await at_rest(world)
        key = Key(NAMESPACE, "demo-httproute")
        route = await world.client.get(HTTP_ROUTES, key)
        route["spec"]["rules"][0]["backendRefs"][0]["weight"] = 0
        await world.client.patch(HTTP_ROUTES, key, {"spec": route["spec"]})
        await within(5, lambda: _is(weight(world), 100))
        key = Key(NAMESPACE, "demo-gateway")
        await world.client.patch(GATEWAYS, key, {"spec": {"gatewayClassName": "another"}})
        await within(5, lambda: _is(gateway_class(world), "manta"))


async def gateway_class(world: World) -> str:
    key = Key(NAMESPACE, "demo-gateway")
    return (await world.client.get(GATEWAYS, key, into=Gateway)).spec.gateway_class_name


async def _is(found: Awaitable[object], wanted: object) -> bool:
    return await found == wanted


@pytest.mark.parametrize("kind", ["route", "gateway"])
def test_a_service_whose_way_in_cannot_be_made_again_is_not_ready(kind: str) -> None:
    """S1: readiness looks at the live objects."""

    @virtually
    async def scenario() -> None:
        async with a_world(crds=GATEWAY_CRDS) as world, running(accept_routes(world)):
            faults = faulty(world.plane)
            async with operator(world, Client(faults)):
                resource, name = thing(kind, await at_rest(world))
                refused = status(403, "Forbidden", "no more of these")
                faults.answer(touches(resource, "POST"), refused, times=8)
                await world.client.delete(resource, Key(NAMESPACE, name))
                service = await world.until(lambda one: not is_ready(one), 10)
                assert condition(service, "Ready") == ("False", "ZeroServeEndpoints")
                assert name in message(service)
                await world.until(is_ready, 120)

    scenario()


@virtually
async def test_a_weight_changed_by_hand_in_an_upgrade_is_no_step_of_it() -> None:
    """S1: only the step that a crash may have left unrecorded is taken from the HTTPRoute."""
    async with a_world(crds=GATEWAY_CRDS) as world, running(accept_routes(world)), operator(world):
        await at_rest(world)
        world.ray.deploy_after = None
        await world.edit(rayClusterConfig=scaled_config("rayproject/ray:2.61.0"))
        await world.until(lambda one: one.status.pending_service_status.target_capacity == 50)
        await asyncio.sleep(10)
        key = Key(NAMESPACE, "demo-httproute")
        route = await world.client.get(HTTP_ROUTES, key)
        refs = route["spec"]["rules"][0]["backendRefs"]
        refs[0]["weight"], refs[1]["weight"] = 0, 100
        await world.client.patch(HTTP_ROUTES, key, {"spec": route["spec"]})
        await within(5, lambda: _is(weight(world), 100))
        after = (await world.service()).status
        assert after.active_service_status.traffic_routed_percent == 100


@virtually
async def test_without_an_incremental_service_nobody_asks_for_gateways() -> None:
    """S1: the watches begin with the first RayService that needs them."""
    async with a_world(crds=GATEWAY_CRDS) as world:
        faults = faulty(world.plane)
        async with operator(world, Client(faults)):
            await world.create()
            await world.until(is_ready)
            await asyncio.sleep(60)
            assert [one for one in faults.log if "gateway.networking" in one.path] == []


# ── what the spec says of the stable Services ────────────────────────────────────────────


async def spec_of(world: World, name: str) -> dict[str, Any]:
    found = await world.client.get(SERVICES, Key(NAMESPACE, name))
    spec: dict[str, Any] = found["spec"]
    return spec


@virtually
async def test_the_serve_service_follows_its_type_and_affinity() -> None:
    """S3."""
    async with a_world() as world, operator(world):
        await world.create()
        await world.until(is_ready)
        before = await spec_of(world, "demo-serve-svc")
        asked = {"type": "NodePort", "sessionAffinity": "ClientIP"}
        await world.edit(serveService={"spec": asked})
        await asyncio.sleep(5)
        spec = await spec_of(world, "demo-serve-svc")
        assert (spec["type"], spec["sessionAffinity"]) == ("NodePort", "ClientIP")
        assert spec["clusterIP"] == before["clusterIP"]
        await world.edit(serveService=None)
        await asyncio.sleep(5)
        spec = await spec_of(world, "demo-serve-svc")
        assert (spec["type"], spec["sessionAffinity"]) == ("ClusterIP", "None")
        assert not any("nodePort" in port for port in spec["ports"])


@virtually
async def test_the_stable_services_follow_the_service_type_of_the_next_cluster() -> None:
    """S3: the head Service, headless until then, can only be made again."""
    async with a_world() as world, operator(world):
        await world.create()
        old = (await world.until(is_ready)).status.active_service_status.ray_cluster_name
        config = cluster_config("rayproject/ray:2.61.0")
        config["headGroupSpec"]["serviceType"] = "NodePort"
        await world.edit(rayClusterConfig=config)
        await world.until(serves_from(other_than=old))
        await asyncio.sleep(10)
        for name in ("demo-serve-svc", "demo-head-svc"):
            assert (name, (await spec_of(world, name))["type"]) == (name, "NodePort")


INTERNAL = {"cloud.example/load-balancer": "internal"}


@virtually
async def test_the_stable_head_service_keeps_the_users_annotations() -> None:
    """S4: and gives up those that the next spec no longer has."""
    async with a_world() as world, operator(world):
        config = cluster_config()
        config["headGroupSpec"]["headService"] = {
            "metadata": {"annotations": INTERNAL},
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True},
        }
        await world.create(rayClusterConfig=config)
        old = (await world.until(is_ready)).status.active_service_status.ray_cluster_name
        key = Key(NAMESPACE, "demo-head-svc")
        await world.client.patch(SERVICES, key, {"metadata": {"annotations": {"by": "others"}}})
        annotations = (await world.client.get(SERVICES, key))["metadata"]["annotations"]
        assert INTERNAL.items() <= annotations.items()
        whole = await world.client.get(RAY_SERVICES, world.key)
        whole["spec"]["rayClusterConfig"] = cluster_config("rayproject/ray:2.61.0")
        await world.client.replace(RAY_SERVICES, world.key, whole)
        await world.until(serves_from(other_than=old))
        await asyncio.sleep(5)
        annotations = (await world.client.get(SERVICES, key))["metadata"]["annotations"]
        assert annotations == {"by": "others"}


# ── the head's Serve proxy, and the first cluster ────────────────────────────────────────


@virtually
async def test_at_rest_a_dead_proxy_on_the_head_leaves_the_service_within_seconds() -> None:
    """S17: and comes back as soon as it answers."""
    async with a_world() as world, operator(world):
        await world.create()
        await world.until(is_ready)
        await asyncio.sleep(600)
        (head,) = await world.pods("ray.io/node-type=head")
        assert head["metadata"]["labels"]["ray.io/serve"] == "true"
        for healthy, label in ((False, "false"), (True, "true")):
            world.ray.healthy_proxies = healthy
            await within(4, lambda label=label: _is(head_label(world), label))


async def head_label(world: World) -> str:
    (head,) = await world.pods("ray.io/node-type=head")
    label: str = head["metadata"]["labels"]["ray.io/serve"]
    return label


@virtually
async def test_a_head_that_is_excluded_is_not_probed() -> None:
    """S17: nothing depends on it."""
    async with a_world() as world, operator(world):
        await world.create(excludeHeadPodFromServeSvc=True)
        await world.until(is_ready)
        await asyncio.sleep(60)
        probes = len(world.ray.probes)
        await asyncio.sleep(600)
        assert len(world.ray.probes) - probes <= 30


@pytest.mark.parametrize("strategy", ["NewCluster", "Incremental"])
def test_a_first_cluster_without_a_pod_that_takes_requests_is_promoted(strategy: str) -> None:
    """S19: there is no traffic that could be lost, and its workers may come with requests."""

    @virtually
    async def scenario() -> None:
        none = [group(replicas=0, minReplicas=0)]
        spec: dict[str, Any] = {"rayClusterConfig": cluster_config(groups=none)}
        if strategy == "Incremental":
            config = scaled_config(groups=none)
            spec = {"rayClusterConfig": config, "upgradeStrategy": incremental()}
        async with (
            a_world(crds=GATEWAY_CRDS) as world,
            running(accept_routes(world)),
            operator(world),
        ):
            await world.create(excludeHeadPodFromServeSvc=True, **spec)
            service = await world.until(
                lambda one: one.status.active_service_status.ray_cluster_name != "", 60
            )
            assert service.status.pending_service_status.ray_cluster_name == ""
            await asyncio.sleep(10)
            assert await exists(world, SERVICES, "demo-head-svc")
            assert condition(await world.service(), "Ready")[0] == "False"

    scenario()
