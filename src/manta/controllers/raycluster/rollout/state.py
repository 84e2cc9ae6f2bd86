"""Where a rolling update stands: its target, its groups, whose turn it is, and what keeps it waiting."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from manta.api.conditions import find
from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType, RollingUpdateOptions
from manta.api.times import format_time, parse_optional_time
from manta.controllers.raycluster.facts import (
    allows_no_next_head,
    has_another_spec,
    still_counts,
)
from manta.controllers.raycluster.rollout.outdated import outdated_pods, touched_groups
from manta.controllers.raycluster.rollout.progress import Progress, recorded_progress
from manta.controllers.raycluster.rollout.revisions import Revisions, revisions_of, was_complete
from manta.controllers.raycluster.rollout.units import (
    GroupRollout,
    available_in,
    units_of,
    wanted_units,
)
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.rules.pod_health import is_ready, is_terminating, runs_ray
from manta.rules.rolling_update import limits, min_ready, progress_deadline, rolling_update
from manta.rules.traits import StorageBackend, storage_backend

REVISIONS_UNREADABLE: Final = "RevisionsUnreadable"
"""The reason of the condition while Pods are managed as without a rolling update."""


@dataclass(frozen=True)
class Rollout:
    options: RollingUpdateOptions
    revisions: Revisions
    outdated: frozenset[str]
    """Names of outdated Pods."""
    to_note: tuple[Pod, ...]
    """Pods of the target's spec that name no revision: they are from a time without a rolling update."""
    groups: tuple[GroupRollout, ...]
    head: Pod | None
    """The head Pod, if it is not being deleted."""
    head_is_outdated: bool
    keeps_state: bool
    """The GCS has its tables outside the head."""
    has_consent: bool
    head_is_the_last: bool
    """No head may follow it, so that it is never replaced."""
    progress: Progress
    """The progress as of this snapshot."""
    stalls_in: timedelta | None
    """When the deadline ends; zero: it has. None: it does not run now."""
    next_available: timedelta | None
    """When the next ready Pod counts as available."""

    @property
    def is_being_recorded(self) -> bool:
        """An edit whose revision does not exist yet."""
        return self.revisions.target is None and self.revisions.hold is None

    @property
    def has_begun(self) -> bool:
        """Whether Pods were or are to be replaced. A new cluster only has its Pods created, and a worker that
        is lost after the update is no part of it."""
        target = self.revisions.target
        was = target is not None and was_complete(target)
        return self.progress.outdated > 0 or (self.recorded is not None and not was)

    @property
    def recorded(self) -> Progress | None:
        """The last recorded progress of this very update."""
        latest = self.revisions.latest
        found = recorded_progress(latest) if latest is not None else None
        return found if found is not None and found.to == self.progress.to else None

    @property
    def turn(self) -> GroupRollout | None:
        """The group whose workers are replaced now."""
        return _turn(self.revisions, self.groups)

    @property
    def head_is_broken(self) -> bool:
        """Workers cannot join an outdated head that does not start, so that it is replaced first. One that runs
        and is not ready may hold state."""
        if self.head is None or not self.head_is_outdated or is_ready(self.head):
            return False
        if self.head_is_the_last:
            return False
        return self.keeps_state or self.has_consent or not runs_ray(self.head)

    @property
    def head_awaits_consent(self) -> bool:
        workers_done = self.turn is None
        may_go = self.keeps_state or self.has_consent or self.head_is_broken
        return self.head_is_outdated and workers_done and (self.head_is_the_last or not may_go)

    @property
    def is_complete(self) -> bool:
        """All Pods are of the target, and those that the update changes are available."""
        if (
            self.revisions.target is None
            or self.revisions.hold is not None
            or self.progress.outdated
        ):
            return False
        return self.turn is None and self.head is not None and is_ready(self.head)

    @property
    def is_stalled(self) -> bool:
        return self.stalls_in == timedelta(0)

    @property
    def may_replace(self) -> bool:
        held = self.revisions.hold is not None or self.revisions.target is None
        return not (held or self.options.paused or self.is_stalled)


def rollout_of(snapshot: ClusterSnapshot) -> Rollout | None:
    """None when no rolling update is asked for, or its revisions cannot be read."""
    options, cluster = rolling_update(snapshot.cluster), snapshot.cluster
    if options is None or not snapshot.revisions_listed:
        return None
    revisions = revisions_of(snapshot, options)
    to_note = _to_note(snapshot, revisions)
    outdated = outdated_pods(snapshot, revisions) - {pod.metadata.name for pod in to_note}
    groups = _groups(snapshot, options, revisions, outdated)
    heads = [pod for pod in snapshot.head_pods if not is_terminating(pod)]
    head = heads[0] if heads else None
    progress = _progress(snapshot, options, revisions, groups, outdated)
    consent = cluster.metadata.annotations.get(names.ANNOTATION_ROLLING_UPDATE_HEAD, "")
    return Rollout(
        options=options,
        revisions=revisions,
        outdated=outdated,
        to_note=to_note,
        groups=groups,
        head=head,
        head_is_outdated=head is not None and head.metadata.name in outdated,
        keeps_state=storage_backend(cluster) is not StorageBackend.NONE,
        has_consent=consent == names.ROLLING_UPDATE_HEAD_ALLOWED,
        head_is_the_last=allows_no_next_head(snapshot),
        progress=progress,
        stalls_in=_stalls_in(snapshot, options, revisions, progress, groups, outdated),
        next_available=_next_available(snapshot, options),
    )


