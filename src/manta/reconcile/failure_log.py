"""Logs the actions that failed: each kind of failure of an object at most once a minute."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Final

from manta.reconcile.causes import ActionCause
from manta.reconcile.failures import blockage_of, is_routine
from manta.reconcile.outcome import Failure
from manta.runtime.freshness import Owner

AGAIN_SECONDS: Final = 60.0
MAX_REMEMBERED: Final = 4096

log = logging.getLogger(__name__)


class FailureLog:
    def __init__(self) -> None:
        self._logged_at: OrderedDict[tuple[Owner, ActionCause, type[Exception]], float] = (
            OrderedDict()
        )

    def add(self, owner: Owner, failure: Failure) -> None:
        """A warning. At the level debug: a routine failure, and one that was logged moments ago."""
        is_news = not is_routine(failure) and self._is_news(owner, failure)
        level = logging.WARNING if is_news else logging.DEBUG
        log.log(level, "%s", blockage_of(failure).message)

    def _is_news(self, owner: Owner, failure: Failure) -> bool:
        now = asyncio.get_running_loop().time()
        kind = (owner, failure.action.cause, type(failure.error))
        if now - self._logged_at.get(kind, -AGAIN_SECONDS) < AGAIN_SECONDS:
            return False
        self._logged_at[kind] = now
        self._logged_at.move_to_end(kind)
        while len(self._logged_at) > MAX_REMEMBERED:
            self._logged_at.popitem(last=False)
        return True
