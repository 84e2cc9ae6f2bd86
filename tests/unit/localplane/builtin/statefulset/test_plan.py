"""How a StatefulSet keeps Pods with stable names (U4)."""

from __future__ import annotations

from typing import Any

import pytest

from manta.api.revisions import ControllerRevision
from manta.localplane.builtin.statefulset.plan import Cause, plan
from manta.localplane.builtin.statefulset.snapshot import StatefulSetSnapshot
from manta.localplane.builtin.statefulset.status import next_status
from manta.localplane.builtin.views import Claim, Pod
from manta.localplane.builtin.workload_views import StatefulSet
from manta.reconcile.actions import Create, Patch
from support.plane_objects import NOW, a_pod, a_template, ago
from support.workload_objects import a_claim, a_member, a_revision, a_stateful_set

OLD, NEW = a_revision("s", a_template("v0", "s"), 1), a_revision("s", a_template("v1", "s"), 2)
DATA = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}


def a_snapshot(
    stateful_set: StatefulSet,
    *pods: Pod,
    orphans: tuple[Pod, ...] = (),
    revisions: tuple[ControllerRevision, ...] = (OLD, NEW),
    claims: tuple[Claim, ...] = (),
) -> StatefulSetSnapshot:
    return StatefulSetSnapshot(stateful_set, pods, orphans, revisions, claims, NOW)


def done(snapshot: StatefulSetSnapshot) -> list[tuple[Any, str]]:
    return [(action.cause, action.key.name) for action in plan(snapshot).actions]


def test_the_revision_of_a_new_template_comes_first() -> None:
    snapshot = a_snapshot(a_stateful_set(), revisions=(OLD,))
    [create] = plan(snapshot).actions
    assert isinstance(create, Create)
    assert create.manifest["revision"] == 2
    assert create.manifest["metadata"]["name"] == snapshot.update_revision
    assert create.manifest["data"]["spec"]["template"]["$patch"] == "replace"


def test_a_template_that_comes_back_becomes_the_newest_revision() -> None:
    back = a_stateful_set(template=a_template("v0", "s"))
    [patch] = plan(a_snapshot(back)).actions
    assert isinstance(patch, Patch)
    assert (patch.key.name, patch.patch) == (OLD.metadata.name, {"revision": 3})


def test_only_the_lowest_missing_ordinal_is_created() -> None:
    assert done(a_snapshot(a_stateful_set(replicas=3), a_member(0))) == [(Cause.CREATE, "s-1")]


def test_ordinals_may_start_above_zero() -> None:
    assert done(a_snapshot(a_stateful_set(ordinals={"start": 5}))) == [(Cause.CREATE, "s-5")]


@pytest.mark.parametrize(
    "first",
    [a_member(0, ready=False), a_member(0, meta={"deletionTimestamp": ago(0)})],
    ids=["not ready", "leaving"],
)
def test_an_ordered_set_waits_for_the_pod_before(first: Pod) -> None:
    assert done(a_snapshot(a_stateful_set(replicas=2), first)) == []


def test_an_ordered_set_waits_until_a_pod_was_ready_long_enough() -> None:
    snapshot = a_snapshot(a_stateful_set(replicas=2, minReadySeconds=30), a_member(0))
    assert done(snapshot) == []
    wait = plan(snapshot).wait
    assert wait is not None
    assert wait.retry_in is not None
    assert wait.retry_in.total_seconds() == 30


def test_a_parallel_set_creates_all_at_once() -> None:
    parallel = a_stateful_set(replicas=3, podManagementPolicy="Parallel")
    snapshot = a_snapshot(parallel, a_member(0, ready=False))
    assert done(snapshot) == [(Cause.CREATE, "s-1"), (Cause.CREATE, "s-2")]


def test_the_highest_ordinal_goes_first_and_alone() -> None:
    members = [a_member(number) for number in range(3)]
    assert done(a_snapshot(a_stateful_set(replicas=1), *members)) == [(Cause.SURPLUS, "s-2")]
    members[2] = a_member(2, meta={"deletionTimestamp": ago(0)})
    assert done(a_snapshot(a_stateful_set(replicas=1), *members)) == []


def test_a_pod_that_ended_is_deleted_so_that_its_name_is_free() -> None:
    failed = a_member(0, phase="Failed", ready=False)
    assert done(a_snapshot(a_stateful_set(), failed)) == [(Cause.REPLACE, "s-0")]


