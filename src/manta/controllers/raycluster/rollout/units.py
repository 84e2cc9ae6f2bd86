"""The replicas of a worker group as a rolling update sees them: single Pods, or all hosts of a replica."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from manta.api.conditions import find
from manta.api.core import Pod
from manta.api.ray.cluster import WorkerGroupSpec
from manta.api.times import parse_time
from manta.controllers.raycluster.facts import by_replica, still_counts
from manta.controllers.raycluster.rollout.revisions import Revisions
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.rules.pod_health import is_ready, is_terminating
from manta.rules.revisions import spec_in
from manta.rules.rolling_update import Limits
from manta.rules.scaling import desired_pods, desired_replicas, hosts


@dataclass(frozen=True, slots=True)
class Unit:
    """What is replaced as one: a worker, or all hosts of a replica."""

    name: str
    pods: tuple[Pod, ...]
    hosts: int
    """How many Pods it should have."""
    outdated: bool
    available: bool
    """All its Pods are ready, for as long as `minReadySeconds` says, and none is being deleted."""

    @property
    def terminating(self) -> bool:
        return any(is_terminating(pod) for pod in self.pods)

    @property
    def age(self) -> tuple[str, str]:
        """The order in which outdated units are replaced: the oldest first."""
        return min(pod.metadata.creation_timestamp for pod in self.pods), self.name


@dataclass(frozen=True, slots=True)
class GroupRollout:
    """How far one group is."""

    group: WorkerGroupSpec
    wanted: int
    """Units, not Pods."""
    limits: Limits
    units: tuple[Unit, ...]
    is_touched: bool
    """The update changes its Pods. What another group lacks is not the update's fault."""

    @property
    def name(self) -> str:
        return self.group.group_name

    @property
    def living(self) -> tuple[Unit, ...]:
        return tuple(one for one in self.units if not one.terminating)

    @property
    def outdated(self) -> tuple[Unit, ...]:
        """All outdated ones, also those that are being deleted."""
        return tuple(one for one in self.units if one.outdated)

    @property
    def updated(self) -> tuple[Unit, ...]:
        return tuple(one for one in self.living if not one.outdated)

    @property
    def available(self) -> int:
        return sum(one.available for one in self.living)

    @property
    def is_done(self) -> bool:
        """All are updated and available. A group that the update does not touch is done as it is."""
        return not self.outdated and (not self.is_touched or self.available >= self.wanted)


def unit_size(snapshot: ClusterSnapshot, group: WorkerGroupSpec) -> int:
    """Pods that live and die together. Without the indexes of hosts, each Pod lives for itself."""
    return hosts(group) if snapshot.settings.gates.ray_multi_host_indexing else 1


def wanted_units(snapshot: ClusterSnapshot, group: WorkerGroupSpec) -> int:
    return desired_replicas(group) if unit_size(snapshot, group) > 1 else desired_pods(group)


def units_of(
    snapshot: ClusterSnapshot,
    revisions: Revisions,
    group: WorkerGroupSpec,
    outdated: frozenset[str],
    min_ready: timedelta,
) -> tuple[Unit, ...]:
    pods = snapshot.workers_by_group.get(group.group_name, ())
    present = [pod for pod in pods if still_counts(snapshot, pod)]
    found: list[Unit] = []
    for size, members in _by_size(snapshot, revisions, group, present):
        for name, replica in _split(members, size):
            unit = Unit(
                name,
                replica,
                size,
                outdated=any(pod.metadata.name in outdated for pod in replica),
                available=len(replica) == size
                and all(is_available(pod, snapshot.now, min_ready) for pod in replica),
            )
            found.append(unit)
    return tuple(found)


def _by_size(
    snapshot: ClusterSnapshot, revisions: Revisions, group: WorkerGroupSpec, pods: Sequence[Pod]
) -> Iterator[tuple[int, list[Pod]]]:
    """Pods by the number of hosts that their replicas have: another revision may have another one."""
    sizes: dict[int, list[Pod]] = {}
    known: dict[str, int] = {}
    for pod in pods:
        revision = revisions.of_pod(pod)
        name = revision.metadata.name if revision else ""
        if name not in known:
            groups = spec_in(revision.data).worker_group_specs if revision else ()
            own = next((one for one in groups if one.group_name == group.group_name), group)
            known[name] = unit_size(snapshot, own)
        sizes.setdefault(known[name], []).append(pod)
    yield from sizes.items()


def _split(pods: Sequence[Pod], size: int) -> Iterator[tuple[str, tuple[Pod, ...]]]:
    if size > 1:
        yield from by_replica(pods, size).items()
    else:
        yield from ((pod.metadata.name, (pod,)) for pod in pods)


def is_available(pod: Pod, now: datetime, min_ready: timedelta) -> bool:
    return available_in(pod, now, min_ready) == timedelta(0)


def available_in(pod: Pod, now: datetime, min_ready: timedelta) -> timedelta | None:
    """How long until this Pod counts as available; None if it is not ready."""
    if is_terminating(pod) or not is_ready(pod):
        return None
    ready = find(pod.status.conditions, "Ready")
    since = (ready.last_transition_time if ready else "") or pod.metadata.creation_timestamp
    left = parse_time(since) + min_ready - now if since else timedelta(0)
    return max(left, timedelta(0)) if min_ready else timedelta(0)
