"""The condition `RollingUpdate`: how far it is, and what it waits for."""

from __future__ import annotations

from collections.abc import Mapping

from manta.api.conditions import Blockage, find
from manta.api.core import Pod
from manta.api.meta import Condition
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType
from manta.controllers.raycluster.rollout.revisions import failure, was_complete
from manta.controllers.raycluster.rollout.state import REVISIONS_UNREADABLE, Rollout, is_suspended
from manta.controllers.raycluster.rollout.units import GroupRollout, Unit
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.rules.pod_health import blockage, is_ready, is_terminating, slow_start
from manta.rules.rolling_update import progress_deadline

_NAMED = 2
_CURE = "Edit the spec, or try again with: manta rollout resume"


def rollout_condition(snapshot: ClusterSnapshot) -> Condition | None:
    """True while Pods are to be replaced; its reason says whether they are. None: nothing new
    is to be said."""
    if snapshot.revisions_error:
        why = f"no Pod is replaced: the operator cannot read ControllerRevisions: {snapshot.revisions_error}"
        return _condition("True", Blockage(REVISIONS_UNREADABLE, why))
    rollout = snapshot.rollout
    if is_suspended(snapshot):
        return _condition("False", Blockage("Suspended", "no Pod is replaced: it is suspended"))
    if rollout is None or rollout.is_being_recorded or rollout.to_note:
        return None
    waits = _waits(snapshot, rollout)
    if waits is not None:
        return _condition("True", waits)
    if rollout.is_complete or not rollout.has_begun:
        return _condition("False", _rest(rollout))
    return _condition("True", _step(snapshot, rollout))


def _condition(status: str, what: Blockage) -> Condition:
    type_ = ClusterConditionType.ROLLING_UPDATE
    return Condition(type=type_, status=status, reason=what.reason, message=what.message)


def _rest(rollout: Rollout) -> Blockage:
    target, latest = rollout.revisions.target, rollout.revisions.latest
    number = target.revision if target else 1
    if target is None or not (rollout.is_complete or was_complete(target)):
        return Blockage("Starting", f"the Pods of revision {number} are created")
    if latest is not None and rollout.revisions.is_rolling_back:
        why = f"revision {latest.revision} was given up ({failure(latest)})"
        return Blockage("RolledBack", f"{why}; all Pods are of revision {number}. {_CURE}")
    return Blockage("Complete", f"all Pods are of revision {number}")


def _waits(snapshot: ClusterSnapshot, rollout: Rollout) -> Blockage | None:
    """What keeps it from replacing Pods until somebody acts."""
    if rollout.revisions.hold is not None:
        return rollout.revisions.hold
    if not rollout.has_begun or rollout.is_complete:
        return None
    if rollout.options.paused:
        return Blockage("Paused", f"{_replaced(rollout)}; paused: resume with manta rollout resume")
    if rollout.is_stalled:
        return _stalled(snapshot, rollout)
    if rollout.head_awaits_consent:
        why = (
            f"all workers are replaced. The head is of an earlier revision and {_consent(rollout)}"
        )
        return Blockage("AwaitsConsent", why)
    return None


def _consent(rollout: Rollout) -> str:
    """Why the head stays, and what allows to replace it."""
    if rollout.head_is_the_last:
        note = names.ANNOTATION_DISABLE_HEAD_RESTART
        return f"no other may follow it: to replace it, remove the annotation {note}"
    return (
        "has no GCS fault tolerance: replacing it loses all tasks, actors and objects. To allow it, annotate"
        f" the RayCluster {names.ANNOTATION_ROLLING_UPDATE_HEAD}={names.ROLLING_UPDATE_HEAD_ALLOWED}"
    )


def _stalled(snapshot: ClusterSnapshot, rollout: Rollout) -> Blockage:
    known = find(snapshot.cluster.status.conditions, ClusterConditionType.ROLLING_UPDATE)
    reason = "ProgressDeadlineExceeded"
    if known is not None and known.reason == reason and not _problem(snapshot, rollout):
        return Blockage(reason, known.message)  # what failed then is not tried now
    why = f"{_replaced(rollout)}; {stalled_because(snapshot, rollout)}"
    return Blockage(reason, f"{why.removesuffix('.')}. {_CURE}")


