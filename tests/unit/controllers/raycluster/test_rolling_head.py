"""Rolling updates whose head does not start: workers join no such head, so it cannot come last."""

from __future__ import annotations

from typing import Any

from manta.api.ray import names
from manta.controllers.raycluster.plan import plan
from support.raycluster import container, template
from support.raycluster_scenario import Scenario, decode
from support.rollout import (
    BAD,
    NEXT,
    REDIS,
    a_cluster,
    a_rollout,
    annotate,
    condition,
    edit,
    image_of,
    images,
    ready_workers,
    roll,
    rolling,
    steps,
    workers,
)


def head(image: str) -> dict[str, Any]:
    return {"template": template(container(image=image))}


def head_image(scenario: Scenario) -> str:
    [one] = scenario.heads()
    return image_of(one)


def test_a_head_that_does_not_start_stops_the_update_at_the_deadline() -> None:
    scenario = a_rollout(gcsFaultToleranceOptions=REDIS)
    edit(scenario, head=head(BAD), gcsFaultToleranceOptions=REDIS)
    roll(scenario, rounds=400, seconds=10)
    status, reason, message = condition(scenario)
    assert (status, reason) == ("True", "ProgressDeadlineExceeded")
    assert "no progress for 600 s" in message
    assert f"no such image: {BAD}" in message
    assert plan(scenario.snapshot()).wakeup is None, "it reconciles without end"


def test_a_head_that_does_not_start_goes_back_first_if_asked() -> None:
    more = {"gcsFaultToleranceOptions": REDIS, "upgradeStrategy": rolling(onFailure="rollback")}
    scenario = a_rollout(**more)
    edit(scenario, workers(image=NEXT), head=head(BAD), **more)
    roll(scenario, rounds=400, seconds=10)
    assert condition(scenario)[:2] == ("False", "RolledBack")
    assert head_image(scenario) != BAD
    assert NEXT not in images(scenario)
    assert ready_workers(scenario) == 3
    going_back = steps(scenario)[steps(scenario).index("create headgroup") + 1 :]
    assert going_back[:2] == ["delete head", "create headgroup"]


def test_a_cluster_that_never_started_is_cured_by_an_edit() -> None:
    scenario = Scenario(decode(a_cluster(workers(image=BAD), head=head(BAD))))
    roll(scenario, rounds=400, seconds=10)
    edit(scenario, workers(image=NEXT), head=head(NEXT))
    roll(scenario)
    assert head_image(scenario) == NEXT
    assert images(scenario) == [NEXT] * 3
    assert condition(scenario) == ("False", "Complete", "all Pods are of revision 2")


def test_a_head_that_is_only_unready_still_waits_for_consent() -> None:
    scenario = a_rollout()
    [live] = scenario.heads()
    live["status"]["conditions"][0]["status"] = "False"
    edit(scenario, workers(image=NEXT), head=head(NEXT))
    for _ in range(20):
        scenario.reconcile()
    assert "delete head" not in steps(scenario)
    annotate(scenario, **{names.ANNOTATION_ROLLING_UPDATE_HEAD: "allow"})
    roll(scenario)
    assert head_image(scenario) == NEXT


def test_a_head_that_no_other_may_follow_is_not_replaced() -> None:
    """Its deletion would leave the cluster without a head for good."""
    scenario = a_rollout(gcsFaultToleranceOptions=REDIS)
    annotate(scenario, **{names.ANNOTATION_DISABLE_HEAD_RESTART: "true"})
    edit(scenario, workers(image=NEXT), head=head(NEXT), gcsFaultToleranceOptions=REDIS)
    roll(scenario)
    assert images(scenario) == [NEXT] * 3
    assert "delete head" not in steps(scenario)
    status, reason, message = condition(scenario)
    assert (status, reason) == ("True", "AwaitsConsent")
    assert f"remove the annotation {names.ANNOTATION_DISABLE_HEAD_RESTART}" in message
    annotate(scenario, **{names.ANNOTATION_DISABLE_HEAD_RESTART: "false"})
    roll(scenario)
    assert head_image(scenario) == NEXT
