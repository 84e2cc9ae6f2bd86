"""How far a Deployment has come. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from manta.api.times import format_time, parse_time
from manta.localplane.builtin.deployment.rollout import unavailable
from manta.localplane.builtin.deployment.snapshot import DeploymentSnapshot
from manta.localplane.builtin.views import Deployment, DeploymentStatus, WorkloadCondition

NO_DEADLINE = 2**31 - 1
AVAILABLE = "MinimumReplicasAvailable"
DONE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"


def next_status(snapshot: DeploymentSnapshot) -> DeploymentStatus:
    status = _counts(snapshot)
    status = _say_available(status, snapshot)
    return _say_progress(status, snapshot)


def _counts(snapshot: DeploymentSnapshot) -> DeploymentStatus:
    replicas = sum(one.status.replicas for one in snapshot.replica_sets)
    available = sum(one.status.available_replicas or 0 for one in snapshot.replica_sets)
    wanted = sum(one.wanted for one in snapshot.replica_sets)
    return DeploymentStatus(
        observed_generation=snapshot.deployment.metadata.generation,
        replicas=replicas or None,
        updated_replicas=(snapshot.newest.status.replicas if snapshot.newest else 0) or None,
        ready_replicas=sum(one.status.ready_replicas or 0 for one in snapshot.replica_sets) or None,
        available_replicas=available or None,
        unavailable_replicas=max(0, wanted - available) or None,
        terminating_replicas=sum(
            one.status.terminating_replicas or 0 for one in snapshot.replica_sets
        ),
        conditions=snapshot.deployment.status.conditions,
    )


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """All Pods are of the present template and available, and none of another is left."""
    counts = (status.updated_replicas, status.replicas, status.available_replicas)
    observed = (status.observed_generation or 0) >= deployment.metadata.generation
    return observed and all((count or 0) == deployment.wanted for count in counts)


def progress_left(deployment: Deployment, now: datetime) -> timedelta | None:
    """Time until a rollout that does not move counts as failed; None when nothing runs."""
    seconds = deployment.spec.progress_deadline_seconds
    current = _find(deployment.status, "Progressing")
    if seconds is None or seconds >= NO_DEADLINE or deployment.spec.paused or current is None:
        return None
    if current.reason in (DONE, TIMED_OUT) or current.last_update_time is None:
        return None
    return parse_time(current.last_update_time) + timedelta(seconds=seconds) - now


def _say_available(status: DeploymentStatus, snapshot: DeploymentSnapshot) -> DeploymentStatus:
    least = snapshot.deployment.wanted - unavailable(snapshot.deployment)
    if (status.available_replicas or 0) >= least:
        words = (AVAILABLE, "Deployment has minimum availability.")
        return _say(status, "Available", "True", words, snapshot.now)
    words = ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    return _say(status, "Available", "False", words, snapshot.now)


def _say_progress(status: DeploymentStatus, snapshot: DeploymentSnapshot) -> DeploymentStatus:
    deployment, newest = snapshot.deployment, snapshot.newest
    current = _find(deployment.status, "Progressing")
    if deployment.spec.paused:
        words = ("DeploymentPaused", "Deployment is paused")
        return _say(status, "Progressing", "Unknown", words, snapshot.now)
    if newest is None:
        return status
    name = newest.metadata.name
    if is_complete(deployment, status):
        words = (DONE, f'ReplicaSet "{name}" has successfully progressed.')
        return _say(status, "Progressing", "True", words, snapshot.now)
    if current is None or current.reason == "DeploymentPaused":
        words = ("NewReplicaSetCreated", f'Created new replica set "{name}"')
        return _say(status, "Progressing", "True", words, snapshot.now)
    if current.reason == DONE and not _is_new(current, name):
        # A rollout that succeeded stays so: a Pod that fails later is no lack of progress.
        return status
    if current.reason == DONE or _moved(deployment.status, status):
        words = ("ReplicaSetUpdated", f'ReplicaSet "{name}" is progressing.')
        return _say(status, "Progressing", "True", words, snapshot.now, touch=True)
    left = progress_left(deployment, snapshot.now)
    if left is not None and left <= timedelta(0):
        words = (TIMED_OUT, f'ReplicaSet "{name}" has timed out progressing.')
        return _say(status, "Progressing", "False", words, snapshot.now)
    return status


def _is_new(current: WorkloadCondition, name: str) -> bool:
    """The last rollout succeeded with another ReplicaSet: this is the next one."""
    return f'"{name}"' not in current.message


def _moved(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    """More new Pods, fewer old ones, or more that are ready or available."""
    old_rest = (old.replicas or 0) - (old.updated_replicas or 0)
    new_rest = (new.replicas or 0) - (new.updated_replicas or 0)
    return (
        (new.updated_replicas or 0) > (old.updated_replicas or 0)
        or new_rest < old_rest
        or (new.ready_replicas or 0) > (old.ready_replicas or 0)
        or (new.available_replicas or 0) > (old.available_replicas or 0)
    )


def _find(status: DeploymentStatus, type_: str) -> WorkloadCondition | None:
    return next((one for one in status.conditions or () if one.type == type_), None)


def _say(
    status: DeploymentStatus,
    type_: str,
    value: str,
    words: tuple[str, str],
    now: datetime,
    *,
    touch: bool = False,
) -> DeploymentStatus:
    """`touch`: note that something moved, although the words stay the same."""
    old = _find(status, type_)
    reason, message = words
    if old and (old.status, old.reason, old.message) == (value, reason, message) and not touch:
        return status
    stamp = format_time(now)
    new = WorkloadCondition(
        type=type_,
        status=value,
        last_update_time=stamp,
        last_transition_time=old.last_transition_time if old and old.status == value else stamp,
        reason=reason,
        message=message,
    )
    others = tuple(one for one in status.conditions or () if one.type != type_)
    return msgspec.structs.replace(status, conditions=(*others, new))
