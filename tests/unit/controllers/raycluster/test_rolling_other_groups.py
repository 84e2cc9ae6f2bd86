"""Rolling updates beside a worker group whose Pods they do not change, and which cannot start any."""

from __future__ import annotations

from typing import Any

from manta.api.ray import names
from support.raycluster_scenario import Scenario
from support.rollout import (
    BAD,
    NEXT,
    a_rollout,
    condition,
    edit,
    images,
    rolling,
    tick,
    workers,
)

STRATEGY = rolling(onFailure="rollback", progressDeadlineSeconds=60)
NO_GPU = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."


def set_pending(pod: dict[str, Any]) -> None:
    why = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_GPU}
    pod["status"] = {"phase": "Pending", "conditions": [why]}


def go_on(scenario: Scenario, *, without_room: str = "a") -> list[tuple[str, str]]:
    """Ten minutes in which that group gets no new Pod; returns what the condition said, one after the other."""
    said: list[tuple[str, str]] = []
    for _ in range(200):
        scenario.reconcile()
        for pod in scenario.of("Pod"):
            if "status" not in pod and pod["metadata"]["labels"][names.LABEL_GROUP] == without_room:
                set_pending(pod)
        tick(scenario)
        _, reason, message = condition(scenario)
        said += [(reason, message)] if (reason, message) not in said[-1:] else []
    return said


def one_more_in_a(image_of_b: str) -> Scenario:
    """An edit of b has begun when an autoscaler asks for one more worker of a."""
    scenario = a_rollout(workers("a", 1), workers("b", 2), upgradeStrategy=STRATEGY)
    edit(scenario, workers("a", 1), workers("b", 2, image_of_b), upgradeStrategy=STRATEGY)
    scenario.reconcile()
    edit(scenario, workers("a", 2), workers("b", 2, image_of_b), upgradeStrategy=STRATEGY)
    return scenario


def test_a_group_that_cannot_grow_rolls_no_other_back() -> None:
    scenario = one_more_in_a(NEXT)
    said = go_on(scenario)
    assert said[-1][0] == "Complete"
    assert images(scenario, "b") == [NEXT, NEXT]
    assert any("of group b replaced" in message for _, message in said)
    assert not any("of group a" in message for _, message in said)


def test_a_group_that_lost_its_worker_rolls_no_other_back() -> None:
    groups = workers("a", 1), workers("b", 3, NEXT)
    scenario = a_rollout(workers("a", 1), workers("b", 3), upgradeStrategy=STRATEGY)
    edit(scenario, *groups, upgradeStrategy=STRATEGY)
    scenario.reconcile()
    [lost] = scenario.workers("a")
    lost["metadata"]["deletionTimestamp"] = "2026-11-15T08:00:00Z"
    scenario.remove_deleted()
    assert go_on(scenario)[-1][0] == "Complete"
    assert images(scenario, "b") == [NEXT] * 3


def test_a_group_that_cannot_grow_keeps_no_other_from_going_back() -> None:
    scenario = one_more_in_a(BAD)
    before = images(scenario, "b")
    assert [reason for reason, _ in go_on(scenario)][-2:] == ["RollingBack", "RolledBack"]
    assert images(scenario, "b") == before


def test_a_group_that_grows_one_by_one_does_not_put_the_deadline_off() -> None:
    scenario = one_more_in_a(BAD)
    for size in range(3, 60):
        edit(
            scenario,
            workers("a", size, maxReplicas=99),
            workers("b", 2, BAD),
            upgradeStrategy=STRATEGY,
        )
        scenario.reconcile()
        tick(scenario)
    assert condition(scenario)[1] == "RolledBack"


def test_a_group_that_the_edit_adds_must_start() -> None:
    strategy = rolling(progressDeadlineSeconds=60)
    scenario = a_rollout(workers("b", 2), upgradeStrategy=strategy)
    edit(scenario, workers("b", 2, NEXT), workers("a", 1), upgradeStrategy=strategy)
    go_on(scenario)
    _, reason, message = condition(scenario)
    assert reason == "ProgressDeadlineExceeded"
    assert message.startswith("0 of 1 workers of group a replaced; no progress for 60 s in group a")
    assert set(images(scenario, "b")) == {NEXT}


def test_a_problem_that_ends_with_a_full_stop_gets_no_second_one() -> None:
    scenario = a_rollout(workers("a", 1), upgradeStrategy=rolling(progressDeadlineSeconds=60))
    edit(scenario, workers("a", 1, NEXT), upgradeStrategy=rolling(progressDeadlineSeconds=60))
    go_on(scenario)
    assert f"{NO_GPU} Edit the spec" in condition(scenario)[2]
