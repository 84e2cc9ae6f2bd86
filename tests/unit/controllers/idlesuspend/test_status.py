"""The condition Idle: what it says in each situation, and when it is left as it is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from manta.api.conditions import find
from manta.api.core import Container, ContainerStatus, Pod, PodSpec, PodStatus
from manta.api.meta import Condition, ObjectMeta, Uid
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster, RayClusterSpec, RayClusterStatus
from manta.api.times import format_time
from manta.controllers.idlesuspend.facts import exemption
from manta.controllers.idlesuspend.snapshot import Answer, IdleSnapshot
from manta.controllers.idlesuspend.status import next_status
from manta.rules.idle import IdleLimit

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SINCE = NOW - timedelta(minutes=5)
LIMIT = IdleLimit(timedelta(minutes=30), timedelta(minutes=10))
HEAD = Pod(
    metadata=ObjectMeta(uid=Uid("head")),
    spec=PodSpec(containers=(Container(name="ray"),)),
    status=PodStatus(container_statuses=(ContainerStatus(name="ray", ready=True),)),
)
STARTING = msgspec.structs.replace(
    HEAD, status=PodStatus(container_statuses=(ContainerStatus(name="ray", ready=False),))
)
IDLE = Answer(NOW, "head/0", evidence="0/0/0")
USED = Answer(NOW, "head/0", in_use=True, reason="Drivers", message="1 driver runs")
SILENT = Answer(NOW, "head/0", reason="NoAnswer", message="the dashboard does not answer")
IDLE_SINCE = {names.ANNOTATION_IDLE_SINCE: format_time(SINCE)}
SUSPENDED = {names.ANNOTATION_IDLE_SUSPENDED: format_time(NOW)}


def snapshot(
    *,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    conditions: tuple[Condition, ...] = (),
    **facts: Any,
) -> IdleSnapshot:
    meta = ObjectMeta(
        name="demo",
        namespace="default",
        annotations=annotations or {},
        labels=labels or {},
    )
    cluster = RayCluster(
        metadata=meta,
        spec=msgspec.convert(spec or {}, RayClusterSpec),
        status=RayClusterStatus(conditions=conditions),
    )
    given: dict[str, Any] = {"limit": LIMIT, "now": NOW, "head_pod": HEAD, "answer": IDLE, **facts}
    return IdleSnapshot(cluster, **given)


def said(one: IdleSnapshot) -> tuple[str, str] | None:
    """Status and reason."""
    found = find(next_status(one).conditions, "Idle")
    return None if found is None else (found.status, found.reason)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (snapshot(annotations=IDLE_SINCE), ("True", "NotInUse")),
        (snapshot(answer=USED), ("False", "Drivers")),
        (snapshot(answer=SILENT), ("Unknown", "NoAnswer")),
        (snapshot(head_pod=None), ("Unknown", "HeadNotReady")),
        (snapshot(head_pod=STARTING), ("Unknown", "HeadNotReady")),
        (snapshot(limit=None, violation="no duration"), ("Unknown", "InvalidIdleLimit")),
        (snapshot(annotations=SUSPENDED, spec={"suspend": True}), ("True", "IdleSuspended")),
        (snapshot(answer=None), None),
        (snapshot(), None),
        (snapshot(limit=None), None),
        (snapshot(spec={"suspend": True}), None),
    ],
    ids=[
        "idle", "used", "silent", "no head", "head not ready", "invalid limit", "suspended by us", "not asked yet",
        "not recorded yet", "no limit", "suspended by somebody else",
    ],
)  # fmt: skip
def test_each_situation_has_its_status_and_reason(
    one: IdleSnapshot, expected: tuple[str, str] | None
) -> None:
    assert said(one) == expected


def test_the_message_names_the_end_of_the_limit_or_the_later_announced_time() -> None:
    early = find(next_status(snapshot(annotations=IDLE_SINCE)).conditions, "Idle")
    assert early is not None
    assert f"suspended at {format_time(SINCE + LIMIT.after)}" in early.message
    announced = SINCE + timedelta(hours=1)
    marks = {**IDLE_SINCE, names.ANNOTATION_IDLE_SUSPEND_AT: format_time(announced)}
    late = find(next_status(snapshot(annotations=marks)).conditions, "Idle")
    assert late is not None
    assert f"suspended at {format_time(announced)}" in late.message


EXEMPT: dict[str, dict[str, Any]] = {
    "another operator manages it": {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}},
    "Kueue decides when it runs": {"labels": {names.LABEL_KUEUE_QUEUE: "team"}},
    "it belongs to a RayService": {
        "labels": {names.LABEL_ORIGIN_KIND: "RayService"},
    },
    "it has no dashboard": {
        "spec": {"headGroupSpec": {"rayStartParams": {"include-dashboard": "false"}}}
    },
}


TEMPLATE = {"metadata": {"labels": {"kueue.x-k8s.io/podset": "head"}}}


@pytest.mark.parametrize(
    "fields",
    [
        {"labels": {"kueue.x-k8s.io/priority-class": "low"}},
        {"annotations": {"kueue.x-k8s.io/workload": "raycluster-demo"}},
        {"spec": {"headGroupSpec": {"template": TEMPLATE}}},
    ],
    ids=["label", "annotation", "label of the Pods"],
)
def test_kueue_may_manage_clusters_without_a_queue_label(fields: dict[str, Any]) -> None:
    """With `manageJobsWithoutQueueName`: it would resume at once what is suspended here."""
    found = find(next_status(snapshot(**fields)).conditions, "Idle")
    assert found is not None
    assert "Kueue decides when it runs" in found.message


@pytest.mark.parametrize(
    "metadata", [None, "x", ["x"], {"labels": [1]}, {"annotations": "x"}], ids=str
)
def test_a_pod_template_of_the_wrong_shape_is_not_kueues(metadata: Any) -> None:
    template = {"metadata": metadata}
    assert exemption(snapshot(spec={"headGroupSpec": {"template": template}})) == ""


@pytest.mark.parametrize("why", EXEMPT)
def test_a_limit_without_effect_is_explained_only_to_those_who_set_it(why: str) -> None:
    own = snapshot(**EXEMPT[why])
    found = find(next_status(own).conditions, "Idle")
    assert found is not None
    assert (found.status, found.reason) == ("Unknown", "NeverSuspendedForIdleness")
    assert why in found.message
    assert said(replace(own, limit=replace(LIMIT, is_default=True))) is None


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_a_changed_message_alone_is_not_written(status: str) -> None:
    answer = USED if status == "False" else SILENT
    known = Condition(type="Idle", status=status, reason=answer.reason, message="another text")
    one = snapshot(answer=answer, conditions=(known,))
    assert next_status(one) == one.cluster.status


def test_a_changed_time_of_suspension_is_written() -> None:
    known = Condition(type="Idle", status="True", reason="NotInUse", message="another time")
    one = snapshot(annotations=IDLE_SINCE, conditions=(known,))
    assert next_status(one) != one.cluster.status


def test_the_condition_goes_with_the_limit_and_stays_while_ray_was_not_asked() -> None:
    known = Condition(type="Idle", status="False", reason="Drivers")
    assert said(snapshot(limit=None, conditions=(known,))) is None
    assert said(snapshot(answer=None, conditions=(known,))) == ("False", "Drivers")
