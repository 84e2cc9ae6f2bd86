"""Known bugs of the field that need more than one party: two replicas of the operator, a GitOps
tool beside an autoscaler, a queueing system, parents with dashboards that hang."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS, LEASES, POD_DISRUPTION_BUDGETS, PODS
from manta.controllers.raycluster import controller as raycluster
from manta.controllers.rayjob import controller as rayjob
from manta.install.permissions import default_features, rules
from manta.kube.client import Client
from manta.kube.errors import ApiError, Invalid
from manta.localplane.inprocess import InProcessTransport
from manta.ray.dashboard import Dashboard
from manta.rules.settings import FeatureGates, Settings
from manta.runtime.election import Election, Leadership
from manta.runtime.gate import GatedTransport, WriteGate
from manta.runtime.manager import Manager
from support.fake_ray import FakeRay
from support.fakenodes import FakeCluster, fake_cluster
from support.faults import FaultTransport, status, touches
from support.raycluster import NAMESPACE, group, ray_cluster, template
from support.raycrds import ray_crds
from support.rayjob import ray_job
from support.rayoperator import Operated, condition, operated, start_operator
from support.virtual import running, until, virtually

KEY = Key(NAMESPACE, "demo")
WORKER = "ray.io/node-type=worker"


# ── several who write the spec ───────────────────────────────────────────────────────────


@virtually
async def test_c10_a_gitops_tool_that_says_no_replicas_never_undoes_the_autoscaler() -> None:
    async with operated() as op:
        wanted = ray_cluster(groups=[group(replicas=None)], enableInTreeAutoscaling=True)

        async def sync(number: int) -> None:
            wanted["metadata"]["labels"] = {"synced": str(number)}
            await op.client.patch(RAY_CLUSTERS, KEY, wanted, kind="apply", field_manager="argocd")

        await sync(0)
        await op.until_ready()
        await op.scale(3)
        await op.until_pods(3)
        for number in range(20):
            await sync(number)
            await asyncio.sleep(1)
        assert (await op.read()).spec.worker_group_specs[0].replicas == 3
        assert op.pod_deletes() == 0
        assert [one for one in op.writes("/rayclusters/demo") if not one.endswith("/status")] == []


@virtually
async def test_c13_the_server_refuses_two_groups_of_one_name() -> None:
    async with operated() as op:
        with pytest.raises(Invalid, match="Duplicate value"):
            await op.create(groups=[group("a"), group("a")])


@virtually
async def test_c13_under_kuberays_definition_two_groups_of_one_name_are_reported() -> None:
    """KubeRay's CRD, which may still be installed, does not say that a group's name is a key."""
    async with (
        fake_cluster(3, crds=[_without_list_maps(one) for one in ray_crds()]) as cluster,
        start_operator(cluster) as op,
    ):
        await op.create(groups=[group("a"), group("a")])
        found = await op.until(lambda one: condition(one, "Blocked"), seconds=5)
        blocked = condition(found, "Blocked")
        assert blocked is not None
        assert "its own name" in blocked.message
        await asyncio.sleep(60)
        assert op.pod_creates() == 0


def _without_list_maps(document: Any) -> Any:
    if isinstance(document, dict):
        is_map = document.get("x-kubernetes-list-map-keys") == ["groupName"]
        return {
            key: _without_list_maps(value)
            for key, value in document.items()
            if not (is_map and key.startswith("x-kubernetes-list"))
        }
    if isinstance(document, list):
        return [_without_list_maps(one) for one in document]
    return document


# ── events ───────────────────────────────────────────────────────────────────────────────


@virtually
async def test_c33_an_hour_of_trouble_costs_few_writes_of_events() -> None:
    async with operated() as op:
        op.cluster.nodes.script(WORKER, "exit=1@3")
        await op.create(groups=[group(replicas=3, template=template(restartPolicy="Never"))])
        await asyncio.sleep(3600)
        assert 1 <= len(op.writes("/events")) <= 40


@virtually
async def test_c33_a_failure_that_repeats_is_reported_by_one_event() -> None:
    async with operated() as op:
        denial = status(403, "Forbidden", "exceeded quota: compute")
        op.faults.answer(touches(PODS, "POST"), denial, times=None)
        await op.create()
        for number in range(200):
            await op.patch({"metadata": {"labels": {"touched": str(number)}}})
            await asyncio.sleep(1)
        tried = [one for one in op.faults.log if one.method == "POST" and "/pods" in one.path]
        assert len(tried) >= 100
        assert 1 <= len(op.writes("/events")) <= 10


# ── two replicas of the operator ─────────────────────────────────────────────────────────


@dataclass
class Replica:
    """An operator that writes only while it leads."""

    name: str
    faults: FaultTransport
    gate: WriteGate
    election: Election
    leadership: Leadership
    manager: Manager
    voter: Client

    def writes(self) -> list[float]:
        found = self.faults.accepted_writes()
        return [one.at for one in found if "/leases" not in one.path]


def _replica(cluster: FakeCluster, name: str) -> Replica:
    plane = cluster.plane
    faults = FaultTransport(InProcessTransport(plane.app))
    gate = WriteGate(plane.clock)
    manager = Manager(Client(GatedTransport(faults, gate)), plane.clock, Random(name), gate=gate)
    raycluster.build(manager, Settings())
    lease = Key("kube-system", "ray-operator-leader")
    leadership = Leadership()
    election = Election(
        plane.clock, Random(name), gate, lease=lease, identity=name, on_change=leadership.change
    )
    voter = Client(faults, timeout=5)
    return Replica(name, faults, gate, election, leadership, manager, voter)


@asynccontextmanager
async def _two_replicas(cluster: FakeCluster) -> AsyncIterator[tuple[Replica, Replica]]:
    one, two = _replica(cluster, "one"), _replica(cluster, "two")
    parts = [
        part
        for each in (one, two)
        for part in (each.manager.run(each.leadership), each.election.run(each.voter))
    ]
    async with running(*parts):
        yield one, two


@pytest.mark.parametrize("seconds", [4, 12])
@virtually
async def test_c35_of_two_replicas_with_slow_leases_never_both_write(seconds: float) -> None:
    async with fake_cluster(3, crds=ray_crds()) as cluster, _two_replicas(cluster) as (one, two):
        await until(lambda: one.gate.remaining > 0 or two.gate.remaining > 0)
        leader = one if one.gate.remaining > 0 else two
        leader.faults.slow(touches(LEASES, "PUT"), seconds)
        for number in range(20):
            body = ray_cluster(f"c{number}", groups=[group(replicas=2)])
            await cluster.client.create(RAY_CLUSTERS, NAMESPACE, body)
            await asyncio.sleep(6)
        await cluster.until(lambda: _all_ready(cluster, 20))
        order = sorted([(at, "one") for at in one.writes()] + [(at, "two") for at in two.writes()])
        turns = [after[0] - before[0] for before, after in pairwise(order) if before[1] != after[1]]
        assert all(gap > 1 for gap in turns), turns
        assert len(await cluster.pods("ray.io/cluster", NAMESPACE)) == 60


@virtually
async def test_c35_a_replica_that_is_killed_is_followed_within_twenty_seconds() -> None:
    async with fake_cluster(3, crds=ray_crds()) as cluster, _two_replicas(cluster) as (one, two):
        await until(lambda: one.gate.remaining > 0 or two.gate.remaining > 0)
        leader, other = (one, two) if one.gate.remaining > 0 else (two, one)
        leader.faults.dead = True
        await cluster.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster())
        await until(other.writes, seconds=20)
        await cluster.until(lambda: _all_ready(cluster, 1))
        assert leader.writes() == []


async def _all_ready(cluster: FakeCluster, count: int) -> bool:
    found = await cluster.all(RAY_CLUSTERS, NAMESPACE)
    return len(found) == count and all(
        (one.get("status") or {}).get("state") == "ready" for one in found
    )


# ── parents ──────────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def _with_jobs(cluster: FakeCluster, ray: FakeRay) -> AsyncIterator[None]:
    client = Client(InProcessTransport(cluster.plane.app))
    manager = Manager(client, cluster.plane.clock, Random(7))
    raycluster.build(manager, Settings())
    rayjob.build(manager, Settings(), Dashboard(ray))
    async with running(manager.run()):
        yield


HTTP_JOB = {"submissionMode": "HTTPMode"}


@virtually
async def test_c09_touching_a_job_never_undoes_the_autoscaler_of_its_cluster() -> None:
    async with fake_cluster(3, crds=ray_crds()) as cluster, _with_jobs(cluster, FakeRay()):
        spec = ray_cluster(enableInTreeAutoscaling=True)["spec"]
        job = ray_job(rayClusterSpec=spec, **HTTP_JOB)
        await cluster.client.create(RAY_JOBS, NAMESPACE, job)
        await cluster.until(lambda: _all_ready(cluster, 1))
        [child] = await cluster.all(RAY_CLUSTERS, NAMESPACE)
        key = Key(NAMESPACE, child["metadata"]["name"])
        patch = [{"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": 5}]
        await cluster.client.patch(RAY_CLUSTERS, key, patch, kind="json")
        for number in range(20):
            label = {"metadata": {"labels": {"touched": str(number)}}}
            await cluster.client.patch(RAY_JOBS, KEY, label)
            await asyncio.sleep(1)
        [child] = await cluster.all(RAY_CLUSTERS, NAMESPACE)
        assert child["spec"]["workerGroupSpecs"][0]["replicas"] == 5
        assert len(await cluster.pods(WORKER, NAMESPACE)) == 5


@virtually
async def test_c28_a_job_shows_its_clusters_own_status() -> None:
    async with fake_cluster(3, crds=ray_crds()) as cluster, _with_jobs(cluster, FakeRay()):
        await cluster.client.create(RAY_JOBS, NAMESPACE, ray_job(**HTTP_JOB))
        await cluster.until(lambda: _all_ready(cluster, 1))
        await asyncio.sleep(5)
        job = await cluster.client.get(RAY_JOBS, KEY)
        [child] = await cluster.all(RAY_CLUSTERS, NAMESPACE)
        assert job["status"]["rayClusterStatus"]["state"] == child["status"]["state"] == "ready"


@virtually
async def test_c39_dashboards_that_hang_hold_up_no_other_cluster() -> None:
    ray = FakeRay(weather=lambda method, path: "hang")
    async with fake_cluster(5, crds=ray_crds()) as cluster, _with_jobs(cluster, ray):
        for number in range(20):
            spec = ray_cluster(groups=[])["spec"]
            job = ray_job(f"job-{number}", rayClusterSpec=spec, **HTTP_JOB)
            await cluster.client.create(RAY_JOBS, NAMESPACE, job)
        await cluster.until(lambda: _all_ready(cluster, 20))
        await asyncio.sleep(30)
        assert len(ray.calls) >= 20
        await cluster.client.create(RAY_CLUSTERS, NAMESPACE, ray_cluster(groups=[]))
        labels = "ray.io/cluster=demo,ray.io/node-type=head"
        await cluster.until(lambda: cluster.pods(labels, NAMESPACE), seconds=1)


@virtually
async def test_c39_jobs_whose_dashboards_hang_hold_up_no_other_job() -> None:
    ray = FakeRay(weather=lambda method, path: "hang")
    async with fake_cluster(5, crds=ray_crds()) as cluster, _with_jobs(cluster, ray):
        spec = ray_cluster(groups=[])["spec"]
        for number in range(20):
            job = ray_job(f"job-{number}", rayClusterSpec=spec, **HTTP_JOB)
            await cluster.client.create(RAY_JOBS, NAMESPACE, job)
        await cluster.until(lambda: _all_ready(cluster, 20))
        await asyncio.sleep(5)
        ray.hanging = {service for _, _, service in ray.calls}
        ray.weather = lambda method, path: ""
        assert len(ray.hanging) == 20
        await cluster.client.create(RAY_JOBS, NAMESPACE, ray_job(rayClusterSpec=spec, **HTTP_JOB))
        await cluster.until(lambda: _all_ready(cluster, 21))
        await until(lambda: ray.executions, seconds=3)


# ── ownership ────────────────────────────────────────────────────────────────────────────

EVERYTHING: dict[str, Any] = {
    "groups": [group("a", replicas=2), group("b", numOfHosts=2)],
    "annotations": {"ray.io/enable-serve-service": "true"},
    "head": {"enableIngress": True},
    "enableInTreeAutoscaling": True,
    "authOptions": {"mode": "token"},
    "gcsFaultToleranceOptions": {"backend": "rocksdb"},
    "networkPolicy": {"head": {"ingressRules": [{"ports": [{"port": 8265}]}]}},
}
GATES = FeatureGates(ray_cluster_network_policy=True, gcs_fault_tolerance_embedded_storage=True)


@virtually
async def test_c77_every_owner_may_be_named_under_openshifts_admission() -> None:
    """Where OwnerReferencesPermissionEnforcement is on, who says `blockOwnerDeletion` must be
    allowed to update the owner's finalizers."""
    async with operated(Settings(gates=GATES)) as op:
        await op.create(**EVERYTHING)
        await op.until_ready()
        named = _blocked_owners(op)
        assert {("ray.io", "rayclusters")} <= named
        assert {one for one in named if not _may_update_finalizers(*one)} == set()


