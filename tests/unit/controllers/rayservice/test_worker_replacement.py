"""A worker whose Serve proxy is not ready is replaced after the time that the RayService sets, one at a time (C51)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from manta.api.core import Pod, PodCondition
from manta.api.meta import Uid
from manta.api.ray.names import ANNOTATION_REPLACE_UNSERVING_AFTER
from manta.api.times import format_time
from manta.controllers.rayservice.planners.worker_replacement import plan_worker_replacement
from manta.controllers.rayservice.snapshot import DashboardReply, ServiceSnapshot
from manta.reconcile.actions import Delete
from support.rayservice_objects import NOW, a_pod, a_view, running, serving

LIMIT = {ANNOTATION_REPLACE_UNSERVING_AFTER: "60"}


def worker(name: str, unready_for: float | None, ip: str = "10.0.0.1", **meta: Any) -> Pod:
    """A running worker that fails its readiness probe since that many seconds; None: it passes."""
    pod = a_pod(name, ready=unready_for is None)
    since = format_time(NOW - timedelta(seconds=unready_for or 0))
    status = "True" if unready_for is None else "False"
    condition = PodCondition(type="Ready", status=status, last_transition_time=since)
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(pod.metadata, **meta),
        status=msgspec.structs.replace(pod.status, conditions=(condition,), pod_ip=ip),
    )


def snapshot(*workers: Pod, annotations: Any = None, **facts: Any) -> ServiceSnapshot:
    head = a_pod("demo-a-head", head=True)
    answer = replace(running(), proxies=frozenset(("10.0.0.1", "10.0.0.2")))
    view = a_view(
        "demo-a", **{"head_pod": head, "pods": (head, *workers), "answer": answer, **facts}
    )
    spec = {"annotations": LIMIT if annotations is None else annotations}
    return serving(active=view, spec=spec)


def deleted(one: ServiceSnapshot) -> list[str]:
    actions = plan_worker_replacement(one).plan.actions
    assert all(isinstance(action, Delete) for action in actions)
    return [action.key.name for action in actions]


def test_the_longest_unready_worker_is_replaced_first_and_alone() -> None:
    one = snapshot(worker("b", 70), worker("a", 90), worker("c", 80))
    assert deleted(one) == ["a"]
    assert plan_worker_replacement(one).plan.actions[0].uid == Uid("a-uid")


def test_before_the_time_is_up_it_waits() -> None:
    one = snapshot(worker("a", 20))
    assert deleted(one) == []
    assert plan_worker_replacement(one).wake_in == timedelta(seconds=40)
    assert deleted(snapshot(worker("a", 60))) == ["a"]


@pytest.mark.parametrize(
    "one",
    [
        snapshot(worker("a", None)),
        snapshot(worker("a", 90, ip="10.9.9.9")),
        snapshot(worker("a", 90), annotations={}),
        snapshot(worker("a", 90), annotations={ANNOTATION_REPLACE_UNSERVING_AFTER: "soon"}),
        snapshot(
            worker("a", 90), worker("b", None, deletion_timestamp=format_time(NOW))
        ),
        snapshot(worker("a", 90), answer=DashboardReply({}, frozenset(("10.0.0.1",)))),
        replace(snapshot(worker("a", 90)), active=None),
    ],
    ids=[
        "ready", "no proxy on its node", "not asked for", "invalid time", "another one goes",
        "applications do not run", "no active cluster",
    ],
)  # fmt: skip
def test_no_worker_is_replaced(one: ServiceSnapshot) -> None:
    step = plan_worker_replacement(one)
    assert step.plan.actions == ()
    assert step.wake_in is None


def test_a_head_that_is_not_ready_is_not_replaced_here() -> None:
    head = worker("demo-a-head", 90)
    assert deleted(snapshot(head_pod=head, pods=(head,))) == []
