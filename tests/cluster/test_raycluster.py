"""RayClusters on the embedded server with fake nodes, under virtual time."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import (
    EVENTS,
    INGRESSES,
    JOBS,
    PODS,
    RESOURCE_QUOTAS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from manta.controllers.raycluster import controller
from manta.controllers.raycluster.plan import plan
from manta.rules.settings import FeatureGates, Settings
from manta.runtime.manager import Manager
from support.fakenodes import fake_cluster
from support.raycluster import NAMESPACE, container, group, ray_cluster, template
from support.raycluster_scenario import Scenario, decode
from support.raycrds import ray_crds
from support.rayoperator import condition, operated, start_operator
from support.virtual import virtual_plane, virtually

WORKER = "ray.io/node-type=worker"
HEAD = "ray.io/node-type=head"


@virtually
async def test_a_cluster_becomes_ready_with_ten_requests_and_no_read() -> None:
    async with operated() as op:
        await op.create(groups=[group(replicas=3)])
        found = await op.until_ready()
        await asyncio.sleep(5)
        kinds = Counter(
            "events"
            if "/events" in one
            else one.split()[1].split("/")[-1]
            if one.startswith("POST")
            else "status"
            for one in op.writes()
        )
        # One Event for each of KubeRay's reasons (R9): of the head, the workers and the Service.
        assert kinds == {"pods": 4, "services": 1, "status": 2, "events": 3}
        assert [
            one.path for one in op.faults.log if one.method == "GET" and "/demo" in one.path
        ] == []
        assert found.status.ready_worker_replicas == 3
        assert found.status.head.pod_ip


@virtually
async def test_a_ready_cluster_costs_nothing() -> None:
    async with operated() as op:
        await op.create(groups=[group(replicas=3)])
        await op.until_ready()
        await asyncio.sleep(5)
        before = [one for one in op.faults.log if not one.watch]
        await asyncio.sleep(3600)
        assert [one for one in op.faults.log if not one.watch] == before


FULL: dict[str, Any] = {
    "groups": [group("a", replicas=2), group("b", numOfHosts=2)],
    "annotations": {"ray.io/enable-serve-service": "true", "note": "passed on"},
    "head": {"enableIngress": True, "ingressOptions": {"host": "ray.example.com"}},
    "headServiceAnnotations": {"a": "b"},
    "enableInTreeAutoscaling": True,
    "authOptions": {"mode": "token"},
    "gcsFaultToleranceOptions": {"backend": "rocksdb"},
    "networkPolicy": {"head": {"ingressRules": [{"ports": [{"port": 8265}]}]}},
}
GATES = FeatureGates(ray_cluster_network_policy=True, gcs_fault_tolerance_embedded_storage=True)


@virtually
async def test_what_the_server_fills_in_is_no_drift() -> None:
    """With everything switched on, a ready cluster still costs nothing."""
    async with operated(Settings(gates=GATES)) as op:
        await op.create(**FULL)
        await op.create("node-port", head={"serviceType": "NodePort"})
        for name in ("demo", "node-port"):
            await op.until_ready(name)
        await asyncio.sleep(5)
        before = op.writes()
        await asyncio.sleep(1800)
        assert op.writes() == before


@virtually
async def test_drift_made_by_hand_is_corrected_once() -> None:
    async with operated(Settings(gates=GATES)) as op:
        await op.create(**FULL)
        await op.until_ready()
        key = Key(NAMESPACE, "demo-head-svc")
        await op.client.patch(SERVICES, key, {"spec": {"selector": {"ray.io/cluster": "other"}}})
        await op.client.patch(ROLES, Key(NAMESPACE, "demo"), {"rules": []})
        ingress = Key(NAMESPACE, "demo-head-ingress")
        await op.client.patch(INGRESSES, ingress, {"metadata": {"annotations": {"note": None}}})
        await asyncio.sleep(10)
        service = await op.client.get(SERVICES, key)
        assert service["spec"]["selector"]["ray.io/cluster"] == "demo"
        assert len((await op.client.get(ROLES, Key(NAMESPACE, "demo")))["rules"]) == 3
        assert (await op.client.get(INGRESSES, ingress))["metadata"]["annotations"]["note"]
        assert len([one for one in op.writes(method="PATCH") if not one.endswith("status")]) == 3


@virtually
async def test_c42_a_new_operator_writes_nothing() -> None:
    async with fake_cluster(3, crds=ray_crds()) as cluster:
        async with start_operator(cluster) as first:
            for number in range(5):
                auto = {"enableInTreeAutoscaling": True} if number % 2 else {}
                await first.create(f"c{number}", groups=[group(replicas=number)], **auto)
            for number in range(5):
                await first.until_ready(f"c{number}")
            await asyncio.sleep(5)
        async with start_operator(cluster, seed=8) as second:
            await asyncio.sleep(900)
            assert second.writes() == []


@virtually
async def test_scaling_up_and_down_by_hand() -> None:
    async with operated() as op:
        await op.create(groups=[group(replicas=1, maxReplicas=50)])
        await op.until_ready()
        await op.scale(20)
        await op.until_pods(20)
        await op.scale(3)
        await op.until_pods(3)
        await op.until(lambda one: one.status.ready_worker_replicas == 3)
        assert (op.pod_creates(), op.pod_deletes()) == (21, 17)


@virtually
async def test_suspend_and_resume() -> None:
    async with operated() as op:
        await op.create(groups=[group(replicas=2)])
        await op.until_ready()
        await op.patch({"spec": {"suspend": True}})
        found = await op.until(lambda one: one.status.state == "suspended")
        assert await op.pods() == []
        suspended = condition(found, "RayClusterSuspended")
        assert suspended is not None
        assert suspended.status == "True"
        before = len(op.writes())
        await asyncio.sleep(600)
        assert len(op.writes()) == before  # C32
        await op.patch({"spec": {"suspend": False}})
        await op.until_ready()
        assert len(await op.pods()) == 3


@virtually
async def test_deleting_takes_all_children_along() -> None:
    async with operated() as op:
        annotations = {"ray.io/enable-serve-service": "true"}
        await op.create(
            groups=[group(replicas=2, numOfHosts=2)],
            head={"enableIngress": True},
            annotations=annotations,
            enableInTreeAutoscaling=True,
            authOptions={"mode": "token"},
        )
        await op.until_ready()
        await op.client.delete(RAY_CLUSTERS, Key(NAMESPACE, "demo"))
        await op.cluster.until_gone(RAY_CLUSTERS, "demo")
        await asyncio.sleep(60)
        assert await op.pods() == []
        assert not [one for one in await op.cluster.names(SERVICES) if one.startswith("demo")]
        assert (await op.client.list(SECRETS, NAMESPACE, labels="ray.io/cluster")).items == []


@virtually
async def test_c74_every_child_names_its_owner_in_full() -> None:
    async with operated() as op:
        await op.create(enableInTreeAutoscaling=True, authOptions={"mode": "token"})
        found = await op.until_ready()
        for resource in (PODS, SERVICES, SECRETS):
            for child in (await op.client.list(resource, NAMESPACE, labels="ray.io/cluster")).items:
                [owner] = child["metadata"]["ownerReferences"]
                assert owner == {
                    "apiVersion": "ray.io/v1",
                    "kind": "RayCluster",
                    "name": "demo",
                    "uid": found.metadata.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }


@virtually
async def test_a_generated_token_is_random_and_appears_nowhere_else() -> None:
    async with operated() as op:
        for name in ("one", "two"):
            await op.create(name, authOptions={"mode": "token"})
            await op.until_ready(name)
        tokens = set()
        for name in ("one", "two"):
            secret = await op.cluster.get(SECRETS, name, NAMESPACE)
            assert secret is not None
            tokens.add(secret["data"]["auth_token"])
        assert len(tokens) == 2
        everything = str([*await op.pods("one"), *await op.cluster.all(EVENTS, NAMESPACE)])
        assert not any(token in everything for token in tokens)


# ── the autoscaler's contract ────────────────────────────────────────────────────────────


@virtually
async def test_c05_the_autoscaler_alone_chooses_who_goes() -> None:
    async with operated() as op:
        await op.create(groups=[group(replicas=3)], enableInTreeAutoscaling=True)
        await op.until_ready()
        await op.scale(1)
        await asyncio.sleep(60)
        assert op.pod_deletes() == 0
        candidates = [one["metadata"]["name"] for one in await op.pods(node="worker")][:2]
        group_ = "/spec/workerGroupSpecs/0"
        body = [
            {
                "op": "add",
                "path": f"{group_}/scaleStrategy",
                "value": {"workersToDelete": candidates},
            },
            {"op": "replace", "path": f"{group_}/replicas", "value": 1},
        ]
        await op.client.patch(RAY_CLUSTERS, Key(NAMESPACE, "demo"), body, kind="json")
        await op.until_pods(1)
        await asyncio.sleep(60)
        assert op.pod_deletes() == 2
        assert (await op.pods(node="worker"))[0]["metadata"]["name"] not in candidates


@virtually
async def test_c10_the_operator_never_writes_a_spec() -> None:
    async with operated() as op:
        await op.create(groups=[group(replicas=None)], enableInTreeAutoscaling=True)
        await op.until_ready()
        await op.scale(2)
        for number in range(20):
            await op.patch({"metadata": {"labels": {"synced": str(number)}}})
        await op.until_pods(2)
        found = await op.read()
        assert found.spec.worker_group_specs[0].replicas == 2
        specs = [one for one in op.writes("/rayclusters/demo") if not one.endswith("/status")]
        assert specs == []


# ── trouble with Pods ────────────────────────────────────────────────────────────────────


@virtually
async def test_c25_a_quota_is_reported_and_lifted() -> None:
    async with operated() as op:
        op.faults.deny(lambda one: one.method == "POST" and one.path.endswith("/pods"), times=6)
        await op.create()
        found = await op.until(lambda one: condition(one, "ReplicaFailure"))
        failure = condition(found, "ReplicaFailure")
        assert failure is not None
        assert failure.reason == "FailedCreateHeadPod"
        assert "denied by injection" in failure.message
        found = await op.until_ready(seconds=600)
        assert condition(found, "ReplicaFailure") is None
        assert condition(found, "Blocked") is None
        assert op.pod_creates() == 2


@virtually
async def test_a_quota_that_stays_full_is_not_written_again_and_again() -> None:
    """The server names the Pod that it refuses, and that is another one at each attempt."""
    async with operated() as op:
        full = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "team"},
            "spec": {"hard": {"pods": "2"}},
        }
        await op.client.create(RESOURCE_QUOTAS, NAMESPACE, full)
        await asyncio.sleep(5)
        await op.create(groups=[group(replicas=2)])
        await asyncio.sleep(60)
        before = len(op.writes("/status"))
        await asyncio.sleep(600)
        assert len(op.writes("/status")) == before
        failure = condition(await op.read(), "ReplicaFailure")
        assert failure is not None
        assert "exceeded quota: team" in failure.message


@virtually
async def test_c29_an_image_that_cannot_be_pulled_is_named_within_seconds() -> None:
    async with operated() as op:
        for node, labels in (("head", HEAD), ("worker", WORKER)):
            op.cluster.nodes.script(labels, "pull=error")
            await op.create(node)
            found = await op.until(lambda one: condition(one, "Blocked"), node, seconds=10)
            blocked = condition(found, "Blocked")
            assert blocked is not None
            assert "ImagePull" in blocked.message
            assert f"{node}-" in blocked.message
            op.cluster.nodes.script(labels, "run")


@virtually
async def test_c23_a_worker_whose_init_container_fails_is_not_made_all_the_time() -> None:
    async with operated() as op:
        op.cluster.nodes.script(WORKER, "init-exit=42")
        never = template(restartPolicy="Never")
        await op.create(groups=[group(template=never)])
        await asyncio.sleep(600)
        assert 3 <= op.pod_creates() - 1 <= 10
        found = await op.read()
        blocked = condition(found, "Blocked")
        assert blocked is not None
        assert "42" in blocked.message
        assert "wait-gcs-ready" in blocked.message


@virtually
async def test_c82_c17_a_failed_pod_is_replaced_and_a_restarting_one_is_not() -> None:
    async with operated() as op:
        auto = {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2"}}
        await op.create("v2", **auto)
        await op.create("plain")
        for name in ("v2", "plain"):
            await op.until_ready(name)
        before = {name: (await op.pods(name, "worker"))[0]["metadata"] for name in ("v2", "plain")}
        for name in ("v2", "plain"):
            op.cluster.nodes.end(Key(NAMESPACE, before[name]["name"]), 1)
        await asyncio.sleep(60)
        after = {name: (await op.pods(name, "worker"))[0]["metadata"] for name in ("v2", "plain")}
        assert after["v2"]["uid"] != before["v2"]["uid"]
        assert after["plain"]["uid"] == before["plain"]["uid"]


@virtually
async def test_an_evicted_head_is_replaced() -> None:
    async with operated() as op:
        await op.create()
        await op.until_ready()
        [head] = await op.pods(node="head")
        op.cluster.nodes.evict(Key(NAMESPACE, head["metadata"]["name"]))

        async def replaced() -> bool:
            heads = await op.pods(node="head")
            return bool(heads) and heads[0]["metadata"]["uid"] != head["metadata"]["uid"]

        await op.cluster.until(replaced)
        await op.until_pods(1, node="head")


@virtually
async def test_c92_a_lost_host_of_four_costs_four_and_makes_four() -> None:
    async with operated() as op:
        await op.create(groups=[group(replicas=2, numOfHosts=4)])
        await op.until_ready()
        created = op.pod_creates()
        victim = (await op.pods(node="worker"))[0]["metadata"]
        await op.client.delete(PODS, Key(NAMESPACE, victim["name"]))

        async def pods_ready() -> bool:
            pods = await op.pods(node="worker")
            return len(pods) == 8 and victim["uid"] not in [one["metadata"]["uid"] for one in pods]

        await op.cluster.until(pods_ready)
        await op.until_pods(8)
        assert op.pod_creates() - created == 4
        assert op.pod_deletes() == 3  # the fourth was ours


@virtually
async def test_c01_a_second_head_made_by_hand_is_removed() -> None:
    async with operated() as op:
        await op.create()
        await op.until_ready()
        [head] = await op.pods(node="head")
        meta = {"name": "second", "labels": head["metadata"]["labels"]}
        owners = head["metadata"]["ownerReferences"]
        twin = {
            "metadata": {**meta, "ownerReferences": owners},
            "spec": {"containers": [container()]},
        }
        await op.client.create(PODS, NAMESPACE, twin)
        await op.cluster.until_gone(PODS, "second", NAMESPACE)
        assert (await op.pods(node="head"))[0]["metadata"]["uid"] == head["metadata"]["uid"]


@virtually
async def test_a_worker_too_many_goes_if_nobody_else_controls_it() -> None:
    async with operated() as op:
        await op.create()
        await op.until_ready()
        made = await op.client.create(SERVICE_ACCOUNTS, NAMESPACE, {"metadata": {"name": "x"}})
        other: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "name": "x",
            "controller": True,
        }
        other["uid"] = made.metadata.uid
        [worker] = await op.pods(node="worker")
        for name, owners in (("theirs", [other]), ("nobodys", [])):
            meta = {"name": name, "labels": worker["metadata"]["labels"], "ownerReferences": owners}
            pod = {"metadata": meta, "spec": {"containers": [container()]}}
            await op.client.create(PODS, NAMESPACE, pod)
        await op.cluster.until_gone(PODS, "nobodys", NAMESPACE)
        await asyncio.sleep(60)
        left = {pod["metadata"]["name"] for pod in await op.pods(node="worker")}
        assert left == {"theirs", worker["metadata"]["name"]}


# ── GCS fault tolerance ──────────────────────────────────────────────────────────────────

REDIS = {"redisAddress": "redis:6379"}


@virtually
async def test_redis_is_cleaned_after_the_head_is_gone() -> None:
    async with operated() as op:
        op.cluster.nodes.script(HEAD, "stop=20")
        await op.create(gcsFaultToleranceOptions=REDIS)
        await op.until_ready()
        await op.client.delete(RAY_CLUSTERS, Key(NAMESPACE, "demo"))

        async def cleaning() -> bool:
            assert not (
                await op.cluster.names(JOBS, NAMESPACE) and await op.pods(node="head")
            )  # C72
            return bool(await op.cluster.names(JOBS, NAMESPACE))

        await op.cluster.until(cleaning)
        await op.cluster.until_gone(RAY_CLUSTERS, "demo", NAMESPACE)
        assert len(op.writes("/jobs", "POST")) == 1


@pytest.mark.parametrize("fate", ["exit=1@1", "start=never", "pull=error"])
@virtually
async def test_c70_a_cleanup_that_fails_holds_nobody_for_longer_than_five_minutes(
    fate: str,
) -> None:
    async with operated() as op:
        op.cluster.nodes.script("ray.io/node-type=redis-cleanup", fate)
        await op.create(gcsFaultToleranceOptions=REDIS)
        await op.until_ready()
        await op.client.delete(RAY_CLUSTERS, Key(NAMESPACE, "demo"))

        async def gone() -> bool:
            return await op.cluster.get(RAY_CLUSTERS, "demo", NAMESPACE) is None

        await op.cluster.until(gone, seconds=305)


@virtually
async def test_c71_fault_tolerance_switched_off_before_the_deletion_holds_nobody() -> None:
    async with operated() as op:
        await op.create(annotations={"ray.io/ft-enabled": "true"})
        await op.until_ready()
        await op.patch({"metadata": {"annotations": {"ray.io/ft-enabled": "false"}}})
        await op.client.delete(RAY_CLUSTERS, Key(NAMESPACE, "demo"))
        await op.cluster.until_gone(RAY_CLUSTERS, "demo", NAMESPACE)
        assert await op.cluster.names(JOBS, NAMESPACE) == []


# ── hands off ────────────────────────────────────────────────────────────────────────────


@virtually
async def test_c94_what_another_operator_manages_is_never_written() -> None:
    async with operated() as op:
        await op.create(managedBy="kueue.x-k8s.io/multikueue", gcsFaultToleranceOptions=REDIS)
        await asyncio.sleep(600)
        assert op.writes() == []


@virtually
async def test_c91_an_invalid_cluster_is_reported_and_not_touched() -> None:
    async with operated() as op:
        await op.create(groups=[group(minReplicas=3, maxReplicas=1)])
        found = await op.until(lambda one: condition(one, "Blocked"), seconds=5)
        blocked = condition(found, "Blocked")
        assert blocked is not None
        assert blocked.reason == "InvalidRayClusterSpec"
        await asyncio.sleep(60)
        assert op.pod_creates() == 0
        assert len(await op.cluster.events("InvalidRayClusterSpec", NAMESPACE)) == 1
        assert len(op.writes("/status")) == 1


@virtually
async def test_c91_an_invalid_cluster_has_an_event_even_without_conditions() -> None:
    gates = FeatureGates(ray_cluster_status_conditions=False)
    async with operated(Settings(gates=gates)) as op:
        await op.create(groups=[group(minReplicas=3, maxReplicas=1)])
        await asyncio.sleep(60)
        assert len(await op.cluster.events("InvalidRayClusterSpec", NAMESPACE)) == 1
        assert op.writes("/status") == []


def test_c61_one_cluster_that_breaks_us_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(snapshot: Any) -> Any:
        if snapshot.cluster.metadata.name == "odd":
            raise KeyError("something nobody thought of")
        return plan(snapshot)

    monkeypatch.setattr(controller, "plan", breaks)
    _one_odd_cluster_among_good_ones()


@virtually
async def _one_odd_cluster_among_good_ones() -> None:
    async with operated() as op:
        await op.create("odd")
        for number in range(10):
            await op.create(f"good-{number}")
        for number in range(10):
            await op.until_ready(f"good-{number}")


@virtually
async def test_c30_a_pod_that_the_server_refuses_is_reported_without_a_storm() -> None:
    async with operated() as op:
        head = template(container())
        head["metadata"] = {"labels": {"no": "label value!"}}
        await op.create(head={"template": head})
        found = await op.until(lambda one: condition(one, "ReplicaFailure"))
        assert "label value!" in str(found.status.conditions)
        await asyncio.sleep(600)
        tried = [
            one for one in op.faults.log if one.method == "POST" and one.path.endswith("/pods")
        ]
        assert len(tried) <= 20
        assert len(await op.cluster.events("FailedToCreateHeadPod", NAMESPACE)) == 1


@virtually
async def test_c34_pods_of_others_wake_nobody() -> None:
    async with operated() as op:
        await asyncio.sleep(1)
        before = op.manager.registry.render()
        pod = {"metadata": {"generateName": "x-"}, "spec": {"containers": [container()]}}
        for _ in range(50):
            await op.client.create(PODS, NAMESPACE, pod)
        await asyncio.sleep(10)
        assert _rounds(op.manager.registry.render()) == _rounds(before)


def _rounds(text: str) -> list[str]:
    return [
        one for one in text.splitlines() if one.startswith("controller_runtime_reconcile_total")
    ]


@virtually
async def test_c37_a_template_that_overrides_every_label_hides_no_pod() -> None:
    async with operated() as op:
        stolen = {
            "ray.io/cluster": "other",
            "ray.io/node-type": "other",
            "ray.io/group": "other",
            "ray.io/identifier": "other",
            "ray.io/is-ray-node": "no",
            "app.kubernetes.io/name": "other",
            "app.kubernetes.io/created-by": "other",
        }
        hidden = {"metadata": {"labels": stolen}, **template()}
        await op.create(head={"template": hidden}, groups=[group(template=hidden)])
        await op.until_ready()
        await asyncio.sleep(600)
        assert op.pod_creates() == 2


@virtually
async def test_c15_a_head_is_one_whatever_its_replicas_say() -> None:
    async with operated() as op:
        await op.create(head={"replicas": 2})
        await op.until_ready()
        assert len(await op.pods(node="head")) == 1
        assert (op.pod_creates(), op.pod_deletes()) == (2, 0)


@virtually
async def test_c19_a_thousand_workers_are_acknowledged_and_none_too_many() -> None:
    async with operated(nodes=40) as op:
        op.cluster.nodes.script(WORKER, "start=30")
        await op.create(groups=[group(replicas=0, maxReplicas=1000)], enableInTreeAutoscaling=True)
        await op.until_ready()
        await op.scale(1000)
        await op.until(lambda one: one.status.desired_worker_replicas == 1000, seconds=2)
        await op.until(lambda one: one.status.ready_worker_replicas == 1000, seconds=300)
        assert (op.pod_creates(), op.pod_deletes()) == (1001, 0)


@virtually
async def test_c33_half_an_hour_of_trouble_is_a_handful_of_events() -> None:
    async with operated() as op:
        op.cluster.nodes.script(WORKER, "exit=1@3")
        await op.create(groups=[group(replicas=3, template=template(restartPolicy="Never"))])
        await asyncio.sleep(1800)
        events = [
            one
            for one in await op.cluster.all(EVENTS, NAMESPACE)
            if one["regarding"]["kind"] == "RayCluster"
        ]
        assert 1 <= len(events) <= 40


@virtually
async def test_c41_idle_clusters_ask_for_nothing_but_their_watches() -> None:
    async with operated() as op:
        for number in range(20):
            await op.create(f"c{number}", groups=[])
        for number in range(20):
            await op.until_ready(f"c{number}")
        await asyncio.sleep(5)
        before = len([one for one in op.faults.log if not one.watch])
        await asyncio.sleep(1200)  # four resyncs of each
        assert len([one for one in op.faults.log if not one.watch]) == before


@virtually
async def test_c41_resyncs_are_spread_over_a_tenth_of_the_interval() -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.settle()
    async with virtual_plane(crds=ray_crds()) as plane:
        manager, settings = Manager(plane.client, plane.clock, Random(1)), Settings()
        reconciler = controller.RayClusterReconciler(manager, settings)
        times = {reconciler.resync_in(scenario.snapshot()) for _ in range(20)}
        assert len(times) == 20
        interval = settings.cluster_resync
        assert all(time and interval <= time <= interval * 1.1 for time in times)
