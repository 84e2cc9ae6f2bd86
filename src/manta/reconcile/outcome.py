"""What became of a plan: which actions were done, and which failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from manta.api.meta import Key, ResourceVersion, Uid
from manta.reconcile.actions import Action, Call

_NO_UID = Uid("")
_NO_VERSION = ResourceVersion("")


@dataclass(frozen=True, slots=True)
class Result:
    """What the API server answered to one write, or what a Call returned."""

    action: Action
    key: Key
    uid: Uid = _NO_UID
    resource_version: ResourceVersion = _NO_VERSION
    existed: bool = False
    """The object was there already: nothing was created."""
    answer: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    action: Action
    error: Exception
    unknown: bool = False
    """The reply was lost: the write may have been applied. Look before acting again."""

    @property
    def matters(self) -> bool:
        """False for a best-effort call: it is told, and stops nothing."""
        return not isinstance(self.action, Call) or self.action.must_succeed


@dataclass(frozen=True, slots=True)
class Outcome:
    done: tuple[Result, ...] = ()
    failures: tuple[Failure, ...] = ()
    skipped: tuple[Action, ...] = ()
    """Not tried, because an earlier stage failed."""

    @property
    def failure(self) -> Failure | None:
        """The first failure that matters: what the round reports."""
        return next((one for one in self.failures if one.matters), None)


UNTRIED = Outcome()
