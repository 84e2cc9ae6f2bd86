"""What `manta plan` says of an edit under a rolling update."""

from __future__ import annotations

from manta.controllers.raycluster.forecast import MAX_STEPS
from manta.controllers.raycluster.preview import Effect, preview_of
from support.rollout import NEXT, a_rollout, edit, rolling, workers


def test_each_field_of_an_edit_has_the_groups_that_it_rolls() -> None:
    scenario = a_rollout(workers("a", 1), workers("b", 1))
    live = scenario.cluster
    edit(scenario, workers("a", 2), workers("b", 1, NEXT), headServiceAnnotations={"a": "b"})
    found = preview_of(scenario.snapshot(), live)
    assert found.effect is Effect.ROLLED
    assert [one.rpartition(" (")[2] for one in found.changes if "image" in one] == [
        "rolls group b)"
    ]
    others = [one for one in found.changes if "image" not in one]
    assert len(others) == 2
    assert all(one.endswith("(in place)") for one in others)


def test_a_long_order_is_cut_and_says_how_many_pods_are_left() -> None:
    strategy = rolling(maxSurge="100%")
    many, few = MAX_STEPS // 2, 3
    scenario = a_rollout(
        workers("a", many, maxReplicas=many), workers("b", few), upgradeStrategy=strategy
    )
    live = scenario.cluster
    edit(
        scenario,
        workers("a", many, NEXT, maxReplicas=many),
        workers("b", few, NEXT),
        upgradeStrategy=strategy,
    )
    *order, more = preview_of(scenario.snapshot(), live).order
    assert len(order) == MAX_STEPS
    assert more == f"and so on, for {few} more Pods"