def _blocked_owners(op: Operated) -> set[tuple[str, str]]:
    plurals = {"RayCluster": "rayclusters"}
    found = set()
    for write in op.faults.accepted_writes():
        if write.method != "POST" or not write.body:
            continue
        for owner in json.loads(write.body).get("metadata", {}).get("ownerReferences", ()):
            if owner.get("blockOwnerDeletion"):
                group_name = owner["apiVersion"].partition("/")[0]
                found.add((group_name, plurals[owner["kind"]]))
    return found


def _may_update_finalizers(group_name: str, plural: str) -> bool:
    return any(
        group_name in rule["apiGroups"]
        and f"{plural}/finalizers" in rule["resources"]
        and "update" in rule["verbs"]
        for rule in rules(default_features())
    )


# ── leaving in order ─────────────────────────────────────────────────────────────────────


@virtually
async def test_c96_the_head_is_not_evicted_where_it_is_protected() -> None:
    async with operated() as op:
        await op.create(annotations={"manta.ray.io/protect-head": "true"})
        await op.until_ready()
        await asyncio.sleep(5)
        [head], [worker] = await op.pods(node="head"), await op.pods(node="worker")
        with pytest.raises(ApiError, match="disruption budget"):
            await _evict(op, head)
        await _evict(op, worker)
        await op.client.delete(PODS, Key(NAMESPACE, head["metadata"]["name"]))
        await op.until(lambda one: one.status.head.pod_ip != head["status"]["podIP"])
        await op.client.delete(RAY_CLUSTERS, KEY)
        await op.cluster.until_gone(POD_DISRUPTION_BUDGETS, "demo-head", NAMESPACE)