def stalled_because(snapshot: ClusterSnapshot, rollout: Rollout) -> str:
    """Why it stops: the head or the group that does not become ready, and the first problem of its Pods."""
    seconds = int(progress_deadline(rollout.options).total_seconds())
    where = f" in group {rollout.turn.name}" if rollout.turn and not _awaited_head(rollout) else ""
    what = _problem(snapshot, rollout)
    return f"no progress for {seconds} s{where}{f': {what}' if what else ''}"


def _awaited_head(rollout: Rollout) -> Pod | None:
    head = rollout.head
    return head if head is not None and not is_ready(head) else None


def _problem(snapshot: ClusterSnapshot, rollout: Rollout) -> str:
    """The first problem of the head or the group that does not become ready, or why it gets no Pods."""
    head, group = _awaited_head(rollout), rollout.turn
    pods = [head] if head else [pod for one in (group.updated if group else ()) for pod in one.pods]
    for pod in pods:
        if found := blockage(pod) or slow_start(pod, snapshot.now):
            return found.message
    waiting = [pod.metadata.name for pod in pods if not is_ready(pod)]
    if waiting:
        return f"{'head' if head else 'worker'} {waiting[0]} is not ready"
    conditions = snapshot.cluster.status.conditions
    failed = find(conditions, ClusterConditionType.REPLICA_FAILURE)
    return failed.message if failed is not None else ""


def _replaced(rollout: Rollout) -> str:
    """`3 of 8 workers of group gpu replaced`, of the group whose turn it is."""
    group = rollout.turn
    if group is None:
        return "all workers replaced"
    available = sum(one.available for one in group.updated)
    done = max(min(available, group.wanted - len(group.outdated)), 0)
    what = "replicas" if any(one.hosts > 1 for one in group.units) else "workers"
    back = " (going back)" if rollout.revisions.is_rolling_back else ""
    return f"{done} of {group.wanted} {what} of group {group.name} replaced{back}"


def _step(snapshot: ClusterSnapshot, rollout: Rollout) -> Blockage:
    reason = "RollingBack" if rollout.revisions.is_rolling_back else "Progressing"
    group = rollout.turn
    if group is None:
        return Blockage(reason, f"all workers replaced; {_head(snapshot, rollout)}")
    if rollout.head_is_broken or _head_starts(rollout):
        return Blockage(reason, f"{_replaced(rollout)}; {_head(snapshot, rollout)}")
    waits = _drains(group, snapshot.tasks_left) or _starts(group) or "the next one follows"
    return Blockage(reason, f"{_replaced(rollout)}; {waits}")


def _head_starts(rollout: Rollout) -> bool:
    head = rollout.head
    return head is not None and not rollout.head_is_outdated and not is_ready(head)


def _head(snapshot: ClusterSnapshot, rollout: Rollout) -> str:
    going = [pod.metadata.name for pod in snapshot.head_pods if is_terminating(pod)]
    if going:
        return f"waiting for head {going[0]} to end"
    if rollout.head is None:
        return "the new head is created"
    if rollout.head_is_broken:
        return f"head {rollout.head.metadata.name} does not start and is replaced first"
    if rollout.head_is_outdated:
        return f"head {rollout.head.metadata.name} is replaced now"
    return f"waiting for head {rollout.head.metadata.name} to be ready"


def _drains(group: GroupRollout, tasks: Mapping[str, int]) -> str:
    going = [pod for one in group.outdated if one.terminating for pod in one.pods]
    if not going:
        return ""
    named = [pod.metadata.name for pod in going[:_NAMED]]
    more = f" and {len(going) - _NAMED} more" if len(going) > _NAMED else ""
    word = "worker" if len(going) == 1 else "workers"
    return f"waiting for {word} {', '.join(named)}{more} to drain{_left(going, tasks)}"


def _left(going: list[Pod], tasks: Mapping[str, int]) -> str:
    known = [tasks[pod.metadata.name] for pod in going if pod.metadata.name in tasks]
    if not known:
        return ""
    count = sum(known)
    return f" ({count} task{'' if count == 1 else 's'} left)"


def _starts(group: GroupRollout) -> str:
    new = [one for one in group.updated if not one.available]
    if not new:
        return ""
    more = f" and {len(new) - 1} more" if len(new) > 1 else ""
    return f"waiting for {_noun(new[0])} {new[0].name}{more} to be ready"


def _noun(unit: Unit) -> str:
    return "replica" if unit.hosts > 1 else "worker"
