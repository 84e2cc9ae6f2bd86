"""The hours that a cluster was used and idle: what is recorded on it, and the next record. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from manta.api.conditions import find
from manta.api.core import Pod
from manta.api.quantity import ZERO, Quantity
from manta.api.ray import names
from manta.api.times import parse_optional_time
from manta.controllers.idlesuspend.facts import current_answer, is_watched
from manta.controllers.idlesuspend.snapshot import Held, IdleSnapshot
from manta.rules.scaling import scheduled_resources, total_gpus
from manta.rules.usage import Usage, UseState, changed, usage_of

SETTLED: Final = timedelta(minutes=1)
"""A change of the resources alone, as by an autoscaler, is recorded after this time."""
_OVER: Final = ("Succeeded", "Failed")


def held_by(pods: Iterable[Pod]) -> Held:
    there = [pod for pod in pods if pod.spec.node_name and pod.status.phase not in _OVER]
    amounts = scheduled_resources(there)
    times = (find(pod.status.conditions, "PodScheduled") for pod in there)
    known = [one.last_transition_time for one in times if one is not None]
    since = max(filter(None, map(parse_optional_time, known)), default=None)
    return Held(_number(amounts.get("cpu", ZERO)), _number(total_gpus(amounts)), since)


def _number(amount: Quantity) -> float:
    return amount.milli() / 1000


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
    known, held = usage_of(snapshot.cluster.metadata), snapshot.held
    if known is None and state is UseState.NONE:
        return {}
    if known is not None and known.state is state:
        same = state is UseState.NONE or (known.cpus, known.gpus) == (held.cpus, held.gpus)
        if same or snapshot.now - known.since < SETTLED:
            return {}
        return _mark(changed(known, _held_at(snapshot, known), state, held.cpus, held.gpus))
    at = snapshot.now if state is UseState.NONE else _changed_at(snapshot)
    return _mark(changed(known, at, state, held.cpus, held.gpus))


def _held_at(snapshot: IdleSnapshot, known: Usage) -> datetime:
    """Since when the cluster holds what it holds now: when its last Pod got a node, if Pods were added."""
    held = snapshot.held
    added = held.cpus >= known.cpus and held.gpus >= known.gpus
    return min(held.since, snapshot.now) if added and held.since else snapshot.now


def _mark(usage: Usage) -> dict[str, str | None]:
    return {names.ANNOTATION_USAGE: usage.text}