def _to_note(snapshot: ClusterSnapshot, revisions: Revisions) -> tuple[Pod, ...]:
    """Only when it has just been turned on again: the condition was removed when it was turned off. The head tells
    whether the spec was edited meanwhile."""
    known = find(snapshot.cluster.status.conditions, ClusterConditionType.ROLLING_UPDATE)
    was_on = known is not None and known.reason != REVISIONS_UNREADABLE
    heads = [pod for pod in snapshot.head_pods if not is_terminating(pod)]
    if was_on or revisions.target is None or revisions.target is not revisions.latest or not heads:
        return ()
    is_shown = snapshot.settings.gates.ray_cluster_status_conditions
    if not is_shown or has_another_spec(snapshot, heads[0]):
        return ()
    return tuple(
        pod
        for pod in snapshot.pods
        if names.ANNOTATION_POD_REVISION not in pod.metadata.annotations
        and revisions.of_pod(pod) is None
        and not is_terminating(pod)
    )


def _groups(
    snapshot: ClusterSnapshot,
    options: RollingUpdateOptions,
    revisions: Revisions,
    outdated: frozenset[str],
) -> tuple[GroupRollout, ...]:
    touched = touched_groups(snapshot, revisions)
    return tuple(
        GroupRollout(
            group,
            wanted_units(snapshot, group),
            limits(snapshot.cluster, options, group),
            units_of(snapshot, revisions, group, outdated, min_ready(options)),
            is_touched=group.group_name in touched,
        )
        for group in revisions.spec.worker_group_specs
    )


def _turn(revisions: Revisions, groups: tuple[GroupRollout, ...]) -> GroupRollout | None:
    """Going back never waits for a group that has nothing left to replace."""
    if revisions.is_rolling_back:
        return next((one for one in groups if one.outdated), None)
    return next((one for one in groups if not one.is_done), None)


def _progress(
    snapshot: ClusterSnapshot,
    options: RollingUpdateOptions,
    revisions: Revisions,
    groups: tuple[GroupRollout, ...],
    outdated: frozenset[str],
) -> Progress:
    left = [pod for pod in snapshot.pods if pod.metadata.name in outdated]
    return Progress(
        to=revisions.name,
        outdated=sum(still_counts(snapshot, pod) for pod in left),
        available=sum(
            sum(one.available for one in group.updated) for group in groups if group.is_touched
        ),
        paused=bool(options.paused),
        at=format_time(snapshot.now),
    )


def _stalls_in(
    snapshot: ClusterSnapshot,
    options: RollingUpdateOptions,
    revisions: Revisions,
    progress: Progress,
    groups: tuple[GroupRollout, ...],
    outdated: frozenset[str],
) -> timedelta | None:
    """The clock runs from the last progress, or from when the cluster was resumed. It stands while a Pod drains,
    and while nothing may be done."""
    if is_suspended(snapshot):
        return None
    latest = revisions.latest
    last = recorded_progress(latest) if latest is not None else None
    if last is None or last.is_behind(progress) or options.paused or revisions.hold is not None:
        return None
    target = revisions.target
    if not progress.outdated and target is not None and was_complete(target):
        return None  # whatever is missing now was lost after the update
    if _turn(revisions, groups) is None and not _head_starts(snapshot, outdated):
        return None
    if any(one.terminating and one.outdated for group in groups for one in group.units):
        return None
    began = max(last.time, _resumed_at(snapshot) or last.time)
    return max(began + progress_deadline(options) - snapshot.now, timedelta(0))


def is_suspended(snapshot: ClusterSnapshot) -> bool:
    """Also while its Pods are being deleted, and until the status records that it is resumed."""
    states = (ClusterConditionType.SUSPENDED, ClusterConditionType.SUSPENDING)
    return bool(snapshot.cluster.spec.suspend) or any(map(snapshot.condition, states))


def _resumed_at(snapshot: ClusterSnapshot) -> datetime | None:
    found = find(snapshot.cluster.status.conditions, ClusterConditionType.SUSPENDED)
    return parse_optional_time(found.last_transition_time) if found is not None else None


def _head_starts(snapshot: ClusterSnapshot, outdated: frozenset[str]) -> bool:
    """Whether no head Pod ends, is to be replaced, or is ready."""
    return not any(
        is_terminating(pod) or pod.metadata.name in outdated or is_ready(pod)
        for pod in snapshot.head_pods
    )


def _next_available(snapshot: ClusterSnapshot, options: RollingUpdateOptions) -> timedelta | None:
    least = min_ready(options)
    times = (available_in(pod, snapshot.now, least) for pod in snapshot.worker_pods)
    return min((time for time in times if time), default=None)
