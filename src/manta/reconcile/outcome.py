"""The outcome of a plan: which actions were done, and which failed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from manta.api.meta import Key, ResourceVersion, Uid
from manta.reconcile.actions import Action, Call

_NO_UID = Uid("")
_NO_VERSION = ResourceVersion("")


@dataclass(frozen=True, slots=True)
class Result:
    """The API server's answer to a write, or the answer of a Call."""

    action: Action
    key: Key
    uid: Uid = _NO_UID
    resource_version: ResourceVersion = _NO_VERSION
    existed: bool = False
    """The object existed already: nothing was created."""
    answer: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    action: Action
    error: Exception
    unknown: bool = False
    """The reply was lost: the write may have been applied. Read the object before the next write."""

    @property
    def matters(self) -> bool:
        """False for a best-effort call: its failure is reported, and stops nothing."""
        return not isinstance(self.action, Call) or self.action.must_succeed


@dataclass(frozen=True, slots=True)
class Outcome:
    done: tuple[Result, ...] = ()
    failures: tuple[Failure, ...] = ()
    skipped: tuple[Action, ...] = ()
    """Not tried, because an earlier action failed."""

    @property
    def failure(self) -> Failure | None:
        """The first failure that matters: what the reconcile reports."""
        return next((one for one in self.failures if one.matters), None)

    def has_done(self, actions: Collection[Action]) -> bool:
        """Whether none of these failed or was skipped. A failed best-effort call does not count."""
        undone = [*(one.action for one in self.failures if one.matters), *self.skipped]
        return not any(action in undone for action in actions)


UNTRIED = Outcome()
