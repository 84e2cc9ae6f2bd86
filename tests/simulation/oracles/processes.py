"""About operators as processes: leadership, pauses, exceptions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from manta.api.ray import names
from simulation.history import ClusterHistory
from simulation.oracles.oracle import RAY, Oracle, controller_of, is_operator
from simulation.plane import Written
from simulation.transport import Sent

if TYPE_CHECKING:
    from simulation.world import World


class LeaderWrites(Oracle):
    """Of two operators only the one that holds the lease writes. Nothing is said about stories in which an operator
    is suspended with its clock, or the server takes long to execute what was sent in time."""

    name = "leader-writes"

    def written(self, written: Written) -> Iterator[str]:
        leader = self.world.leader.rpartition("-")[0]
        if is_operator(written.by) and leader and written.by != leader and not self._excused():
            yield f"{written.by} wrote {written.resource} {written.name}, and {leader} leads"

    def _excused(self) -> bool:
        return any(step.do in ("pause", "slow") for step in self.world.story.steps)


class BacksOff(Oracle):
    """A write that the server refuses is tried again after growing pauses: an operator has at most 150 of them in a
    virtual minute. Neither are Pods that fail created again without a pause: a group gets at most 25 times as many in a
    virtual minute as its spec asks for."""

    name = "backs-off"
    MOST = 150
    MOST_TIMES = 25

    def __init__(self, world: World, history: ClusterHistory) -> None:
        super().__init__(world, history)
        self._refused: dict[tuple[str, int], int] = {}
        self._created: dict[tuple[str, str, int], int] = {}

    def after(self, written: Written) -> Iterator[str]:
        if written.resource != "pods" or written.type != "ADDED" or not is_operator(written.by):
            return
        labels = written.metadata.get("labels") or {}
        group, owner = labels.get(names.LABEL_GROUP, ""), controller_of(written.object) or {}
        what = (owner.get("uid", ""), group, int(written.at // 60))
        self._created[what] = self._created.get(what, 0) + 1
        most = self.MOST_TIMES * max(1, self.history.most_wanted(written.object, written.at))
        if self._created[what] == most + 1:
            yield f"group {group} of {owner.get('name')} got {most + 1} Pods in a minute"

    def sent(self, actor: str, sent: Sent) -> Iterator[str]:
        if sent.code in (400, 403, 404, 422):
            minute = (actor, int(sent.at // 60))
            self._refused[minute] = self._refused.get(minute, 0) + 1
            if self._refused[minute] == self.MOST:
                yield f"{actor} sent {self.MOST} refused writes in a minute, the last {sent.path}"


class GenerationsOnly(Oracle):
    """status.observedGeneration never goes back and never runs ahead of the object."""

    name = "observed-generation"

    def written(self, written: Written) -> Iterator[str]:
        if written.resource not in RAY or written.type != "MODIFIED":
            return
        before = self.world.live[written.resource].get(
            f"{written.metadata['namespace']}/{written.name}"
        )
        seen = (written.object.get("status") or {}).get("observedGeneration") or 0
        old = ((before or {}).get("status") or {}).get("observedGeneration") or 0
        same = before is not None and before["metadata"]["uid"] == written.metadata["uid"]
        if seen > written.metadata.get("generation", 0) or (same and seen < old):
            yield f"{written.resource} {written.name}: observedGeneration {old} became {seen}"


class NoReconcileRaises(Oracle):
    """No reconcile raises what is not a failed request, in whatever phase; no object is unreadable; and no task of
    the operator ends by itself."""

    name = "no-bug"

    def ended(self) -> Iterator[str]:
        for replica in self.world.replicas:
            for life in [*replica.ended, *([replica.life] if replica.life else [])]:
                yield from self._of(replica.name, life)

    @staticmethod
    def _of(name: str, life: Any) -> Iterator[str]:
        for task in life.tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                yield f"{name} ended with {task.exception()!r}"
        metrics = life.manager.metrics
        for labels, value in sorted(metrics.panics._values.items()):
            if value:
                yield f"{name}: {labels} raised {value:.0f} times"
        for labels, value in sorted(metrics.failures._values.items()):
            if value and labels[1] in ("plan", "events", "decode"):
                yield f"{name}: {labels} failed {value:.0f} times"
