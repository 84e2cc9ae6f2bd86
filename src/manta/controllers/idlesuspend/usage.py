"""The hours that a cluster was used and idle: what is recorded on it, and the next record. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from manta.api.quantity import Quantity
from manta.api.ray import names
from manta.controllers.idlesuspend.facts import current_answer, is_watched
from manta.controllers.idlesuspend.snapshot import IdleSnapshot
from manta.rules.usage import Usage, UseState, changed, usage_of

SETTLED: Final = timedelta(minutes=1)
"""A change of the resources alone, as by an autoscaler, is recorded after this time."""


def resources_of(snapshot: IdleSnapshot) -> tuple[float, float]:
    """CPUs and GPUs that the Pods of the cluster ask for."""
    status = snapshot.cluster.status
    return _number(status.desired_cpu), _number(status.desired_gpu)


def _number(amount: str | float) -> float:
    return Quantity.parse(amount).milli() / 1000 if amount else 0.0


def current_state(snapshot: IdleSnapshot) -> UseState:
    """What is true now; as noted before while Ray gives no answer."""
    answer, known = current_answer(snapshot), usage_of(snapshot.cluster.metadata)
    if not is_watched(snapshot) or not snapshot.head:
        return UseState.NONE
    if answer is None or not answer.is_known:
        return known.state if known else UseState.NONE
    return UseState.USED if answer.in_use else UseState.IDLE


def _changed_at(snapshot: IdleSnapshot) -> datetime:
    """In the middle between two answers: so that use and idleness are found late equally often."""
    answer = current_answer(snapshot)
    if answer is None or not is_watched(snapshot):
        return snapshot.now
    return answer.at if answer.previous_at is None else _middle(answer.previous_at, answer.at)


def _middle(one: datetime, other: datetime) -> datetime:
    return one + (other - one) / 2


def usage_annotation(snapshot: IdleSnapshot, state: UseState) -> dict[str, str | None]:
    """The annotation as it is to be from now on; empty if it stays as it is."""
    known, (cpus, gpus) = usage_of(snapshot.cluster.metadata), resources_of(snapshot)
    if known is None and state is UseState.NONE:
        return {}
    if known is not None and known.state is state:
        same = state is UseState.NONE or (known.cpus, known.gpus) == (cpus, gpus)
        if same or snapshot.now - known.since < SETTLED:
            return {}
        return _mark(changed(known, snapshot.now, state, cpus, gpus))
    at = snapshot.now if state is UseState.NONE else _changed_at(snapshot)
    return _mark(changed(known, at, state, cpus, gpus))


def _mark(usage: Usage) -> dict[str, str | None]:
    return {names.ANNOTATION_USAGE: usage.text}
