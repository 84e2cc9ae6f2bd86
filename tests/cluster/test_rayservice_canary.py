"""Canaries on the embedded server: the new cluster takes traffic in steps, and the old one gives its GPUs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.ray.service import RayService
from manta.api.resources import PODS
from manta.kube.client import Client
from support.canary import canary, gpu_config, gpus_watched, has_traffic, no_image
from support.faults import status, touches
from support.raycluster import NAMESPACE
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
    until_killed_or,
)
from support.rayservice_objects import incremental, scaled_config
from support.virtual import faulty, running, virtually

NEXT = "rayproject/ray:2.61.0"


async def a_first_cluster(scenario: Scenario, *weights: int, **options: Any) -> str:
    await scenario.create(
        upgradeStrategy=canary(*weights, **options), rayClusterConfig=gpu_config()
    )
    service = await scenario.until(is_ready)
    return service.status.active_service_status.ray_cluster_name


def has_no_pending(service: RayService) -> bool:
    return condition(service, "UpgradeInProgress")[0] == "False"


async def workers(scenario: Scenario, cluster: str) -> int:
    return len(await scenario.pods(f"ray.io/cluster={cluster},ray.io/node-type=worker"))


async def annotate(scenario: Scenario, name: str, value: str | None) -> None:
    body = {"metadata": {"annotations": {name: value}}}
    await scenario.client.patch(RAY_SERVICES, scenario.key, body)


async def abort(scenario: Scenario, service: RayService) -> None:
    new = service.status.pending_service_status.ray_cluster_name
    await annotate(scenario, "manta.ray.io/canary-abort", new)


@virtually
async def test_the_new_cluster_takes_over_in_steps_within_the_surge() -> None:
    async with a_scenario() as scenario, operator(scenario), gpus_watched(scenario) as oracle:
        old = await a_first_cluster(scenario)
        await asyncio.sleep(10)
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        service = await scenario.until(has_traffic(25))
        new = service.status.pending_service_status.ray_cluster_name
        await asyncio.sleep(1)
        assert (await workers(scenario, old), await workers(scenario, new)) == (3, 1)
        await scenario.until(has_traffic(50))
        await asyncio.sleep(1)
        assert (await workers(scenario, old), await workers(scenario, new)) == (2, 2)
        await scenario.until(serves_from(other_than=old), 600)
        assert await scenario.selected() == new
        await asyncio.sleep(90)
        assert await scenario.cluster_names() == {new}
        assert await workers(scenario, new) == 4
        assert oracle.most_gpus == 5
        assert oracle.empty == 0
        new_pods = [count for _, count in oracle.shares]
        assert new_pods == sorted(new_pods), "a Pod of the new cluster lost its requests"
        assert [one.get("target_capacity") for one in scenario.head(new).puts] == [25, 50, 75, None]
        [cluster] = await scenario.clusters()
        assert "manta.ray.io/full-size" not in cluster["metadata"]["annotations"]
        assert cluster["spec"]["workerGroupSpecs"][0]["replicas"] == 4
        status = (await scenario.service()).status.active_service_status
        assert (status.traffic_routed_percent, status.target_capacity) == (None, None)


async def take_idle_workers(scenario: Scenario, cluster: str) -> None:
    """Plays the autoscaler of a cluster in which Serve needs no worker: it goes down to minReplicas."""
    while True:
        await asyncio.sleep(5)
        found = await scenario.client.get(RAY_CLUSTERS, Key(NAMESPACE, cluster))
        group = found["spec"]["workerGroupSpecs"][0]
        pods = await scenario.pods(f"ray.io/cluster={cluster},ray.io/node-type=worker")
        living = [one for one in pods if "deletionTimestamp" not in one["metadata"]]
        if len(living) > group["minReplicas"]:
            base, gone = "/spec/workerGroupSpecs/0", living[-1]["metadata"]["name"]
            patch = [
                {"op": "add", "path": f"{base}/replicas", "value": len(living) - 1},
                {
                    "op": "add",
                    "path": f"{base}/scaleStrategy",
                    "value": {"workersToDelete": [gone]},
                },
            ]
            await scenario.client.patch(RAY_CLUSTERS, Key(NAMESPACE, cluster), patch, kind="json")


@virtually
async def test_min_replicas_of_an_autoscaled_cluster_do_not_stop_its_canary() -> None:
    """Found by the simulation: the autoscaler keeps minReplicas however idle they are, and the canary waited for ever."""

    def config(image: str) -> dict[str, Any]:
        found = {**gpu_config(image, workers=2), "enableInTreeAutoscaling": True}
        found["workerGroupSpecs"] = [{**found["workerGroupSpecs"][0], "minReplicas": 2}]
        return found

    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(
            upgradeStrategy=canary(), rayClusterConfig=config("rayproject/ray:2.60.0")
        )
        old = (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name
        await scenario.edit(rayClusterConfig=config(NEXT))
        service = await scenario.until(has_traffic(50))
        new = service.status.pending_service_status.ray_cluster_name
        async with running(take_idle_workers(scenario, old)):
            await scenario.until(serves_from(other_than=old), 900)
        await asyncio.sleep(90)
        assert await scenario.cluster_names() == {new}
        [cluster] = await scenario.clusters()
        group = cluster["spec"]["workerGroupSpecs"][0]
        assert (group["minReplicas"], group["maxReplicas"]) == (2, 10)


@virtually
async def test_an_aborted_canary_gives_all_back_to_the_old_cluster() -> None:
    async with a_scenario() as scenario, operator(scenario), gpus_watched(scenario) as oracle:
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        service = await scenario.until(has_traffic(50))
        await abort(scenario, service)
        await scenario.until(lambda one: condition(one, "RollbackInProgress")[0] == "True")
        assert await scenario.selected() == old
        await scenario.until(has_no_pending)
        assert "aborted by hand" in message(await scenario.service(), "UpgradeInProgress")
        await asyncio.sleep(30)
        assert await scenario.cluster_names() == {old}
        assert await workers(scenario, old) == 4
        assert oracle.most_gpus == 5
        assert oracle.empty == 0
        assert scenario.head(old).puts[-1].get("target_capacity") is None
        cluster = await scenario.client.get(RAY_CLUSTERS, Key(NAMESPACE, old))
        assert "manta.ray.io/full-size" not in cluster["metadata"]["annotations"]


@virtually
async def test_an_edit_right_after_an_abort_begins_its_own_canary() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        service = await scenario.until(has_traffic(50))
        await abort(scenario, service)
        await scenario.until(lambda one: condition(one, "RollbackInProgress")[0] == "True")
        await scenario.edit(rayClusterConfig=gpu_config("rayproject/ray:2.62.0"))
        await scenario.until(serves_from(other_than=old), 900)


@virtually
async def test_an_edit_right_after_the_deadline_begins_its_own_canary() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario, progressDeadlineSeconds=60)
        await scenario.edit(rayClusterConfig=gpu_config_of_both(NEXT))
        await scenario.until(has_traffic(25))
        scenario.kubelet.script = lambda pod: no_image(pod, "worker", NEXT)
        await scenario.until(lambda one: condition(one, "RollbackInProgress")[0] == "True")
        await scenario.edit(rayClusterConfig=gpu_config_of_both("rayproject/ray:2.62.0"))
        await scenario.until(serves_from(other_than=old), 900)


@pytest.mark.timeout(900)
@virtually
async def test_an_operator_that_is_killed_after_every_write_ends_the_canary() -> None:
    async with a_scenario() as scenario, gpus_watched(scenario) as oracle:
        async with operator(scenario):
            old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        was_killed = True
        while was_killed:
            faults = faulty(scenario.plane)
            async with operator(scenario, Client(faults)):
                was_killed = await until_killed_or(faults, 1, 90)
        assert serves_from(other_than=old)(await scenario.service())
        assert len(await scenario.cluster_names()) == 1
        assert (oracle.most_gpus, oracle.empty) == (5, 0)


@pytest.mark.timeout(900)
@virtually
async def test_an_operator_that_is_killed_after_every_write_rolls_back() -> None:
    async with a_scenario() as scenario, gpus_watched(scenario) as oracle:
        async with operator(scenario):
            old = await a_first_cluster(scenario)
            await scenario.edit(rayClusterConfig=gpu_config(NEXT))
            service = await scenario.until(has_traffic(50))
        await abort(scenario, service)
        was_killed = True
        while was_killed:
            faults = faulty(scenario.plane)
            async with operator(scenario, Client(faults)):
                was_killed = await until_killed_or(faults, 1, 90)
        assert await scenario.selected() == old
        assert await scenario.cluster_names() == {old}
        assert await workers(scenario, old) == 4
        assert (oracle.most_gpus, oracle.empty) == (5, 0)


@virtually
async def test_a_step_waits_until_it_is_promoted() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario, 25, 50, automatic=False)
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        service = await scenario.until(has_traffic(25))
        await asyncio.sleep(120)
        service = await scenario.service()
        assert has_traffic(25)(service)
        assert "`manta upgrade promote demo`" in message(service, "UpgradeInProgress")
        new = service.status.pending_service_status.ray_cluster_name
        await annotate(scenario, "manta.ray.io/canary-promote", f"{new}/1")
        await scenario.until(has_traffic(50))
        await asyncio.sleep(120)
        assert has_traffic(50)(await scenario.service())
        await annotate(scenario, "manta.ray.io/canary-promote", f"{new}/all")
        await scenario.until(serves_from(other_than=old))


@virtually
async def test_a_paused_canary_takes_no_further_step() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        await annotate(scenario, "manta.ray.io/canary-pause", "true")
        await scenario.until(has_traffic(25))
        await asyncio.sleep(120)
        assert "it is paused" in message(await scenario.service(), "UpgradeInProgress")
        await annotate(scenario, "manta.ray.io/canary-pause", None)
        await scenario.until(serves_from(other_than=old))


@virtually
async def test_a_third_spec_rolls_back_first_and_then_begins_its_own_canary() -> None:
    async with a_scenario() as scenario, operator(scenario), gpus_watched(scenario) as oracle:
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        service = await scenario.until(has_traffic(50))
        second = service.status.pending_service_status.ray_cluster_name
        await scenario.edit(rayClusterConfig=gpu_config("rayproject/ray:2.62.0"))
        await scenario.until(lambda one: condition(one, "RollbackInProgress")[0] == "True")
        assert await scenario.selected() == old
        await scenario.until(serves_from(other_than=old), 900)
        assert second not in await scenario.cluster_names()
        assert (oracle.most_gpus, oracle.empty) == (5, 0)


@virtually
async def test_the_spec_of_the_old_cluster_ends_the_canary() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        await scenario.until(has_traffic(25))
        await scenario.edit(rayClusterConfig=gpu_config())
        await scenario.until(has_no_pending)
        await asyncio.sleep(90)
        assert await scenario.cluster_names() == {old}
        assert await workers(scenario, old) == 4


@virtually
async def test_a_lost_old_cluster_leaves_the_service_to_the_new_one() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        service = await scenario.until(has_traffic(25))
        new = service.status.pending_service_status.ray_cluster_name
        await scenario.client.delete(RAY_CLUSTERS, Key(NAMESPACE, old))
        await scenario.until(serves_from(other_than=old))
        await asyncio.sleep(30)
        assert await workers(scenario, new) == 4


@pytest.mark.parametrize(("size", "surge"), [(4, 1), (5, 3)])
@virtually
async def test_a_new_cluster_that_somebody_deletes_begins_again_within_the_surge(
    size: int, surge: int
) -> None:
    async with a_scenario() as scenario, operator(scenario), gpus_watched(scenario) as oracle:
        strategy = canary(50, maxSurge=surge)
        await scenario.create(upgradeStrategy=strategy, rayClusterConfig=gpu_config(workers=size))
        old = (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name
        await scenario.edit(rayClusterConfig=gpu_config(NEXT, size))
        service = await scenario.until(has_traffic(50))
        await asyncio.sleep(2)
        new = service.status.pending_service_status.ray_cluster_name
        await scenario.client.delete(RAY_CLUSTERS, Key(NAMESPACE, new))
        await scenario.until(serves_from(other_than=old), 900)
        await asyncio.sleep(90)
        assert await workers(scenario, new) == size
        assert (oracle.most_gpus, oracle.empty) == (size + surge, 0)


@virtually
async def test_the_old_cluster_grows_while_a_new_one_is_refused() -> None:
    """It takes all requests. The room that the new cluster needs stays free."""
    async with a_scenario() as scenario, gpus_watched(scenario) as oracle:
        faults = faulty(scenario.plane)
        async with operator(scenario, Client(faults)):
            old = await a_first_cluster(scenario, 50)
            await scenario.edit(rayClusterConfig=gpu_config(NEXT))
            service = await scenario.until(has_traffic(50))
            await asyncio.sleep(2)
            assert await workers(scenario, old) == 2
            creates, is_refused = touches(RAY_CLUSTERS, "POST"), True
            quota = status(403, "Forbidden", "exceeded quota: team")
            faults.answer(lambda one: is_refused and creates(one), quota, times=None)
            new = service.status.pending_service_status.ray_cluster_name
            await scenario.client.delete(RAY_CLUSTERS, Key(NAMESPACE, new))
            await asyncio.sleep(120)
            assert await workers(scenario, old) == 3
            is_refused = False
            await scenario.until(serves_from(other_than=old), 900)
            assert (oracle.most_gpus, oracle.empty) == (5, 0)


@virtually
async def test_another_strategy_ends_the_canary_at_full_size() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario)
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        service = await scenario.until(has_traffic(25))
        new = service.status.pending_service_status.ray_cluster_name
        await scenario.edit(upgradeStrategy={"type": "NewCluster", "canaryUpgradeOptions": None})
        await scenario.until(serves_from(other_than=old))
        await asyncio.sleep(90)
        assert await workers(scenario, new) == 4
        assert await scenario.cluster_names() == {new}


@virtually
async def test_behind_a_gateway_the_route_has_the_exact_weights() -> None:
    async with (
        a_scenario(crds=GATEWAY_CRDS) as scenario,
        running(accept_routes(scenario)),
        operator(scenario),
    ):
        old = await a_first_cluster(scenario, 10, 50, gatewayClassName="manta")
        await asyncio.sleep(5)
        assert await scenario.weights() == {old: 100}
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        service = await scenario.until(has_traffic(10))
        new = service.status.pending_service_status.ray_cluster_name
        await asyncio.sleep(1)
        assert await scenario.weights() == {old: 90, new: 10}
        await scenario.until(has_traffic(50))
        await asyncio.sleep(1)
        assert await scenario.weights() == {old: 50, new: 50}
        await scenario.until(serves_from(other_than=old), 600)
        await asyncio.sleep(5)
        assert await scenario.weights() == {new: 100}


@virtually
async def test_behind_a_gateway_an_abort_moves_the_weights_back_at_once() -> None:
    async with (
        a_scenario(crds=GATEWAY_CRDS) as scenario,
        running(accept_routes(scenario)),
        operator(scenario),
    ):
        old = await a_first_cluster(scenario, 25, gatewayClassName="manta")
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        service = await scenario.until(has_traffic(25))
        await abort(scenario, service)
        await scenario.until(lambda one: condition(one, "RollbackInProgress")[0] == "True")
        assert (await scenario.weights())[old] == 100
        await scenario.until(has_no_pending)
        await asyncio.sleep(5)
        assert await scenario.weights() == {old: 100}


@virtually
async def test_an_incremental_upgrade_of_long_ago_does_not_end_the_first_canary() -> None:
    async with (
        a_scenario(crds=GATEWAY_CRDS) as scenario,
        running(accept_routes(scenario)),
        operator(scenario),
    ):
        await scenario.create(upgradeStrategy=incremental(), rayClusterConfig=scaled_config())
        first = (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name
        await scenario.edit(rayClusterConfig=scaled_config("rayproject/ray:2.60.1"))
        service = await scenario.until(serves_from(other_than=first), 600)
        old = service.status.active_service_status.ray_cluster_name
        await asyncio.sleep(3600)
        await scenario.edit(upgradeStrategy=canary(), rayClusterConfig=scaled_config(NEXT))
        await scenario.until(serves_from(other_than=old), 600)


@virtually
async def test_options_in_the_annotation_count_where_the_crd_drops_the_field() -> None:
    options = "steps: [{weight: 50, pauseSeconds: 5}]"
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(
            annotations={"manta.ray.io/canary": options},
            upgradeStrategy={"type": "Canary"},
            rayClusterConfig=gpu_config(),
        )
        old = (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        service = await scenario.until(has_traffic(50))
        new = service.status.pending_service_status.ray_cluster_name
        cluster = await scenario.client.get(RAY_CLUSTERS, Key(NAMESPACE, new))
        assert "manta.ray.io/canary" not in cluster["metadata"]["annotations"]
        await scenario.until(serves_from(other_than=old))


# ── Ray's autoscaler ─────────────────────────────────────────────────────────────────────


async def autoscale(scenario: Scenario, full: int) -> None:
    """As Ray's autoscaler does: as many workers as Serve needs, within the bounds; idle ones go."""
    while True:
        await asyncio.sleep(1)
        for cluster in await scenario.clusters():
            name, group = cluster["metadata"]["name"], cluster["spec"]["workerGroupSpecs"][0]
            puts = scenario.head(name).puts
            percent = (puts[-1].get("target_capacity") if puts else None) or 100
            wanted = min(max(group["minReplicas"], full * percent // 100), group["maxReplicas"])
            if wanted != group["replicas"]:
                await _rescale(scenario, name, group["replicas"], wanted)


async def _rescale(scenario: Scenario, cluster: str, has: int, wanted: int) -> None:
    pods = await scenario.pods(f"ray.io/cluster={cluster},ray.io/node-type=worker")
    alive = sorted(
        one["metadata"]["name"] for one in pods if "deletionTimestamp" not in one["metadata"]
    )
    at = "/spec/workerGroupSpecs/0"
    patch = [{"op": "add", "path": f"{at}/replicas", "value": wanted}]
    if wanted < has:
        gone = {"workersToDelete": alive[: len(alive) - wanted]}
        patch.append({"op": "add", "path": f"{at}/scaleStrategy", "value": gone})
    await scenario.client.patch(RAY_CLUSTERS, Key(NAMESPACE, cluster), patch, kind="json")


@virtually
async def test_with_an_autoscaler_the_bounds_follow_the_steps() -> None:
    def config(image: str) -> dict[str, Any]:
        return gpu_config(image) | {"enableInTreeAutoscaling": True}

    async with (
        a_scenario() as scenario,
        operator(scenario),
        gpus_watched(scenario) as oracle,
        running(autoscale(scenario, 4)),
    ):
        await scenario.create(
            upgradeStrategy=canary(25, 50), rayClusterConfig=config("rayproject/ray:2.60.0")
        )
        old = (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name
        await asyncio.sleep(10)
        await scenario.edit(rayClusterConfig=config(NEXT))
        await scenario.until(has_traffic(50), 600)
        await scenario.until(serves_from(other_than=old), 900)
        await asyncio.sleep(90)
        [cluster] = await scenario.clusters()
        group = cluster["spec"]["workerGroupSpecs"][0]
        assert (group["minReplicas"], group["maxReplicas"], group["replicas"]) == (0, 10, 4)
        assert (oracle.most_gpus, oracle.empty) == (5, 0)


# ── without progress ─────────────────────────────────────────────────────────────────────


def gpu_config_of_both(image: str) -> dict[str, Any]:
    """The workers get the image of the head, too."""
    config = gpu_config(image)
    [one] = config["workerGroupSpecs"]
    one["template"]["spec"]["containers"][0]["image"] = image
    return config


@pytest.mark.parametrize("kind", ["head", "worker"])
@virtually
async def test_a_new_cluster_that_never_starts_is_rolled_back_at_the_deadline(kind: str) -> None:
    async with a_scenario() as scenario, operator(scenario), gpus_watched(scenario) as oracle:
        scenario.kubelet.script = lambda pod: no_image(pod, kind, NEXT)
        old = await a_first_cluster(scenario, progressDeadlineSeconds=60)
        await scenario.edit(rayClusterConfig=gpu_config_of_both(NEXT))
        await scenario.until(lambda one: one.status.pending_service_status.ray_cluster_name != "")
        await asyncio.sleep(55)
        assert condition(await scenario.service(), "UpgradeInProgress")[0] == "True"
        service = await scenario.until(has_no_pending)
        assert condition(service, "UpgradeInProgress")[1] == "CanaryRejected"
        told = message(service, "UpgradeInProgress")
        assert "no progress for 60 s at step 1 of 3 (25 %)" in told
        assert "ImagePullBackOff" in told
        assert "manta upgrade resume demo" in told
        await asyncio.sleep(60)
        assert await scenario.cluster_names() == {old}
        assert await workers(scenario, old) == 4
        assert (
            await scenario.service()
        ).status.active_service_status.last_traffic_migrated_time is None
        assert (oracle.most_gpus, oracle.empty) == (5, 0)


@pytest.mark.timeout(900)
@virtually
async def test_the_deadline_holds_over_operators_that_are_killed_after_every_write() -> None:
    async with a_scenario() as scenario, gpus_watched(scenario) as oracle:
        scenario.kubelet.script = lambda pod: no_image(pod, "worker", NEXT)
        async with operator(scenario):
            old = await a_first_cluster(scenario, progressDeadlineSeconds=60)
        await scenario.edit(rayClusterConfig=gpu_config_of_both(NEXT))
        was_killed = True
        while was_killed:
            faults = faulty(scenario.plane)
            async with operator(scenario, Client(faults)):
                was_killed = await until_killed_or(faults, 1, 120)
        assert condition(await scenario.service(), "UpgradeInProgress")[1] == "CanaryRejected"
        assert await scenario.cluster_names() == {old}
        assert await workers(scenario, old) == 4
        assert (oracle.most_gpus, oracle.empty) == (5, 0)


@virtually
async def test_the_deadline_does_not_run_while_no_operator_does() -> None:
    async with a_scenario() as scenario:
        scenario.kubelet.script = lambda pod: no_image(pod, "worker", NEXT)
        async with operator(scenario):
            old = await a_first_cluster(scenario, progressDeadlineSeconds=60)
            await scenario.edit(rayClusterConfig=gpu_config_of_both(NEXT))
            await scenario.until(
                lambda one: one.status.pending_service_status.ray_cluster_name != ""
            )
            await asyncio.sleep(5)
        await asyncio.sleep(3600)
        async with operator(scenario):
            await asyncio.sleep(30)
            assert condition(await scenario.service(), "UpgradeInProgress")[0] == "True"
            service = await scenario.until(has_no_pending)
            assert condition(service, "UpgradeInProgress")[1] == "CanaryRejected"
            assert service.status.active_service_status.ray_cluster_name == old


@virtually
async def test_a_reached_step_may_wait_longer_than_the_deadline() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario, 25, pause=300, progressDeadlineSeconds=60)
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        await scenario.until(has_traffic(25))
        await asyncio.sleep(290)
        assert has_traffic(25)(await scenario.service())
        await scenario.until(serves_from(other_than=old))


@virtually
async def test_old_workers_may_drain_longer_than_the_deadline() -> None:
    async with a_scenario() as scenario, operator(scenario):
        end_at_once = scenario.kubelet._remove

        async def drain(pod: dict[str, Any]) -> None:
            await asyncio.sleep(100)
            await end_at_once(pod)

        scenario.kubelet._remove = drain  # type: ignore[method-assign]
        await scenario.create(
            upgradeStrategy=canary(progressDeadlineSeconds=60),
            rayClusterConfig=gpu_config(),
            annotations={"manta.ray.io/drain-seconds": "120"},
        )
        old = (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name
        await scenario.edit(rayClusterConfig=gpu_config(NEXT))
        await scenario.until(serves_from(other_than=old), 1800)


@virtually
async def test_a_new_cluster_that_cannot_be_created_is_given_up_at_the_deadline() -> None:
    async with a_scenario() as scenario:
        faults = faulty(scenario.plane)
        async with operator(scenario, Client(faults)):
            old = await a_first_cluster(scenario, progressDeadlineSeconds=60)
            faults.deny(touches(RAY_CLUSTERS, "POST"), times=None)
            await scenario.edit(rayClusterConfig=gpu_config(NEXT))
            await scenario.until(
                lambda one: bool(one.status.pending_service_status.ray_cluster_name)
            )
            service = await scenario.until(has_no_pending)
            assert "no progress for 60 s" in message(service, "UpgradeInProgress")
            assert await scenario.cluster_names() == {old}


@virtually
async def test_workers_that_are_refused_are_the_reason_of_the_rollback() -> None:
    async with a_scenario() as scenario:
        faults = faulty(scenario.plane)
        async with operator(scenario, Client(faults)):
            old = await a_first_cluster(scenario, progressDeadlineSeconds=60)
            creates = touches(PODS, "POST")
            faults.deny(lambda one: creates(one) and b"-worker-" in (one.body or b""), times=None)
            await scenario.edit(rayClusterConfig=gpu_config(NEXT))
            await scenario.until(
                lambda one: "denied by injection" in message(one, "UpgradeInProgress")
            )
            service = await scenario.until(has_no_pending)
            assert "no progress for 60 s" in message(service, "UpgradeInProgress")
            assert "denied by injection" in message(service, "UpgradeInProgress")
            assert await scenario.cluster_names() >= {old}


@virtually
async def test_the_clock_stands_while_a_queue_holds_the_new_cluster() -> None:
    async with a_scenario() as scenario, operator(scenario):
        old = await a_first_cluster(scenario, progressDeadlineSeconds=60)
        await scenario.edit(rayClusterConfig=gpu_config(NEXT) | {"suspend": True})
        service = await scenario.until(
            lambda one: one.status.pending_service_status.ray_cluster_name != ""
        )
        new = service.status.pending_service_status.ray_cluster_name
        await asyncio.sleep(200)
        assert condition(await scenario.service(), "UpgradeInProgress")[0] == "True"
        body = {"spec": {"suspend": False}}
        await scenario.client.patch(RAY_CLUSTERS, Key(NAMESPACE, new), body)
        await scenario.until(serves_from(other_than=old), 600)


@virtually
async def test_gpus_of_a_head_are_said_beside_the_surge() -> None:
    def config(image: str) -> dict[str, Any]:
        found = gpu_config(image)
        ray = found["headGroupSpec"]["template"]["spec"]["containers"][0]
        ray["resources"] = {"limits": {"cpu": "1", "nvidia.com/gpu": "2"}}
        return found

    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(
            upgradeStrategy=canary(25), rayClusterConfig=config("rayproject/ray:2.60.0")
        )
        await scenario.until(is_ready)
        await scenario.edit(rayClusterConfig=config(NEXT))
        service = await scenario.until(has_traffic(25))
        assert "the new head needs 2 GPUs beside maxSurge" in message(service, "UpgradeInProgress")
