"""What a RayService owns is watched and repaired, at rest and with nothing else going on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
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
    Scenario,
    a_scenario,
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


async def at_rest(scenario: Scenario) -> str:
    """An incremental RayService that has been ready for five minutes; its cluster's name."""
    await scenario.create(upgradeStrategy=incremental(), rayClusterConfig=scaled_config())
    service = await scenario.until(is_ready)
    await asyncio.sleep(300)
    return service.status.active_service_status.ray_cluster_name


async def within(seconds: float, check: Until) -> None:
    async with asyncio.timeout(seconds):
        while not await check():
            await asyncio.sleep(0.1)


async def exists(scenario: Scenario, resource: Resource, name: str) -> bool:
    try:
        await scenario.client.get(resource, Key(NAMESPACE, name))
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
            a_scenario(crds=GATEWAY_CRDS) as scenario,
            running(accept_routes(scenario)),
            operator(scenario),
        ):
            resource, name = thing(kind, await at_rest(scenario))
            await scenario.client.delete(resource, Key(NAMESPACE, name))
            await within(5, lambda: exists(scenario, resource, name))
            await scenario.until(is_ready, 10)

    scenario()


@virtually
async def test_the_stable_services_come_back_within_seconds() -> None:
    """S1, with the usual strategy."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        await scenario.until(is_ready)
        await asyncio.sleep(300)
        for name in ("demo-serve-svc", "demo-head-svc"):
            await scenario.client.delete(SERVICES, Key(NAMESPACE, name))
        for name in ("demo-serve-svc", "demo-head-svc"):
            await within(5, partial(exists, scenario, SERVICES, name))


async def weight(scenario: Scenario) -> int:
    key = Key(NAMESPACE, "demo-httproute")
    route = await scenario.client.get(HTTP_ROUTES, key, into=HTTPRoute)
    return route.spec.rules[0].backend_refs[0].weight


@virtually
async def test_a_weight_and_a_class_that_were_changed_by_hand_are_restored() -> None:
    """S1."""
    async with (
        a_scenario(crds=GATEWAY_CRDS) as scenario,
        running(accept_routes(scenario)),
        operator(scenario),
    ):
        await at_rest(scenario)
        key = Key(NAMESPACE, "demo-httproute")
        route = await scenario.client.get(HTTP_ROUTES, key)
        route["spec"]["rules"][0]["backendRefs"][0]["weight"] = 0
        await scenario.client.patch(HTTP_ROUTES, key, {"spec": route["spec"]})
        await within(5, lambda: _is(weight(scenario), 100))
        key = Key(NAMESPACE, "demo-gateway")
        await scenario.client.patch(GATEWAYS, key, {"spec": {"gatewayClassName": "another"}})
        await within(5, lambda: _is(gateway_class(scenario), "manta"))


async def gateway_class(scenario: Scenario) -> str:
    key = Key(NAMESPACE, "demo-gateway")
    return (await scenario.client.get(GATEWAYS, key, into=Gateway)).spec.gateway_class_name


async def _is(found: Awaitable[object], wanted: object) -> bool:
    return await found == wanted


@pytest.mark.parametrize("kind", ["route", "gateway"])
def test_a_service_whose_way_in_cannot_be_made_again_is_not_ready(kind: str) -> None:
    """S1: readiness looks at the live objects."""

    @virtually
    async def scenario() -> None:
        async with a_scenario(crds=GATEWAY_CRDS) as scenario, running(accept_routes(scenario)):
            faults = faulty(scenario.plane)
            async with operator(scenario, Client(faults)):
                resource, name = thing(kind, await at_rest(scenario))
                refused = status(403, "Forbidden", "no more of these")
                faults.answer(touches(resource, "POST"), refused, times=8)
                await scenario.client.delete(resource, Key(NAMESPACE, name))
                service = await scenario.until(lambda one: not is_ready(one), 10)
                assert condition(service, "Ready") == ("False", "ZeroServeEndpoints")
                assert name in message(service)
                await scenario.until(is_ready, 120)

    scenario()


@virtually
async def test_a_weight_changed_by_hand_in_an_upgrade_is_no_step_of_it() -> None:
    """S1: only the step that a crash may have left unrecorded is taken from the HTTPRoute."""
    async with (
        a_scenario(crds=GATEWAY_CRDS) as scenario,
        running(accept_routes(scenario)),
        operator(scenario),
    ):
        await at_rest(scenario)
        scenario.ray.deploy_after = None
        await scenario.edit(rayClusterConfig=scaled_config("rayproject/ray:2.61.0"))
        await scenario.until(lambda one: one.status.pending_service_status.target_capacity == 50)
        await asyncio.sleep(10)
        key = Key(NAMESPACE, "demo-httproute")
        route = await scenario.client.get(HTTP_ROUTES, key)
        refs = route["spec"]["rules"][0]["backendRefs"]
        refs[0]["weight"], refs[1]["weight"] = 0, 100
        await scenario.client.patch(HTTP_ROUTES, key, {"spec": route["spec"]})
        await within(5, lambda: _is(weight(scenario), 100))
        after = (await scenario.service()).status
        assert after.active_service_status.traffic_routed_percent == 100


@virtually
async def test_without_an_incremental_service_nobody_asks_for_gateways() -> None:
    """S1: the watches begin with the first RayService that needs them."""
    async with a_scenario(crds=GATEWAY_CRDS) as scenario:
        faults = faulty(scenario.plane)
        async with operator(scenario, Client(faults)):
            await scenario.create()
            await scenario.until(is_ready)
            await asyncio.sleep(60)
            assert [one for one in faults.log if "gateway.networking" in one.path] == []


# ── what the spec says of the stable Services ────────────────────────────────────────────


async def spec_of(scenario: Scenario, name: str) -> dict[str, Any]:
    found = await scenario.client.get(SERVICES, Key(NAMESPACE, name))
    spec: dict[str, Any] = found["spec"]
    return spec


@virtually
async def test_the_serve_service_follows_its_type_and_affinity() -> None:
    """S3."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        await scenario.until(is_ready)
        before = await spec_of(scenario, "demo-serve-svc")
        asked = {"type": "NodePort", "sessionAffinity": "ClientIP"}
        await scenario.edit(serveService={"spec": asked})
        await asyncio.sleep(5)
        spec = await spec_of(scenario, "demo-serve-svc")
        assert (spec["type"], spec["sessionAffinity"]) == ("NodePort", "ClientIP")
        assert spec["clusterIP"] == before["clusterIP"]
        await scenario.edit(serveService=None)
        await asyncio.sleep(5)
        spec = await spec_of(scenario, "demo-serve-svc")
        assert (spec["type"], spec["sessionAffinity"]) == ("ClusterIP", "None")
        assert not any("nodePort" in port for port in spec["ports"])


