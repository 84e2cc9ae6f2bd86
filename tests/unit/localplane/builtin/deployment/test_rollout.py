"""Rollouts of Deployments: bounds, steps, conditions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.localplane.builtin.deployment.plan import Cause, plan
from manta.localplane.builtin.deployment.rollout import surge, unavailable
from manta.localplane.builtin.deployment.snapshot import DeploymentSnapshot, template_hash
from manta.localplane.builtin.deployment.status import is_complete, next_status
from manta.localplane.builtin.views import Deployment, DeploymentStatus, ReplicaSet
from manta.reconcile.actions import Create, Delete, Patch
from support.plane_objects import NOW, a_deployment, a_replica_set, a_template, ago

OLD: dict[str, Any] = {"template": a_template("v0")}


def a_snapshot(deployment: Deployment, *replica_sets: ReplicaSet) -> DeploymentSnapshot:
    return DeploymentSnapshot(deployment, replica_sets, NOW)


def sizes(snapshot: DeploymentSnapshot) -> dict[str, int]:
    """The sizes that the plan sets, by ReplicaSet."""
    return {
        action.key.name: action.patch["spec"]["replicas"]
        for action in plan(snapshot).actions
        if isinstance(action, Patch) and "spec" in action.patch
    }


def rolling(max_surge: int | str, max_unavailable: int | str) -> dict[str, Any]:
    limits = {"maxSurge": max_surge, "maxUnavailable": max_unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": limits}


def test_a_new_deployment_gets_a_replica_set_named_after_its_template() -> None:
    deployment = a_deployment(replicas=2)
    create = plan(a_snapshot(deployment)).actions[0]
    assert isinstance(create, Create)
    mark = template_hash(deployment.spec.template)
    assert create.manifest["metadata"]["name"] == f"d-{mark}"
    assert create.manifest["spec"]["replicas"] == 2
    assert create.manifest["spec"]["selector"]["matchLabels"] == {
        "app": "d",
        "pod-template-hash": mark,
    }
    assert create.manifest["metadata"]["annotations"] == {
        "deployment.kubernetes.io/revision": "1",
        "deployment.kubernetes.io/desired-replicas": "2",
        "deployment.kubernetes.io/max-replicas": "3",
    }


@pytest.mark.parametrize(
    ("replicas", "strategy", "limits"),
    [
        (4, rolling("25%", "25%"), (1, 1)),
        (3, rolling("50%", "50%"), (2, 1)),
        (10, rolling(2, 0), (2, 0)),
        (2, rolling(0, 0), (0, 1)),
        (1, rolling("25%", "25%"), (1, 0)),
    ],
)
def test_limits_round_so_that_a_rollout_can_move(
    replicas: int, strategy: dict[str, Any], limits: tuple[int, int]
) -> None:
    deployment = a_deployment(replicas=replicas, strategy=strategy)
    assert (surge(deployment), unavailable(deployment)) == limits


def test_the_new_one_grows_before_the_old_one_shrinks() -> None:
    deployment = a_deployment(replicas=4, strategy=rolling(1, 1))
    old, new = a_replica_set("old", 4, available=4, **OLD), a_replica_set("new", 0)
    assert sizes(a_snapshot(deployment, old, new)) == {"new": 1}
    new = a_replica_set("new", 1)
    assert sizes(a_snapshot(deployment, old, new)) == {"old": 3}


def test_old_pods_that_do_not_work_go_first() -> None:
    deployment = a_deployment(replicas=4, strategy=rolling(0, 2))
    old, new = a_replica_set("old", 4, available=2, **OLD), a_replica_set("new", 0)
    assert sizes(a_snapshot(deployment, old, new)) == {"old": 2}


def test_scaling_down_takes_the_present_replica_set() -> None:
    assert sizes(a_snapshot(a_deployment(replicas=1), a_replica_set("new", 3))) == {"new": 1}


def test_recreate_waits_for_the_last_old_pod() -> None:
    deployment = a_deployment(replicas=2, strategy={"type": "Recreate"})
    assert sizes(a_snapshot(deployment, a_replica_set("old", 2, **OLD))) == {"old": 0}
    stopping = msgspec.structs.replace(
        a_replica_set("old", 0, **OLD),
        status=msgspec.structs.replace(a_replica_set().status, replicas=0, terminating_replicas=1),
    )
    assert plan(a_snapshot(deployment, stopping)).actions == ()
    gone = a_replica_set("old", 0, **OLD)
    assert (
        next(one.cause for one in plan(a_snapshot(deployment, gone)).actions) is Cause.NEW_TEMPLATE
    )


def test_a_paused_deployment_scales_but_does_not_roll() -> None:
    paused = a_deployment(replicas=3, paused=True)
    assert sizes(a_snapshot(paused, a_replica_set("old", 2, **OLD))) == {"old": 3}


def test_in_the_middle_of_a_rollout_a_paused_deployment_scales_within_its_surge() -> None:
    old, new = a_replica_set("old", 3, **OLD), a_replica_set("new", 1)
    assert sizes(a_snapshot(a_deployment(replicas=3, paused=True), old, new)) == {}
    assert sizes(a_snapshot(a_deployment(replicas=5, paused=True), old, new)) == {"old": 6}
    assert sizes(a_snapshot(a_deployment(replicas=0, paused=True), old, new)) == {
        "old": 0,
        "new": 0,
    }


def test_a_template_that_comes_back_gets_the_next_revision() -> None:
    mark = {"annotations": {"deployment.kubernetes.io/revision": "1"}}
    later = {"annotations": {"deployment.kubernetes.io/revision": "2"}}
    back = a_replica_set("back", 1, available=1, meta=mark)
    other = a_replica_set("other", 0, meta=later, **OLD)
    patches = {
        one.key.name: one.patch["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
        for one in plan(a_snapshot(a_deployment(), back, other)).actions
        if isinstance(one, Patch)
    }
    assert patches == {"back": "3", "d": "3"}


def test_old_revisions_beyond_the_limit_go() -> None:
    complete = {
        "observedGeneration": 1,
        "replicas": 1,
        "updatedReplicas": 1,
        "availableReplicas": 1,
    }
    deployment = a_deployment(
        revisionHistoryLimit=1,
        status=complete,
        meta={"annotations": {"deployment.kubernetes.io/revision": "3"}},
    )
    sets = [
        a_replica_set(
            f"r{number}",
            1 if number == 3 else 0,
            available=1,
            meta={"annotations": {"deployment.kubernetes.io/revision": str(number)}},
            template=a_template("v1" if number == 3 else f"old{number}"),
        )
        for number in (1, 2, 3)
    ]
    [delete] = plan(a_snapshot(deployment, *sets)).actions
    assert isinstance(delete, Delete)
    assert delete.key.name == "r1"


# ── conditions ───────────────────────────────────────────────────────────────────────────
def said(status: DeploymentStatus) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in status.conditions or ()}


def test_a_rollout_is_reported_from_its_start_to_its_end() -> None:
    deployment = a_deployment()
    started = next_status(a_snapshot(deployment, a_replica_set("new", 1)))
    assert said(started) == {
        "Available": ("False", "MinimumReplicasUnavailable"),
        "Progressing": ("True", "NewReplicaSetCreated"),
    }
    deployment = a_deployment(status=msgspec.to_builtins(started))
    finished = next_status(a_snapshot(deployment, a_replica_set("new", 1, available=1)))
    assert said(finished) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }
    assert (finished.replicas, finished.updated_replicas, finished.available_replicas) == (1, 1, 1)


def progressing(reason: str, *, seconds_ago: float, message: str = "") -> dict[str, Any]:
    stamp = ago(seconds_ago)
    condition = {
        "type": "Progressing",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastUpdateTime": stamp,
    }
    return {"conditions": [condition], "replicas": 1, "updatedReplicas": 1}


def test_a_rollout_that_does_not_move_times_out() -> None:
    late = a_deployment(status=progressing("ReplicaSetUpdated", seconds_ago=600))
    status = next_status(a_snapshot(late, a_replica_set("new", 1)))
    assert said(status)["Progressing"] == ("False", "ProgressDeadlineExceeded")


def test_a_rollout_that_succeeded_does_not_fail_later() -> None:
    message = 'ReplicaSet "new" has successfully progressed.'
    done = progressing("NewReplicaSetAvailable", seconds_ago=9999, message=message)
    status = next_status(a_snapshot(a_deployment(status=done), a_replica_set("new", 1)))
    assert said(status)["Progressing"] == ("True", "NewReplicaSetAvailable")


# ── the whole way, for any numbers ───────────────────────────────────────────────────────
@given(
    replicas=st.integers(1, 12),
    max_surge=st.integers(0, 4),
    max_unavailable=st.integers(0, 4),
    steps=st.lists(st.booleans(), max_size=30),
)
def test_a_rollout_stays_within_its_limits_and_arrives(
    replicas: int, max_surge: int, max_unavailable: int, steps: list[bool]
) -> None:
    strategy = rolling(max_surge, max_unavailable)
    deployment = a_deployment(replicas=replicas, strategy=strategy)
    state = {"old": (replicas, replicas), "new": (0, 0)}
    for new_pods_get_ready in [*steps, *[True] * 60]:
        sets = [
            a_replica_set("old", state["old"][0], available=state["old"][1], **OLD),
            a_replica_set("new", state["new"][0], available=state["new"][1]),
        ]
        for name, size in sizes(a_snapshot(deployment, *sets)).items():
            state[name] = (size, min(size, state[name][1]))
        total = sum(size for size, _ in state.values())
        available = sum(count for _, count in state.values())
        assert total <= replicas + surge(deployment)
        assert available >= replicas - unavailable(deployment)
        if new_pods_get_ready:
            size, count = state["new"]
            state["new"] = (size, min(size, count + 1))
    assert state == {"old": (0, 0), "new": (replicas, replicas)}


def test_completeness_needs_the_present_generation() -> None:
    counts = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    stale = a_deployment(status={**counts, "observedGeneration": 1}, meta={"generation": 2})
    assert not is_complete(stale, stale.status)
