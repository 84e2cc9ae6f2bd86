"""Gate KubernetesWAS: Workload and PodGroup of `scheduling.k8s.io/v1alpha2`, as Kubernetes 1.36 serves them.

The kinds are added to the embedded server, whose specs are immutable here as there. A test plays the finalizer of
kube-controller-manager, and fake nodes start Pods without regard to gangs.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from manta.api.conditions import find
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import WORKLOAD_POD_GROUPS, WORKLOADS, Resource
from manta.api.well_known import FINALIZER_POD_GROUP
from manta.controllers.raycluster.preview import preview
from manta.kube.errors import NotFound
from manta.rules.settings import FeatureGates, Settings
from support.fakenodes import fake_cluster
from support.raycluster import NAMESPACE, group
from support.raycrds import ray_crds
from support.rayoperator import Operated, start_operator
from support.virtual import virtually
from support.workloads import workload_crds

GANG = {names.LABEL_GANG_SCHEDULING: "true"}
SETTINGS = Settings(gates=FeatureGates(kubernetes_was=True))


@asynccontextmanager
async def operated() -> AsyncIterator[Operated]:
    crds = [*ray_crds(), *workload_crds()]
    async with fake_cluster(2, crds=crds) as cluster, start_operator(cluster, SETTINGS) as op:
        yield op


async def found(op: Operated, resource: Resource, name: str) -> dict[str, Any] | None:
    try:
        return dict(await op.client.get(resource, Key(NAMESPACE, name), into=dict))
    except NotFound:
        return None


async def sizes(op: Operated) -> tuple[int, int]:
    """The size of the gang in the Workload and in the PodGroup; 0: there is none."""
    workload = await found(op, WORKLOADS, "demo")
    pods = await found(op, WORKLOAD_POD_GROUPS, "demo-cluster")
    templates = workload["spec"]["podGroupTemplates"] if workload else []
    policies = [one["schedulingPolicy"] for one in templates]
    return (
        policies[0]["gang"]["minCount"] if policies else 0,
        pods["spec"]["schedulingPolicy"]["gang"]["minCount"] if pods else 0,
    )


async def until_sizes(op: Operated, wanted: int) -> None:
    async with asyncio.timeout(60):
        while await sizes(op) != (wanted, wanted):
            await asyncio.sleep(0.05)


def sent_pods(op: Operated) -> list[dict[str, Any]]:
    """The Pods as they were sent: the API of Kubernetes 1.35, which the server has, drops the new field."""
    sent = op.faults.accepted_writes("/pods")
    return [json.loads(one.body) for one in sent if one.method == "POST" and one.body]


async def protect(op: Operated) -> None:
    body = {"metadata": {"finalizers": [FINALIZER_POD_GROUP]}}
    await op.client.patch(WORKLOAD_POD_GROUPS, Key(NAMESPACE, "demo-cluster"), body)


@virtually
async def test_workload_and_group_are_there_before_the_pods_that_name_them() -> None:
    async with operated() as op:
        hosts = group("tpu", replicas=1, numOfHosts=2)
        idle = group("idle", replicas=4, suspend=True)
        await op.create(labels=GANG, groups=[group(replicas=2), hosts, idle])
        await op.until(lambda one: one.status.state == "ready")
        made = [one.split("/")[-1] for one in op.writes("", "POST")]
        assert made.index("workloads") < made.index("podgroups") < made.index("pods")
        assert await sizes(op) == (5, 5), "the head, two workers, two hosts"
        workload = await found(op, WORKLOADS, "demo")
        assert workload is not None
        assert workload["spec"]["controllerRef"] == {
            "apiGroup": "ray.io",
            "kind": "RayCluster",
            "name": "demo",
        }
        assert workload["metadata"]["labels"] == {names.LABEL_CLUSTER: "demo"}
        specs = [pod["spec"] for pod in sent_pods(op)]
        members = {spec["schedulingGroup"]["podGroupName"] for spec in specs}
        assert (len(specs), members) == (5, {"demo-cluster"})
        assert {spec["schedulerName"] for spec in specs} == {"default-scheduler"}


@virtually
async def test_another_size_replaces_both_and_no_pod() -> None:
    async with operated() as op:
        await op.create(labels=GANG, groups=[group(replicas=2, maxReplicas=9)])
        await op.until(lambda one: one.status.state == "ready")
        await protect(op)
        before = {pod["metadata"]["uid"] for pod in await op.pods()}
        await op.scale(3)
        await until_sizes(op, 4)
        await op.until(lambda one: one.status.ready_worker_replicas == 3)
        after = {pod["metadata"]["uid"] for pod in await op.pods()}
        assert before < after
        gone = [one.split("/")[-2] for one in op.writes("", "DELETE")]
        assert gone == ["podgroups", "workloads"], "the group that names the Workload goes first"


@virtually
async def test_nothing_is_written_while_nothing_changes() -> None:
    async with operated() as op:
        await op.create(labels=GANG, groups=[group(replicas=1)])
        await op.until(lambda one: one.status.state == "ready")
        foreseen = await preview(
            op.client, SETTINGS, op.cluster.plane.clock, Key(NAMESPACE, "demo")
        )
        assert foreseen is not None
        assert foreseen.plan.actions == ()
        before = op.writes("scheduling.k8s.io")
        await asyncio.sleep(900)
        assert op.writes("scheduling.k8s.io") == before


@virtually
async def test_a_suspended_cluster_keeps_them_for_its_return() -> None:
    async with operated() as op:
        await op.create(labels=GANG, groups=[group(replicas=1)])
        await op.until(lambda one: one.status.state == "ready")
        await op.patch({"spec": {"suspend": True}})
        await op.until(lambda one: one.status.state == "suspended")
        assert await sizes(op) == (2, 2)
        await op.patch({"spec": {"suspend": False}})
        await op.until(lambda one: one.status.state == "ready")
        assert op.writes("scheduling.k8s.io", "DELETE") == []


@virtually
async def test_a_cluster_that_is_no_gang_any_more_loses_them_and_keeps_its_pods() -> None:
    async with operated() as op:
        await op.create(labels=GANG, groups=[group(replicas=1)])
        await op.until(lambda one: one.status.state == "ready")
        await protect(op)
        before = {pod["metadata"]["uid"] for pod in await op.pods()}
        await op.patch({"metadata": {"labels": {names.LABEL_GANG_SCHEDULING: None}}})
        await until_sizes(op, 0)
        assert {pod["metadata"]["uid"] for pod in await op.pods()} == before


@virtually
async def test_without_the_label_or_with_an_autoscaler_pods_are_scheduled_one_by_one() -> None:
    async with operated() as op:
        await op.create("plain", groups=[group(replicas=1)])
        await op.create("scaled", labels=GANG, enableInTreeAutoscaling=True)
        for name in ("plain", "scaled"):
            await op.until(lambda one: one.status.state == "ready", name)
        assert all("schedulingGroup" not in pod["spec"] for pod in sent_pods(op))
        assert op.writes("scheduling.k8s.io") == []


@virtually
async def test_a_workload_of_somebody_else_is_named_and_left_alone() -> None:
    async with operated() as op:
        theirs = {
            "apiVersion": WORKLOADS.api_version,
            "kind": "Workload",
            "metadata": {"name": "demo"},
            "spec": {"podGroupTemplates": []},
        }
        await op.client.create(WORKLOADS, NAMESPACE, theirs)
        await op.create(labels=GANG, groups=[group(replicas=1)])
        blocked = await op.until(lambda one: find(one.status.conditions, "Blocked"))
        reason = find(blocked.status.conditions, "Blocked")
        assert reason is not None
        assert "Workload" in reason.message, reason
        assert await op.pods() == [], "no half of a gang"
        left = await found(op, WORKLOADS, "demo")
        assert left is not None
        assert left["spec"] == theirs["spec"]


@virtually
async def test_they_go_with_their_cluster() -> None:
    async with operated() as op:
        await op.create(labels=GANG, groups=[group(replicas=1)])
        await op.until(lambda one: one.status.state == "ready")
        await op.client.delete(RAY_CLUSTERS, Key(NAMESPACE, "demo"))
        await until_sizes(op, 0)
