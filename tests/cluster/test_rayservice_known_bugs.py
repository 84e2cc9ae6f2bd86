"""KubeRay's known bugs of RayServices (C28, C43 to C54), each as a test that would find it again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from manta.api.conditions import find
from manta.api.meta import Key
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import EVENTS, PODS, SERVICES
from manta.kube.client import Client
from manta.kube.transport import Request
from support.faults import touches
from support.raycluster import NAMESPACE
from support.rayservice import (
    Scenario,
    a_scenario,
    condition,
    is_ready,
    message,
    operator,
    serves_from,
    watched,
)
from support.rayservice_objects import cluster_config
from support.virtual import faulty, virtually

NEXT = "rayproject/ray:2.61.0"


async def ready(scenario: Scenario) -> str:
    return (await scenario.until(is_ready)).status.active_service_status.ray_cluster_name


@virtually
async def test_c28_the_nested_status_is_the_clusters_own() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        key = Key(NAMESPACE, await ready(scenario))
        await asyncio.sleep(5)
        patch = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/maxReplicas", "value": 7}]
        await scenario.client.patch(RAY_CLUSTERS, key, patch, kind="json")
        await asyncio.sleep(5)
        service = await scenario.service()
        cluster = await scenario.client.get(RAY_CLUSTERS, key, into=RayCluster)
        assert service.status.active_service_status.ray_cluster_status == cluster.status
        reported = {one.observed_generation for one in service.status.conditions}
        assert reported == {service.metadata.generation} == {service.status.observed_generation}


@virtually
async def test_c43_the_autoscalers_edits_make_no_new_cluster() -> None:
    async with a_scenario() as scenario, watched(scenario, most_clusters=1), operator(scenario):
        await scenario.create(rayClusterConfig=cluster_config(enableInTreeAutoscaling=True))
        cluster = Key(NAMESPACE, await ready(scenario))
        at = "/spec/workerGroupSpecs/0"
        for number in range(100):
            patch = [
                {"op": "add", "path": f"{at}/replicas", "value": number % 3},
                {
                    "op": "add",
                    "path": f"{at}/scaleStrategy",
                    "value": {"workersToDelete": [f"gone-{number}"]},
                },
            ]
            await scenario.client.patch(RAY_CLUSTERS, cluster, patch, kind="json")
            await asyncio.sleep(0.5)
        assert await scenario.cluster_names() == {cluster.name}


@virtually
async def test_c44_a_config_that_deploys_for_long_is_submitted_once() -> None:
    async with a_scenario(deploy_after=20 * 60) as scenario, operator(scenario):
        await scenario.create()
        service = await scenario.until(lambda one: "DEPLOYING" in message(one))
        cluster = service.status.pending_service_status.ray_cluster_name
        await scenario.until(is_ready, 25 * 60)
        assert len(scenario.head(cluster).puts) == 1


@virtually
async def test_c45_only_heads_are_asked() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        cluster = await ready(scenario)
        assert {service for _, _, service in scenario.ray.calls} == {f"{cluster}-head-svc"}
        (head,) = await scenario.pods("ray.io/node-type=head")
        assert all(head["status"]["podIP"] in url for url in scenario.ray.probes)


@virtually
async def test_c46_a_head_service_of_the_users_making_blocks_no_upgrade() -> None:
    def config(image: str) -> dict[str, Any]:
        custom = {"headService": {"metadata": {"labels": {"team": "ml"}}, "spec": {}}}
        made = cluster_config(image)
        return made | {"headGroupSpec": made["headGroupSpec"] | custom}

    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(rayClusterConfig=config("rayproject/ray:2.60.0"))
        old = await ready(scenario)
        await scenario.edit(rayClusterConfig=config(NEXT))
        await scenario.until(serves_from(other_than=old))


@virtually
async def test_c46_a_fixed_name_for_it_is_refused_with_its_cure() -> None:
    config = cluster_config()
    config["headGroupSpec"]["headService"] = {"metadata": {"name": "mine"}}
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(rayClusterConfig=config)
        service = await scenario.until(lambda one: condition(one, "Ready")[1] == "ValidationFailed")
        assert "headService.metadata.name" in message(service)
        assert "a head Service of its own" in message(service)
        await asyncio.sleep(30)
        assert await scenario.clusters() == []


@virtually
async def test_c47_a_head_service_that_cannot_be_changed_holds_nothing_up() -> None:
    def head_service(request: Request) -> bool:
        return touches(SERVICES, "PATCH")(request) and request.path.endswith("/demo-head-svc")

    async with a_scenario() as scenario:
        faults = faulty(scenario.plane)
        async with watched(scenario), operator(scenario, Client(faults)):
            await scenario.create()
            old = await ready(scenario)
            faults.deny(head_service, times=None)
            await scenario.edit(rayClusterConfig=cluster_config(NEXT))
            new = (await scenario.until(serves_from(other_than=old))).status.active_service_status
            assert await scenario.selected() == new.ray_cluster_name
            assert await scenario.selected("demo-head-svc") == old
            service = await scenario.until(
                lambda one: "denied by injection" in message(one, "UpgradeInProgress")
            )
            assert is_ready(service)
            await asyncio.sleep(10)
            events = (await scenario.client.list(EVENTS, NAMESPACE)).items
            assert any(one["reason"] == "FailedToUpdateService" for one in events)


@virtually
async def test_c48_orphans_of_the_same_owner_are_collected() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        cluster = await ready(scenario)
        (found,) = await scenario.clusters()
        meta = {key: found["metadata"][key] for key in ("labels", "annotations", "ownerReferences")}
        orphan = {**found, "metadata": {**meta, "name": "demo-stray", "namespace": NAMESPACE}}
        orphan.pop("status")
        await scenario.client.create(RAY_CLUSTERS, NAMESPACE, orphan)
        await asyncio.sleep(70)
        assert await scenario.cluster_names() == {cluster}


@virtually
async def test_c49_a_missed_event_of_the_head_does_not_stop_the_promotion() -> None:
    dropped: list[str] = []

    def head_is_ready(event: Any) -> bool:
        """Of the pending cluster: the one event that says so."""
        body = event["object"]
        labels = body["metadata"].get("labels") or {}
        conditions = (body.get("status") or {}).get("conditions") or ()
        is_head = labels.get("ray.io/node-type") == "head" and labels["ray.io/cluster"] != old
        is_it = is_head and any(one["type"] == "Ready" for one in conditions)
        dropped.extend([event["type"]] if is_it else [])
        return is_it

    async with a_scenario() as scenario:
        async with operator(scenario):
            await scenario.create()
            old = await ready(scenario)
        faults = faulty(scenario.plane)
        faults.drop_event(PODS, head_is_ready)
        async with operator(scenario, Client(faults)):
            await scenario.edit(rayClusterConfig=cluster_config(NEXT))
            await scenario.until(serves_from(other_than=old), 60)
        assert dropped == ["MODIFIED"]


@virtually
async def test_c51_a_serve_that_only_deploys_for_long_costs_no_pod() -> None:
    async with a_scenario(deploy_after=30 * 60) as scenario, operator(scenario):
        await scenario.create()
        await scenario.until(lambda one: "DEPLOYING" in message(one))
        before = {pod["metadata"]["uid"] for pod in await scenario.pods()}
        await scenario.until(is_ready, 35 * 60)
        assert {pod["metadata"]["uid"] for pod in await scenario.pods()} == before


REPLACE_AFTER = "manta.ray.io/replace-unserving-workers-after"


async def _with_a_dead_proxy(
    scenario: Scenario, status: str, **annotations: str
) -> tuple[str, str]:
    """A service whose only worker does not take requests; its Pod's name and UID."""

    def unready(pod: dict[str, Any]) -> dict[str, Any] | None:
        if pod["metadata"]["labels"]["ray.io/node-type"] == "head":
            return None
        made = scenario.kubelet.running(pod)
        made["conditions"][0] |= {"status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        return made

    scenario.kubelet.script = unready
    await scenario.create(annotations=annotations)
    cluster = await ready(scenario)
    (worker,) = await scenario.pods("ray.io/node-type=worker")
    address = worker["status"]["podIP"]
    scenario.head(cluster).proxies = {"node": {"node_ip": address, "status": status}}
    return worker["metadata"]["name"], worker["metadata"]["uid"]


async def _worker_uids(scenario: Scenario) -> list[str]:
    return [pod["metadata"]["uid"] for pod in await scenario.pods("ray.io/node-type=worker")]


@virtually
async def test_c51_a_worker_whose_proxy_is_dead_is_replaced_where_the_user_wants_it() -> None:
    async with a_scenario() as scenario, operator(scenario):
        name, uid = await _with_a_dead_proxy(scenario, "UNHEALTHY", **{REPLACE_AFTER: "2m"})
        await asyncio.sleep(60)
        assert await _worker_uids(scenario) == [uid], "not before its time"
        scenario.kubelet.script = lambda pod: None
        await asyncio.sleep(120)
        (fresh,) = await _worker_uids(scenario)
        assert fresh != uid
        events = (await scenario.client.list(EVENTS, NAMESPACE)).items
        (reported,) = [one for one in events if one["reason"] == "DeletedWorkerPod"]
        assert name in reported["note"]
        assert "has taken no request since" in reported["note"]


@virtually
@pytest.mark.parametrize(
    ("status", "annotations"),
    [
        ("UNHEALTHY", {}),  # nobody asked for it
        ("DRAINING", {REPLACE_AFTER: "2m"}),  # it has no replica, and is well
    ],
)
async def test_c51_otherwise_it_stays(status: str, annotations: dict[str, str]) -> None:
    async with a_scenario() as scenario, operator(scenario):
        _, uid = await _with_a_dead_proxy(scenario, status, **annotations)
        await asyncio.sleep(600)
        assert await _worker_uids(scenario) == [uid]


@virtually
async def test_c51_while_an_application_is_deployed_no_worker_is_replaced() -> None:
    async with a_scenario() as scenario, operator(scenario):
        _, uid = await _with_a_dead_proxy(scenario, "UNHEALTHY", **{REPLACE_AFTER: "2m"})
        cluster = (await scenario.service()).status.active_service_status.ray_cluster_name
        scenario.ray.set_applications(scenario.head(cluster), None, "DEPLOYING")
        await asyncio.sleep(600)
        assert await _worker_uids(scenario) == [uid]


@virtually
async def test_c51_a_limit_that_is_no_duration_is_refused() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(annotations={REPLACE_AFTER: "soon"})
        service = await scenario.until(lambda one: condition(one, "Ready")[1] == "ValidationFailed")
        assert REPLACE_AFTER in message(service)


@virtually
async def test_c52_workers_without_a_proxy_do_not_keep_a_service_from_being_ready() -> None:
    async with a_scenario() as scenario, operator(scenario):
        await scenario.create(
            serveConfigV2="proxy_location: HeadOnly\napplications: [{import_path: demo.app}]"
        )
        service = await scenario.until(is_ready)
        assert service.status.num_serve_endpoints == 1, "no request goes where no proxy is"
        active = service.status.active_service_status
        assert list(active.application_statuses) == ["default"]
        (worker,) = await scenario.pods("ray.io/node-type=worker")
        probe = worker["spec"]["containers"][0]["readinessProbe"]
        assert "8000" not in str(probe), "and none is asked for"
        assert worker["metadata"]["labels"]["ray.io/serve"] == "false"
        await scenario.until(
            lambda one: one.status.active_service_status.ray_cluster_status.state == "ready"
        )


@virtually
async def test_c53_a_head_takes_requests_only_while_its_proxy_answers() -> None:
    async def label() -> str:
        (head,) = await scenario.pods("ray.io/node-type=head")
        return str(head["metadata"]["labels"]["ray.io/serve"])

    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        cluster = await ready(scenario)
        assert await label() == "true"
        scenario.ray.healthy_proxies = False
        await scenario.until(lambda one: one.status.num_serve_endpoints == 1, 60)
        assert await label() == "false"
        # The head dies; the new one is not served to until its proxy answers.
        (head,) = await scenario.pods("ray.io/node-type=head")
        scenario.ray.restart_head(NAMESPACE, f"{cluster}-head-svc")
        await scenario.client.delete(PODS, Key(NAMESPACE, head["metadata"]["name"]))
        await asyncio.sleep(30)
        assert await label() == "false"
        assert is_ready(await scenario.service())
        scenario.ray.healthy_proxies = True
        await scenario.until(lambda one: one.status.num_serve_endpoints == 2, 60)
        assert await label() == "true"


@virtually
async def test_a_proxy_that_misses_one_probe_stays_in_service() -> None:
    answers = iter([False])

    async with a_scenario() as scenario, operator(scenario):
        await scenario.create()
        await ready(scenario)
        real = scenario.ray.probe

        async def probe(url: str) -> Any:
            scenario.ray.healthy_proxies = next(answers, True)
            return await real(url)

        scenario.ray.probe = probe  # type: ignore[method-assign]
        await asyncio.sleep(60)
        events = (await scenario.client.list(EVENTS, NAMESPACE)).items
        labelled = [one for one in events if one["reason"] == "UpdatedHeadPodServeLabel"]
        assert len(labelled) == 1


@virtually
@pytest.mark.parametrize("moment", [0.0, 0.3, 1.0, 3.0, 5.2, 6.0, 30.0])
async def test_c54_suspend_at_any_moment_of_an_upgrade_leaves_nothing_behind(moment: float) -> None:
    async with AsyncExitStack() as stack:
        scenario = await stack.enter_async_context(a_scenario())
        faults = faulty(scenario.plane)
        await stack.enter_async_context(operator(scenario, Client(faults)))
        await scenario.create()
        await ready(scenario)
        await scenario.edit(rayClusterConfig=cluster_config(NEXT))
        await asyncio.sleep(moment)
        before = len(faults.accepted_writes())
        await scenario.edit(suspend=True)
        await scenario.until(lambda one: condition(one, "Suspended")[0] == "True")
        writes = faults.accepted_writes()[before:]
        deleted = [one.path.split("/")[-2] for one in writes if one.method == "DELETE"]
        of_service = [one for one in deleted if one in ("services", "rayclusters")]
        assert of_service[:1] == ["services"], "no way in leads to a cluster that is gone"
        assert "services" not in of_service[of_service.index("rayclusters") :], of_service
        assert await scenario.clusters() == []
        await scenario.edit(suspend=False)
        await ready(scenario)
        (only,) = await scenario.clusters()
        head = only["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
        assert head["image"] == NEXT


@virtually
async def test_what_is_said_of_the_cluster_says_who_blocks() -> None:
    def unschedulable(pod: dict[str, Any]) -> dict[str, Any]:
        return {
            "phase": "Pending",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/3 nodes are available: 3 Insufficient cpu.",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
        }

    async with a_scenario() as scenario, operator(scenario):
        scenario.kubelet.script = unschedulable
        await scenario.create()
        service = await scenario.until(lambda one: "Insufficient cpu" in message(one))
        assert find(service.status.conditions, "Ready") is not None
