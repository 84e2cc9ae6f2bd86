"""How a ReplicaSet keeps its number of Pods."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from manta.kube.errors import Forbidden
from manta.localplane.builtin.replicaset.plan import Cause, plan
from manta.localplane.builtin.replicaset.snapshot import ReplicaSetSnapshot
from manta.localplane.builtin.replicaset.status import next_status
from manta.localplane.builtin.views import Pod, ReplicaSet
from manta.reconcile.actions import Create, Patch
from manta.reconcile.outcome import UNTRIED, Failure, Outcome
from support.plane_objects import NOW, a_pod, a_replica_set, ago, owned_by

OWNED = owned_by("ReplicaSet", "r", "uid-r", api_version="apps/v1")


def a_replica(name: str, **more: Any) -> Pod:
    meta = {**OWNED, **more.pop("meta", {})}
    return a_pod(name, labels=more.pop("labels", {"app": "d"}), meta=meta, **more)


def a_snapshot(
    replica_set: ReplicaSet, *pods: Pod, orphans: tuple[Pod, ...] = ()
) -> ReplicaSetSnapshot:
    return ReplicaSetSnapshot(replica_set, pods, orphans, NOW)


def done(snapshot: ReplicaSetSnapshot) -> list[tuple[Any, str]]:
    return [(action.cause, action.key.name) for action in plan(snapshot).actions]


def test_missing_pods_are_created_from_the_template() -> None:
    [first, _] = plan(a_snapshot(a_replica_set(replicas=2))).actions
    assert isinstance(first, Create)
    assert first.manifest["metadata"] == {
        "generateName": "r-",
        "namespace": "default",
        "labels": {"app": "d"},
        "ownerReferences": OWNED["ownerReferences"],
    }


def test_pods_that_ended_or_leave_are_replaced() -> None:
    gone = [a_replica("a", phase="Failed"), a_replica("b", meta={"deletionTimestamp": ago(0)})]
    assert done(a_snapshot(a_replica_set(replicas=2), *gone)) == [(Cause.CREATE, "r-")] * 2


def test_of_too_many_the_least_useful_go() -> None:
    pods = [
        a_replica("serving", node="n1", phase="Running", ready=True),
        a_replica("starting", node="n1", phase="Running"),
        a_replica("unbound"),
        a_replica("bound", node="n1"),
    ]
    gone = done(a_snapshot(a_replica_set(replicas=1), *pods))
    assert gone == [(Cause.SURPLUS, name) for name in ("unbound", "bound", "starting")]


def test_the_youngest_of_equals_goes_first() -> None:
    old = a_replica("old", meta={"creationTimestamp": ago(90)})
    young = a_replica("young", meta={"creationTimestamp": ago(10)})
    assert done(a_snapshot(a_replica_set(replicas=1), old, young)) == [(Cause.SURPLUS, "young")]


def test_an_orphan_that_fits_is_adopted_instead_of_a_new_pod() -> None:
    snapshot = a_snapshot(a_replica_set(replicas=1), orphans=(a_pod("o", labels={"app": "d"}),))
    [adopt] = plan(snapshot).actions
    assert isinstance(adopt, Patch)
    assert adopt.patch["metadata"]["ownerReferences"] == OWNED["ownerReferences"]


def test_a_pod_that_was_relabelled_is_let_go_and_replaced() -> None:
    stranger = a_replica("s", labels={"app": "debug"})
    assert done(a_snapshot(a_replica_set(replicas=1), stranger)) == [
        (Cause.RELEASE, "s"),
        (Cause.CREATE, "r-"),
    ]


def test_nothing_is_done_for_one_that_is_being_deleted() -> None:
    leaving = a_replica_set(replicas=1, meta={"deletionTimestamp": ago(0)})
    assert done(a_snapshot(leaving)) == []


def test_a_pod_becomes_available_after_min_ready_seconds() -> None:
    replica_set = a_replica_set(replicas=1, minReadySeconds=30)
    snapshot = a_snapshot(replica_set, a_replica("a", ready=True, phase="Running"))
    wait = plan(snapshot).wait
    assert wait
    assert wait.retry_in == timedelta(seconds=30)
    status = next_status(snapshot, UNTRIED)
    assert (status.ready_replicas, status.available_replicas) == (1, None)


def test_the_status_counts_what_is_there() -> None:
    pods = [a_replica("a", ready=True), a_replica("b"), a_replica("c", phase="Failed")]
    status = next_status(a_snapshot(a_replica_set(replicas=2), *pods), UNTRIED)
    assert msgspec.to_builtins(status) == {
        "replicas": 2,
        "fullyLabeledReplicas": 2,
        "readyReplicas": 1,
        "availableReplicas": 1,
        "terminatingReplicas": 0,
        "observedGeneration": 1,
    }


def test_a_refused_pod_is_reported_in_a_condition_until_it_works() -> None:
    snapshot = a_snapshot(a_replica_set(replicas=1))
    [create] = plan(snapshot).actions
    refused = Outcome(failures=(Failure(create, Forbidden(403, "Forbidden", "exceeded quota")),))
    [condition] = next_status(snapshot, refused).conditions or ()
    assert (condition.type, condition.reason) == ("ReplicaFailure", "FailedCreate")
    assert "exceeded quota" in condition.message
    assert next_status(snapshot, UNTRIED).conditions is None
