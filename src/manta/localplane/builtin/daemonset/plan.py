"""The next step of a DaemonSet: revisions, missing and surplus Pods, updates. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from math import ceil

from manta.api.resources import DAEMON_SETS, PODS
from manta.api.times import parse_time
from manta.localplane.builtin.daemonset.eligibility import new_pod, node_of
from manta.localplane.builtin.daemonset.snapshot import DaemonSetSnapshot
from manta.localplane.builtin.owned_pods import adopt, release, selects, until_available
from manta.localplane.builtin.pod_events import POD_CREATED, POD_DELETED
from manta.localplane.builtin.revisions import HASH_LABEL, plan_history, plan_revision
from manta.localplane.builtin.views import Pod
from manta.reconcile.actions import Create, Delete
from manta.reconcile.causes import ActionCause, Reasons
from manta.reconcile.plan import MAX_CREATIONS, NOTHING, Plan, Wait, do

FAILED_POD_AGE = timedelta(seconds=10)
"""A Pod that fails at once is replaced at this pace, not in a tight loop."""


class Cause(ActionCause):
    REVISION = (
        Reasons("Create", failed="FailedCreate"),
        "the template has no revision, or not the newest one",
    )
    HISTORY = Reasons("Delete"), "more old revisions are kept than wanted"
    CREATE = POD_CREATED, "a node has no Pod"
    REPLACE = (
        Reasons(
            "Delete",
            "FailedDaemonPod",
            "FailedDelete",
            "Found failed daemon pod {key} on {why}, will try to kill it",
            "Error deleting: {error}",
            done_type="Warning",
        ),
        "a Pod ended",
    )
    SURPLUS = POD_DELETED, "a node has a Pod that it should not have"
    UPDATE = POD_DELETED, "a Pod is of an older revision"
    ADOPT = Reasons("Adopt"), "a Pod without a controller matches the selector"
    RELEASE = Reasons("Release"), "a Pod no longer matches the selector"


def plan(snapshot: DaemonSetSnapshot) -> Plan:
    daemon_set = snapshot.daemon_set
    meta, spec = daemon_set.metadata, daemon_set.spec
    if meta.deletion_timestamp:
        return NOTHING
    revision = plan_revision(DAEMON_SETS, meta, spec.template, snapshot.revisions, Cause.REVISION)
    if revision.stages:
        return revision
    adopted = [pod for pod in snapshot.orphans if pod.is_active and selects(daemon_set, pod)]
    if adopted:
        return do(*(adopt(DAEMON_SETS, meta, pod, Cause.ADOPT) for pod in adopted))
    strays = (pod for pod in snapshot.pods if not selects(daemon_set, pod))
    released = do(*(release(pod, Cause.RELEASE) for pod in strays))
    steps = list(_per_node(snapshot))[:MAX_CREATIONS]
    changes = do(*steps) if steps else _update(snapshot)
    return released.then(changes).then(_plan_old_revisions(snapshot)).then(_next_wakeup(snapshot))


def _plan_old_revisions(snapshot: DaemonSetSnapshot) -> Plan:
    hashes = {
        snapshot.update_hash,
        *(pod.metadata.labels.get(HASH_LABEL, "") for pod in snapshot.pods),
    }
    names = {f"{snapshot.daemon_set.metadata.name}-{one}" for one in hashes}
    limit = snapshot.daemon_set.spec.revision_history_limit
    return plan_history(snapshot.revisions, names, limit, Cause.HISTORY)


# ── one Pod per node ─────────────────────────────────────────────────────────────────────
def _per_node(snapshot: DaemonSetSnapshot) -> Iterator[Create | Delete]:
    by_node = snapshot.by_node
    for node, allowed in snapshot.eligibilities().items():
        pods = by_node.get(node, [])
        staying = [pod for pod in pods if pod.is_active]
        if not allowed.may_stay:
            yield from (_delete(pod, Cause.SURPLUS) for pod in pods if not pod.is_deleting)
            continue
        yield from (_delete(pod, Cause.REPLACE) for pod in pods if _may_be_replaced(snapshot, pod))
        if allowed.may_start and not pods:
            yield Create(PODS, new_pod(snapshot.daemon_set, node), Cause.CREATE)
        yield from (_delete(pod, Cause.SURPLUS) for pod in _surplus(snapshot, staying))
    nodes = {node.name for node in snapshot.nodes}
    for node, pods in by_node.items():
        if node not in nodes:
            yield from (_delete(pod, Cause.SURPLUS) for pod in pods if not pod.is_deleting)


def _surplus(snapshot: DaemonSetSnapshot, staying: list[Pod]) -> list[Pod]:
    """The oldest Pod stays; during a surge also the oldest of the new revision."""
    if not _surge(snapshot):
        return staying[1:]
    new = [pod for pod in staying if snapshot.is_updated(pod)]
    old = [pod for pod in staying if not snapshot.is_updated(pod)]
    return [*new[1:], *old[1:]]


def _may_be_replaced(snapshot: DaemonSetSnapshot, pod: Pod) -> bool:
    return pod.is_terminal and not pod.is_deleting and _failed_left(snapshot, pod) <= timedelta(0)


def _failed_left(snapshot: DaemonSetSnapshot, pod: Pod) -> timedelta:
    return parse_time(pod.metadata.creation_timestamp) + FAILED_POD_AGE - snapshot.now


def _next_wakeup(snapshot: DaemonSetSnapshot) -> Plan:
    """When a Pod that ended may be replaced, or a ready one becomes available."""
    ended = [pod for pod in snapshot.pods if pod.is_terminal and not pod.is_deleting]
    waits = [left for pod in ended if (left := _failed_left(snapshot, pod)) > timedelta(0)]
    seconds = snapshot.daemon_set.spec.min_ready_seconds
    available = until_available(snapshot.pods, seconds, snapshot.now)
    if not waits:
        return available
    if available.wait and available.wait.retry_in:
        waits.append(available.wait.retry_in)
    return Plan(wait=Wait("a Pod that ended is replaced", min(waits)))


# ── updates ──────────────────────────────────────────────────────────────────────────────
def _update(snapshot: DaemonSetSnapshot) -> Plan:
    if snapshot.daemon_set.spec.update_strategy.type != "RollingUpdate":
        return NOTHING
    wanted = [node for node, one in snapshot.eligibilities().items() if one.may_start]
    if _surge(snapshot):
        return do(*_surging(snapshot, wanted))
    return do(*_rolling(snapshot, wanted))


def _rolling(snapshot: DaemonSetSnapshot, wanted: list[str]) -> Iterator[Delete]:
    """Delete unavailable old Pods first, then the others within the budget."""
    budget = max(1, _part(snapshot, "max_unavailable", default=1))
    available: list[Pod] = []
    for node in wanted:
        pods = [pod for pod in snapshot.by_node.get(node, []) if not pod.is_deleting]
        serving = [pod for pod in pods if snapshot.is_available(pod)]
        budget -= not serving
        available += [pod for pod in serving if not snapshot.is_updated(pod)]
        broken = (pod for pod in pods if pod not in serving and not snapshot.is_updated(pod))
        yield from (_delete(pod, Cause.UPDATE) for pod in broken)
    yield from (_delete(pod, Cause.UPDATE) for pod in available[: max(0, budget)])


def _surging(snapshot: DaemonSetSnapshot, wanted: list[str]) -> Iterator[Create | Delete]:
    """Create a new Pod beside each old one; delete the old one when the new one is available."""
    budget = _surge(snapshot)
    waiting: list[str] = []
    for node in wanted:
        pods = [pod for pod in snapshot.by_node.get(node, []) if pod.is_active]
        new = next((pod for pod in pods if snapshot.is_updated(pod)), None)
        old = next((pod for pod in pods if not snapshot.is_updated(pod)), None)
        if old is None:
            continue
        if new is not None:
            budget -= 1
            if snapshot.is_available(new) or not snapshot.is_available(old):
                yield _delete(old, Cause.UPDATE)
        else:
            waiting.append(node)
    for node in waiting[: max(0, budget)]:
        yield Create(PODS, new_pod(snapshot.daemon_set, node), Cause.CREATE)


def _surge(snapshot: DaemonSetSnapshot) -> int:
    return _part(snapshot, "max_surge", default=0)


def _part(snapshot: DaemonSetSnapshot, setting: str, *, default: int) -> int:
    """A count, or a share of the nodes that should have a Pod, rounded up."""
    rolling = snapshot.daemon_set.spec.update_strategy.rolling_update
    value = getattr(rolling, setting) if rolling else None
    text = str(default if value is None else value)
    if not text.endswith("%"):
        return int(text)
    nodes = sum(one.may_start for one in snapshot.eligibilities().values())
    return ceil(int(text[:-1]) * nodes / 100)


def _delete(pod: Pod, cause: Cause) -> Delete:
    return Delete(PODS, pod.metadata.key, pod.metadata.uid, cause, why=f"node {node_of(pod)}")