async def _evict(op: Operated, pod: dict[str, Any]) -> None:
    name = pod["metadata"]["name"]
    path = PODS.path(NAMESPACE, name, "eviction")
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": NAMESPACE},
    }
    await op.client.send("POST", path, body=json.dumps(body).encode())


@virtually
async def test_c96_workers_that_may_drain_are_given_the_time_for_it() -> None:
    async with operated() as op:
        op.cluster.nodes.script(WORKER, "stop=100")
        await op.create(
            groups=[group(replicas=2)], annotations={"manta.ray.io/drain-seconds": "120"}
        )
        await op.until_ready()
        await op.scale(1)
        await asyncio.sleep(60)
        # It is going, and neither hurried nor replaced.
        going = [one for one in await op.pods(node="worker") if _is_going(one)]
        assert len(going) == 1
        assert going[0]["metadata"]["deletionGracePeriodSeconds"] == 150
        assert op.pod_creates() == 3
        await op.until_pods(1)


def _is_going(pod: dict[str, Any]) -> bool:
    return "deletionTimestamp" in pod["metadata"]


# ── queueing systems ─────────────────────────────────────────────────────────────────────

QUEUE = {"kueue.x-k8s.io/queue-name": "team"}


@virtually
async def test_c95_a_cluster_that_a_queue_admits_starts_with_what_the_queue_added() -> None:
    """Kueue resumes and says where to run in one write."""
    async with operated() as op:
        await op.create(labels=QUEUE, suspend=True)
        await op.until(lambda one: _is_true(one, "RayClusterSuspended"))
        assert await op.pods() == []
        spec = ray_cluster(suspend=False)["spec"]
        spec["workerGroupSpecs"][0]["template"]["spec"]["nodeSelector"] = {
            "kubernetes.io/os": "linux"
        }
        await op.patch({"spec": spec})
        await op.until_ready()
        [worker] = await op.pods(node="worker")
        assert worker["spec"]["nodeSelector"] == {"kubernetes.io/os": "linux"}
        assert _is_true(await op.read(), "RayClusterProvisioned")


