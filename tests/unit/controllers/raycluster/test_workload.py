"""The Workload and PodGroup of Kubernetes itself: created in order, replaced when the gang has another size."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from manta.api.ray import names
from manta.api.resources import WORKLOAD_POD_GROUPS, WORKLOADS
from manta.api.scheduling import Workload, WorkloadPodGroup
from manta.api.well_known import FINALIZER_POD_GROUP
from manta.controllers.raycluster.planners.workload import plan_workload
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.gang.kubernetes_was import build_pod_group, build_workload
from manta.manifests.gang.members import cluster_gang
from manta.reconcile.actions import Create, Delete, Patch
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import Scenario, decode

GANG = {names.LABEL_GANG_SCHEDULING: "true"}
DELETED = {"deletionTimestamp": "2026-11-15T09:00:00Z"}


def snapshot(replicas: int = 2, labels: Any = None, **spec: Any) -> ClusterSnapshot:
    manifest = ray_cluster(groups=[group(replicas=replicas, maxReplicas=9)], **spec)
    return Scenario(decode(manifest, labels=GANG if labels is None else labels)).snapshot()


def workload(of: ClusterSnapshot, **meta: Any) -> Workload:
    body = build_workload(cluster_gang(of.cluster))
    body["metadata"] |= {"uid": "w1", "resourceVersion": "3", **meta}
    return msgspec.convert(body, Workload)


def pod_group(of: ClusterSnapshot, **meta: Any) -> WorkloadPodGroup:
    body = build_pod_group(cluster_gang(of.cluster))
    body["metadata"] |= {"uid": "g1", "resourceVersion": "4", **meta}
    return msgspec.convert(body, WorkloadPodGroup)


def planned(one: ClusterSnapshot) -> list[tuple[type, str]]:
    return [(type(action), action.resource.kind) for action in plan_workload(one).actions]


def test_the_workload_is_created_before_its_pod_group() -> None:
    stages = plan_workload(snapshot()).stages
    assert [[action.resource for action in stage.actions] for stage in stages] == [
        [WORKLOADS],
        [WORKLOAD_POD_GROUPS],
    ]


def test_nothing_is_done_while_both_have_the_size_of_the_cluster() -> None:
    one = snapshot()
    assert planned(replace(one, workload=workload(one), workload_group=pod_group(one))) == []


def test_only_what_is_missing_is_created() -> None:
    one = snapshot()
    assert planned(replace(one, workload=workload(one))) == [(Create, "PodGroup")]


def test_after_a_resize_the_pod_group_goes_first_then_the_workload() -> None:
    before, now = snapshot(2), snapshot(5)
    both = replace(now, workload=workload(before), workload_group=pod_group(before))
    assert planned(both) == [(Delete, "PodGroup")]
    assert planned(replace(both, workload_group=None)) == [(Delete, "Workload")]
    wait = plan_workload(both).wait
    assert wait is not None
    assert wait.why == "the Workload is replaced: the gang has another size now"


def test_a_pod_group_alone_of_another_size_is_replaced() -> None:
    before, now = snapshot(2), snapshot(5)
    one = replace(now, workload=workload(now), workload_group=pod_group(before))
    assert planned(one) == [(Delete, "PodGroup")]
    wait = plan_workload(one).wait
    assert wait is not None
    assert "the PodGroup is replaced" in wait.why


def test_a_pod_group_that_goes_loses_its_finalizer_once() -> None:
    one = snapshot()
    held = pod_group(one, finalizers=[FINALIZER_POD_GROUP], **DELETED)
    assert planned(replace(one, workload=workload(one), workload_group=held)) == [
        (Patch, "PodGroup")
    ]
    free = pod_group(one, **DELETED)
    assert planned(replace(one, workload=workload(one), workload_group=free)) == []


def test_a_workload_that_goes_is_waited_for() -> None:
    one = snapshot()
    going = replace(one, workload=workload(one, **DELETED))
    assert planned(going) == []
    assert plan_workload(going).wait is not None


@pytest.mark.parametrize(
    "no_gang", [{"labels": {}}, {"labels": {names.LABEL_GANG_SCHEDULING: "false"}}]
)
def test_a_cluster_that_is_no_gang_any_more_loses_both(no_gang: dict[str, Any]) -> None:
    before, now = snapshot(), snapshot(**no_gang)
    both = replace(now, workload=workload(before), workload_group=pod_group(before))
    assert planned(both) == [(Delete, "PodGroup")]
    assert planned(replace(both, workload_group=None)) == [(Delete, "Workload")]
    assert planned(now) == []


def test_an_autoscaler_makes_it_no_gang() -> None:
    assert planned(snapshot(enableInTreeAutoscaling=True)) == []


def test_objects_of_others_are_neither_deleted_nor_adopted() -> None:
    before, now = snapshot(2), snapshot(5)
    foreign = workload(before, ownerReferences=[])
    assert planned(replace(now, workload=foreign, workload_group=pod_group(now))) == [
        (Create, "Workload")  # which fails, and names the object that exists
    ]
    stays = replace(snapshot(labels={}), workload=foreign)
    assert planned(stays) == []
