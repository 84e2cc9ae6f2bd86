"""How the answers of planners that stand side by side become one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from manta.reconcile.plan import NOTHING, Plan, Stage, Wait


def join(plans: Iterable[Plan]) -> Plan:
    """All first stages together, then all second ones; come back for the earliest wait."""
    chosen = [one for one in plans if one != NOTHING]
    depth = max((len(plan.stages) for plan in chosen), default=0)
    stages = tuple(
        _merged([plan.stages[level] for plan in chosen if level < len(plan.stages)])
        for level in range(depth)
    )
    notes = tuple(note for plan in chosen for note in plan.notes)
    wait = earliest([plan.wait for plan in chosen if plan.wait])
    unfinished = next((plan.unfinished for plan in chosen if plan.unfinished), "")
    return Plan(stages, wait, notes, unfinished)


def _merged(stages: list[Stage]) -> Stage:
    actions = tuple(action for stage in stages for action in stage.actions)
    return Stage(actions, independent=all(stage.independent for stage in stages))


def earliest(waits: list[Wait]) -> Wait | None:
    """A wait without a time only says that something will change by itself."""
    return min(waits, key=lambda wait: wait.retry_in or timedelta.max, default=None)
