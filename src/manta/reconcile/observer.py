"""What an observer of reconciles gets: everything that one reconcile saw, planned and did."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from manta.api.meta import Key
from manta.reconcile.outcome import Outcome
from manta.reconcile.step import Step


@dataclass(slots=True)
class Reconciled:
    """One reconcile. What it did not get to is None."""

    controller: str
    key: Key
    snapshot: Any
    step: Step[Any] | None = None
    outcome: Outcome | None = None
    status: Any = None
    """The new status. None: it stays as it is."""
    written: bool = False
    """Whether the status was written."""
    error: BaseException | None = None
    """What ended the reconcile early."""


ReconcileObserver = Callable[[Reconciled], None]
"""Called at the end of each reconcile with a snapshot. It must not raise, and must not wait."""
