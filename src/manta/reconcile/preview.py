"""What a round would do, as a value: each controller foresees it, `manta plan` prints it.

A preview comes from the very planners of the round, on objects that were read once. Nothing is
written to make one.
"""

from __future__ import annotations

from dataclasses import dataclass

from manta.reconcile.plan import NOTHING, Plan


@dataclass(frozen=True, slots=True)
class Preview:
    effect: str
    """In one clause, for the headline: `nothing changes`, `all Pods are recreated`."""
    plan: Plan = NOTHING
    violations: tuple[str, ...] = ()
    """What is wrong with the object. While there is any, nothing of it is carried out."""
    changes: tuple[str, ...] = ()
    """For an edit of a live object: the fields that change, each with its old and new value."""
    remarks: tuple[str, ...] = ()
    """What the plan does not show: running Pods that are spared, a rule that holds it back."""