def test_claims_are_created_before_their_pod_and_used_again() -> None:
    wanted = a_stateful_set(volumeClaimTemplates=[DATA])
    first, second = plan(a_snapshot(wanted)).stages
    [claim], [pod] = first.actions, second.actions
    assert isinstance(claim, Create)
    assert isinstance(pod, Create)
    assert claim.manifest["metadata"]["name"] == "data-s-0"
    assert "ownerReferences" not in claim.manifest["metadata"]
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-s-0"}}
    assert pod.manifest["spec"]["volumes"] == [volume]
    again = a_snapshot(wanted, claims=(a_claim("data-s-0"),))
    assert done(again) == [(Cause.CREATE, "s-0")]


def test_the_retention_policy_decides_who_owns_a_claim() -> None:
    both = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    wanted = a_stateful_set(volumeClaimTemplates=[DATA], persistentVolumeClaimRetentionPolicy=both)
    claims = (a_claim("data-s-0"), a_claim("data-s-1"))
    actions = plan(a_snapshot(wanted, a_member(0), a_member(1), claims=claims)).actions
    owners = {
        action.key.name: action.patch["metadata"]["ownerReferences"][0]["kind"]
        for action in actions
        if isinstance(action, Patch)
    }
    assert owners == {"data-s-0": "StatefulSet", "data-s-1": "Pod"}


def test_an_update_replaces_one_pod_at_a_time_from_the_top() -> None:
    old = [a_member(number, "v0") for number in range(3)]
    wanted = a_stateful_set(replicas=3)
    assert done(a_snapshot(wanted, *old)) == [(Cause.UPDATE, "s-2")]
    half = [old[0], old[1], a_member(2, "v1")]
    assert done(a_snapshot(wanted, *half)) == [(Cause.UPDATE, "s-1")]


def test_an_update_takes_as_many_as_may_be_unavailable() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}
    wanted = a_stateful_set(replicas=4, updateStrategy=strategy)
    old = [a_member(number, "v0") for number in range(4)]
    assert done(a_snapshot(wanted, *old)) == [(Cause.UPDATE, "s-3"), (Cause.UPDATE, "s-2")]


def test_below_the_partition_pods_keep_the_current_revision() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    current = {"currentRevision": OLD.metadata.name}
    wanted = a_stateful_set(replicas=2, updateStrategy=strategy, status=current)
    assert done(a_snapshot(wanted, a_member(0, "v0"), a_member(1))) == []
    [create] = plan(a_snapshot(wanted, a_member(1))).actions
    assert isinstance(create, Create)
    assert create.manifest["spec"]["containers"][0]["image"] == "v0"
    assert create.manifest["metadata"]["labels"]["controller-revision-hash"] == OLD.metadata.name


def test_on_delete_leaves_old_pods_alone() -> None:
    wanted = a_stateful_set(updateStrategy={"type": "OnDelete"})
    assert done(a_snapshot(wanted, a_member(0, "v0"))) == []


def test_orphans_with_the_right_name_are_adopted_and_strays_let_go() -> None:
    orphan = a_pod("s-0", labels={"app": "s"})
    other = a_pod("else-0", labels={"app": "s"})
    assert done(a_snapshot(a_stateful_set(), orphans=(orphan, other))) == [(Cause.ADOPT, "s-0")]
    stray = a_member(1, labels={"app": "x"})
    assert (Cause.RELEASE, "s-1") in done(a_snapshot(a_stateful_set(), stray))


def test_old_revisions_beyond_the_limit_are_deleted() -> None:
    unused = [a_revision("s", a_template(f"u{number}", "s"), number) for number in (1, 2)]
    present = a_revision("s", a_template("v1", "s"), 9)
    wanted = a_stateful_set(revisionHistoryLimit=1)
    snapshot = a_snapshot(wanted, a_member(0), revisions=(*unused, present))
    assert done(snapshot) == [(Cause.HISTORY, unused[0].metadata.name)]


def test_a_set_that_is_deleted_does_nothing() -> None:
    assert done(a_snapshot(a_stateful_set(meta={"deletionTimestamp": ago(0)}))) == []


def test_the_update_revision_becomes_current_when_all_pods_have_it() -> None:
    wanted = a_stateful_set(replicas=2, status={"currentRevision": OLD.metadata.name})
    halfway = next_status(a_snapshot(wanted, a_member(0, "v0"), a_member(1)))
    assert (halfway.current_revision, halfway.update_revision) == (
        OLD.metadata.name,
        NEW.metadata.name,
    )
    assert (halfway.current_replicas, halfway.updated_replicas) == (1, 1)
    complete = next_status(a_snapshot(wanted, a_member(0), a_member(1)))
    assert complete.current_revision == NEW.metadata.name
    assert (complete.current_replicas, complete.updated_replicas) == (2, 2)
