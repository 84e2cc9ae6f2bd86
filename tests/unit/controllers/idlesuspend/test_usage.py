"""What a cluster holds while it is counted: only what its Pods with a node ask for, and since they have it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from manta.api.core import Pod
from manta.api.meta import ObjectMeta, Uid
from manta.api.ray.cluster import RayCluster, RayClusterSpec
from manta.api.times import format_time
from manta.controllers.idlesuspend.snapshot import Answer, Held, IdleSnapshot
from manta.controllers.idlesuspend.usage import held_by, usage_annotation
from manta.rules.idle import IdleLimit
from manta.rules.usage import Usage, UseState, changed

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEGIN = NOW - timedelta(hours=2)


def a_pod(node: str = "n1", phase: str = "Running", scheduled: datetime = BEGIN) -> Pod:
    resources = {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "nvidia.com/gpu": "1"}}
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": format_time(scheduled),
    }
    body: dict[str, Any] = {
        "spec": {"nodeName": node, "containers": [{"name": "ray", "resources": resources}]},
        "status": {"phase": phase, "conditions": [condition]},
    }
    return msgspec.convert(body, Pod)


def recorded(known: Usage, held: Held, previous_at: datetime | None = None) -> Usage | None:
    meta = ObjectMeta(name="demo", uid=Uid("u"), annotations={"manta.ray.io/usage": known.text})
    cluster = RayCluster(metadata=meta, spec=RayClusterSpec())
    limit = IdleLimit(timedelta(hours=8), timedelta(0))
    answer = Answer(NOW, "", evidence="0/0/0", previous_at=previous_at)
    one = IdleSnapshot(cluster, limit, NOW, answer=answer, held=held)
    return Usage.parse(usage_annotation(one, UseState.IDLE).get("manta.ray.io/usage") or "")


def test_a_worker_that_waits_for_a_gpu_or_is_over_holds_none() -> None:
    pods = (a_pod(), a_pod(), a_pod(node=""), a_pod(phase="Failed"))
    assert held_by(pods) == Held(1.0, 2.0, BEGIN)
    assert held_by([]) == Held()


def test_workers_count_from_when_they_got_a_node() -> None:
    known = changed(None, BEGIN, UseState.IDLE, 0.5, 1)
    late = NOW - timedelta(minutes=30)
    usage = recorded(known, held_by((a_pod(), a_pod(scheduled=late))))
    assert usage is not None
    assert usage.until(NOW).total.idle_gpu == 2 + 0.5


def test_workers_that_are_gone_count_until_that_is_seen() -> None:
    known = changed(None, BEGIN, UseState.IDLE, 1, 2)
    usage = recorded(known, held_by((a_pod(),)))
    assert usage is not None
    assert usage.until(NOW + timedelta(hours=1)).total.idle_gpu == 4 + 1


def test_what_stays_the_same_is_not_written() -> None:
    known = changed(None, BEGIN, UseState.IDLE, 1, 2)
    assert recorded(known, held_by((a_pod(), a_pod()))) is None


def test_a_change_that_two_answers_show_is_noted_for_the_middle_between_them() -> None:
    known = changed(None, BEGIN, UseState.USED, 1, 2)
    before = NOW - timedelta(hours=1)
    usage = recorded(known, Held(1, 2, BEGIN), previous_at=before)
    assert usage is not None
    assert (usage.state, usage.since) == (UseState.IDLE, NOW - timedelta(minutes=30))