@virtually
async def test_the_stable_services_follow_the_service_type_of_the_next_cluster() -> None:
    """S3: the head Service, headless until then, can only be made again."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        old = (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name
        config = cluster_config("rayproject/ray:2.61.0")
        config["headGroupSpec"]["serviceType"] = "NodePort"
        await scenario.edit(rayClusterConfig=config)
        await scenario.until(serves_from(other_than=old))
        await asyncio.sleep(10)
        for name in ("demo-serve-svc", "demo-head-svc"):
            assert (name, (await spec_of(scenario, name))["type"]) == (name, "NodePort")


INTERNAL = {"cloud.example/load-balancer": "internal"}


@virtually
async def test_the_stable_head_service_keeps_the_users_annotations() -> None:
    """S4: and gives up those that the next spec no longer has."""
    async with a_scenario() as scenario, operator(scenario):
        config = cluster_config()
        config["headGroupSpec"]["headService"] = {
            "metadata": {"annotations": INTERNAL},
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True},
        }
        await scenario.create(rayClusterConfig=config)
        old = (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name
        key = Key(NAMESPACE, "demo-head-svc")
        await scenario.client.patch(SERVICES, key, {"metadata": {"annotations": {"by": "others"}}})
        annotations = (await scenario.client.get(SERVICES, key))["metadata"]["annotations"]
        assert INTERNAL.items() <= annotations.items()
        whole = await scenario.client.get(RAY_SERVICES, scenario.key)
        whole["spec"]["rayClusterConfig"] = cluster_config("rayproject/ray:2.61.0")
        await scenario.client.replace(RAY_SERVICES, scenario.key, whole)
        await scenario.until(serves_from(other_than=old))
        await asyncio.sleep(5)
        annotations = (await scenario.client.get(SERVICES, key))["metadata"]["annotations"]
        assert annotations == {"by": "others"}


# ── the head's Serve proxy, and the first cluster ────────────────────────────────────────


@virtually
async def test_at_rest_a_dead_proxy_on_the_head_leaves_the_service_within_seconds() -> None:
    """S17: and comes back as soon as it answers."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        await scenario.until(is_ready)
        await asyncio.sleep(600)
        (head,) = await scenario.pods("ray.io/node-type=head")
        assert head["metadata"]["labels"]["ray.io/serve"] == "true"
        for healthy, label in ((False, "false"), (True, "true")):
            scenario.ray.healthy_proxies = healthy
            await within(4, partial(head_label_is, scenario, label))


async def head_label_is(scenario: Scenario, wanted: str) -> bool:
    return await head_label(scenario) == wanted


async def head_label(scenario: Scenario) -> str:
    (head,) = await scenario.pods("ray.io/node-type=head")
    label: str = head["metadata"]["labels"]["ray.io/serve"]
    return label


@virtually
async def test_a_head_that_is_excluded_is_not_probed() -> None:
    """S17: nothing depends on it."""
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(excludeHeadPodFromServeSvc=True)
        await scenario.until(is_ready)
        await asyncio.sleep(60)
        probes = len(scenario.ray.probes)
        await asyncio.sleep(600)
        assert len(scenario.ray.probes) - probes <= 30


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
            a_scenario(crds=GATEWAY_CRDS) as scenario,
            running(accept_routes(scenario)),
            operator(scenario),
        ):
            await scenario.create(excludeHeadPodFromServeSvc=True, **spec)
            service = await scenario.until(
                lambda one: one.status.active_service_status.ray_cluster_name != "", 60
            )
            assert service.status.pending_service_status.ray_cluster_name == ""
            await asyncio.sleep(10)
            assert await exists(scenario, SERVICES, "demo-head-svc")
            assert condition(await scenario.service(), "Ready")[0] == "False"

    scenario()