@virtually
async def test_c95_a_queue_neither_gates_the_cleanup_nor_holds_the_cluster_by_it() -> None:
    async with operated() as op:
        head = {"template": {"metadata": {"labels": QUEUE}, **template()}}
        await op.create(head=head, gcsFaultToleranceOptions={"redisAddress": "redis:6379"})
        await op.until_ready()
        await op.client.delete(RAY_CLUSTERS, KEY)
        name = "demo-redis-cleanup"
        await op.cluster.until(lambda: op.cluster.get(JOBS, name, NAMESPACE))
        job = await op.client.get(JOBS, Key(NAMESPACE, name))
        assert QUEUE.keys().isdisjoint(job["metadata"]["labels"])
        assert QUEUE.keys().isdisjoint(job["spec"]["template"]["metadata"]["labels"])
        # A queue that gates every Job, named or not, holds it for ever: the cluster goes anyway.
        await op.client.patch(JOBS, Key(NAMESPACE, name), {"spec": {"suspend": True}})
        await op.cluster.until(lambda: _is_gone(op), seconds=330)


async def _is_gone(op: Operated) -> bool:
    return await op.cluster.get(RAY_CLUSTERS, "demo", NAMESPACE) is None


def _is_true(cluster: Any, type_: str) -> bool:
    found = condition(cluster, type_)
    return found is not None and found.status == "True"
