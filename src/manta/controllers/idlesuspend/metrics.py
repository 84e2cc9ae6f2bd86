"""CPU- and GPU-hours of the watched clusters, used and idle, as counters of this process.

The figures on a cluster can go back: a change of its state is found at the next answer, and noted for the middle
between two answers. A counter must not, because Prometheus takes that for a restart and adds all of it again. So each
figure stays at its highest until it is passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from manta.api.meta import Key, ObjectMeta
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.rules.usage import Hours, Usage, usage_of
from manta.runtime.clock import Clock
from manta.runtime.metrics import Computed, Registry

Row = tuple[tuple[str, ...], float]
_LABELS = ("namespace", "cluster", "user", "state")
_ABOUT = (
    "-hours that the scheduled Pods of RayClusters with a limit of idleness request, used and idle, while this "
    "process leads."
)


@dataclass(slots=True)
class _Count:
    meta: ObjectMeta
    usage: Usage
    highest: Hours
    counted: Hours = field(default_factory=Hours)

    def note(self, meta: ObjectMeta, usage: Usage) -> None:
        if self.usage.total.above(usage.total) != Hours():  # the user set it back
            self.highest = usage.total
        self.meta, self.usage = meta, usage

    def until(self, now: datetime) -> Hours:
        more = self.usage.until(now).total.above(self.highest)
        self.highest += more
        self.counted += more
        return self.counted


class HoursCounter:
    """Counts each cluster from its first reconcile, so only while this process leads: the hours of a cluster are the
    sum over all processes."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        """`user`: the label `manta.ray.io/user` of the cluster; `state`: used or idle."""
        self._clock = clock
        self._counts: dict[Key, _Count] = {}
        self._register(registry, "cpu", lambda hours: (hours.used_cpu, hours.idle_cpu))
        self._register(registry, "gpu", lambda hours: (hours.used_gpu, hours.idle_gpu))

    def _register(
        self, registry: Registry, what: str, pick: Callable[[Hours], tuple[float, float]]
    ) -> None:
        name, about = f"manta_cluster_{what}_hours_total", what.upper() + _ABOUT
        registry.register(Computed(name, about, _LABELS, lambda: self._rows(pick), kind="counter"))

    def note(self, cluster: RayCluster) -> None:
        """What is noted on the cluster now."""
        meta, usage = cluster.metadata, usage_of(cluster.metadata)
        known = self._counts.get(meta.key)
        if usage is None:
            self.forget(meta.key)
        elif known is None or known.meta.uid != meta.uid:
            begin = usage.until(self._clock.now()).total
            self._counts[meta.key] = _Count(meta, usage, begin)
        else:
            known.note(meta, usage)

    def forget(self, key: Key) -> None:
        self._counts.pop(key, None)

    def forget_all(self) -> None:
        """Another replica leads, and counts."""
        self._counts.clear()

    def _rows(self, pick: Callable[[Hours], tuple[float, float]]) -> Iterator[Row]:
        now = self._clock.now()
        for count in self._counts.values():
            meta = count.meta
            who = (meta.namespace, meta.name, meta.labels.get(names.LABEL_USER, ""))
            used, idle = pick(count.until(now))
            yield (*who, "used"), used
            yield (*who, "idle"), idle
