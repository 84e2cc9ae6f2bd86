"""What is planned for one snapshot: which patch, under which precondition, and when Ray is asked again."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec

from manta.api.core import Container, ContainerStatus, Pod, PodSpec, PodStatus
from manta.api.meta import ObjectMeta, ResourceVersion, Uid
from manta.api.ray.cluster import RayCluster, RayClusterSpec
from manta.api.times import format_time
from manta.controllers.idlesuspend.facts import evidence_of, next_query_at
from manta.controllers.idlesuspend.plan import plan
from manta.controllers.idlesuspend.snapshot import Answer, IdleSnapshot
from manta.reconcile.actions import Patch
from manta.rules.idle import IdleLimit

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIMIT = IdleLimit(timedelta(minutes=30), timedelta(minutes=10))
HEAD = Pod(
    metadata=ObjectMeta(uid=Uid("head")),
    spec=PodSpec(containers=(Container(name="ray"),)),
    status=PodStatus(container_statuses=(ContainerStatus(name="ray", ready=True),)),
)
IDLE = Answer(NOW, "head/0", evidence="0/0/0")


def snapshot(
    *,
    idle_for: timedelta | None = None,
    announced_at: datetime | None = None,
    answer: Answer | None = IDLE,
    suspend: bool | None = None,
    marks: dict[str, str] | None = None,
) -> IdleSnapshot:
    notes = dict(marks or {})
    if idle_for is not None:
        notes["manta.ray.io/idle-since"] = format_time(NOW - idle_for)
        notes["manta.ray.io/idle-evidence"] = evidence_of(IDLE)
        notes["manta.ray.io/usage"] = f"idle {format_time(NOW - idle_for)} 0 0;total 0 0 0 0"
    if announced_at is not None:
        notes["manta.ray.io/idle-suspend-at"] = format_time(announced_at)
    meta = ObjectMeta(
        name="demo",
        namespace="default",
        uid=Uid("u1"),
        resource_version=ResourceVersion("7"),
        annotations=notes,
    )
    cluster = RayCluster(metadata=meta, spec=RayClusterSpec(suspend=suspend))
    return IdleSnapshot(cluster, LIMIT, NOW, HEAD, answer)


def patch_of(one: IdleSnapshot) -> Patch:
    (action,) = plan(one).plan.actions
    assert isinstance(action, Patch)
    return action


def test_every_patch_is_only_for_the_version_that_was_seen() -> None:
    due = snapshot(idle_for=timedelta(minutes=30), announced_at=NOW)
    resumed = snapshot(marks={"manta.ray.io/idle-suspended": format_time(NOW)}, suspend=False)
    for one in (snapshot(), due, resumed):
        assert (patch_of(one).uid, patch_of(one).resource_version) == ("u1", "7")


def test_an_answer_that_is_not_fresh_suspends_nothing() -> None:
    due = snapshot(idle_for=timedelta(minutes=40), announced_at=NOW - timedelta(minutes=5))
    assert patch_of(due).patch["spec"] == {"suspend": True}
    old = replace(IDLE, at=NOW - timedelta(seconds=11))
    assert not plan(replace(due, answer=old)).plan.actions


def test_an_answer_from_before_the_decision_suspends_nothing() -> None:
    due = snapshot(idle_for=timedelta(minutes=30), announced_at=NOW)
    early = replace(IDLE, at=NOW - timedelta(seconds=2))
    assert not plan(replace(due, answer=early)).plan.actions
    assert next_query_at(replace(due, answer=early), LIMIT) == NOW


def test_nothing_is_suspended_before_it_was_announced_and_the_time_has_passed() -> None:
    late = snapshot(idle_for=timedelta(hours=5))
    announced = patch_of(late).patch["metadata"]["annotations"]
    assert announced == {"manta.ray.io/idle-suspend-at": format_time(NOW + timedelta(minutes=10))}
    soon = snapshot(idle_for=timedelta(hours=5), announced_at=NOW + timedelta(seconds=1))
    assert not plan(soon).plan.actions


def test_a_longer_limit_after_the_announcement_counts() -> None:
    due = snapshot(idle_for=timedelta(minutes=30), announced_at=NOW)
    longer = replace(due, limit=IdleLimit(timedelta(hours=2), timedelta(minutes=10)))
    assert not plan(longer).plan.actions


def test_the_answer_of_another_head_does_not_count() -> None:
    due = snapshot(idle_for=timedelta(minutes=30), announced_at=NOW)
    assert not plan(replace(due, answer=replace(IDLE, head="other/0"))).plan.actions
    assert "spec" not in patch_of(replace(due, head_pod=None)).patch  # only the figures change


def test_notes_that_cannot_be_read_are_written_again() -> None:
    broken = snapshot(marks={"manta.ray.io/idle-since": "yesterday"})
    assert patch_of(broken).patch["metadata"]["annotations"]["manta.ray.io/idle-since"] == (
        format_time(NOW)
    )


def test_marks_of_a_limit_that_is_gone_are_removed_unless_the_cluster_is_being_deleted() -> None:
    unlimited = replace(snapshot(idle_for=timedelta(minutes=5)), limit=None)
    forgotten = patch_of(unlimited).patch["metadata"]["annotations"]
    assert forgotten["manta.ray.io/idle-since"] is None
    meta = msgspec.structs.replace(unlimited.cluster.metadata, deletion_timestamp=format_time(NOW))
    deleted = msgspec.structs.replace(unlimited.cluster, metadata=meta)
    assert not plan(replace(unlimited, cluster=deleted)).plan.actions


def test_the_reason_of_a_suspension_names_the_limit() -> None:
    due = snapshot(idle_for=timedelta(minutes=30), announced_at=NOW)
    assert "suspended after 30m0s;" in patch_of(due).why
