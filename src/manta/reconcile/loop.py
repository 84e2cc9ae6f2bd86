"""One reconcile round, the same for every controller: observe, plan, apply, report."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Protocol, TypeVar

from manta.api.meta import Key
from manta.kube.errors import Conflict, MantaError
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import Plan
from manta.runtime.phases import Phase, phase
from manta.runtime.queue import Done, Retry

log = logging.getLogger(__name__)

S = TypeVar("S")


class Rooms(Protocol[S]):
    """The parts that a controller supplies. Only the async ones may touch the world."""

    async def observe(self, key: Key) -> S | None:
        """All that this round may know, or None when the object is gone."""
        ...

    def plan(self, seen: S) -> Plan: ...

    async def apply(self, seen: S, plan: Plan) -> Outcome: ...

    async def report(self, seen: S, plan: Plan, outcome: Outcome) -> bool:
        """Write status and Events; True when the status was changed by this round."""
        ...

    def idle_delay(self, seen: S) -> timedelta | None:
        """When to look again although nothing is wanted: a timer, or the safety resync."""
        ...


async def reconcile(rooms: Rooms[S], key: Key) -> Done | Retry:
    """Run one round. What it returns is all that the queue learns of it.

    Whatever is raised ends the reconcile: `runtime/controller.py` counts it by its phase, shows it on
    the object and retries.
    """
    with phase(Phase.OBSERVE):
        seen = await rooms.observe(key)
    if seen is None:
        return Done()
    with phase(Phase.PLAN):
        plan = rooms.plan(seen)
    with phase(Phase.APPLY):
        outcome = await rooms.apply(seen, plan)
    # What failed is tried again ever more slowly; what the plan waits for comes when it is due.
    due = plan.wait.retry_in if plan.wait else None
    unwritten = await _report(rooms, seen, plan, outcome)
    if outcome.failure:  # what went wrong first is the reason of the rest
        return Retry(str(outcome.failure.error), due, unwritten)
    if unwritten:
        common = isinstance(unwritten, Conflict)
        why = "status was changed by someone else" if common else "no status could be written"
        return Retry(f"{why}: {unwritten}", due, unwritten)
    if plan.unfinished:
        return Done(timedelta(0))
    if plan.wait:
        return Retry(plan.wait.why, due) if plan.wait.backoff else Done(plan.wait.retry_in)
    return Done(rooms.idle_delay(seen))


async def _report(rooms: Rooms[S], seen: S, plan: Plan, outcome: Outcome) -> MantaError | None:
    """Why the status could not be written; None: it was, or need not be."""
    try:
        with phase(Phase.STATUS):
            await rooms.report(seen, plan, outcome)
    except MantaError as error:
        if not isinstance(error, Conflict):
            log.warning("the status could not be written: %s", error)
        return error
    return None
