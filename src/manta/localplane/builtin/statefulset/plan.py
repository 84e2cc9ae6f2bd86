"""The next step of a StatefulSet: revisions, claims, Pods. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from math import floor
from typing import Any

from manta.api.resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from manta.localplane.builtin.owned_pods import adopt, release, selects, until_available
from manta.localplane.builtin.revisions import plan_history, plan_revision, template_of
from manta.localplane.builtin.statefulset.claims import plan_retention
from manta.localplane.builtin.statefulset.identity import (
    claim_names,
    new_claim,
    new_pod,
    ordinal_of,
    pod_name,
)
from manta.localplane.builtin.statefulset.snapshot import StatefulSetSnapshot, revision_of_pod
from manta.localplane.builtin.views import Pod
from manta.localplane.builtin.workload_views import StatefulSet
from manta.reconcile.actions import Create, Delete
from manta.reconcile.causes import ActionCause, Reasons
from manta.reconcile.plan import MAX_CREATIONS, NOTHING, Plan, do

_DELETED = Reasons(
    "Delete",
    "SuccessfulDelete",
    "FailedDelete",
    "delete Pod {key.name} successful",
    "delete Pod {key.name} failed error: {error}",
)


class Cause(ActionCause):
    REVISION = (
        Reasons("Create", failed="FailedCreate"),
        "the template has no revision, or not the newest one",
    )
    HISTORY = Reasons("Delete"), "more old revisions are kept than wanted"
    CLAIM = (
        Reasons(
            "Create",
            "SuccessfulCreate",
            "FailedCreate",
            "create Claim {key.name} successful",
            "create Claim {key.name} failed error: {error}",
        ),
        "a Pod needs a claim that does not exist",
    )
    RETENTION = Reasons("Update"), "the retention policy decides who owns a claim"
    CREATE = (
        Reasons(
            "Create",
            "SuccessfulCreate",
            "FailedCreate",
            "create Pod {key.name} successful",
            "create Pod {key.name} failed error: {error}",
        ),
        "an ordinal has no Pod",
    )
    REPLACE = (
        Reasons(
            "Delete",
            "RecreatingTerminatedPod",
            "FailedDelete",
            "StatefulSet is recreating terminated Pod {key.name}",
            "delete Pod {key.name} failed error: {error}",
        ),
        "a Pod ended",
    )
    SURPLUS = _DELETED, "an ordinal is no longer wanted"
    UPDATE = _DELETED, "a Pod is of an older revision"
    ADOPT = (Reasons("Adopt"), "a Pod without a controller has the name and labels of a replica")
    RELEASE = Reasons("Release"), "a Pod no longer matches the selector"


def plan(snapshot: StatefulSetSnapshot) -> Plan:
    stateful_set = snapshot.stateful_set
    meta, spec = stateful_set.metadata, stateful_set.spec
    if meta.deletion_timestamp:
        return NOTHING
    revision = plan_revision(STATEFUL_SETS, meta, spec.template, snapshot.revisions, Cause.REVISION)
    if revision.stages:
        # The reconcile that sees the revision creates Pods of it.
        return revision
    adopted = _adoptable(snapshot)
    if adopted:
        return do(*(adopt(STATEFUL_SETS, meta, pod, Cause.ADOPT) for pod in adopted))
    strays = (pod for pod in snapshot.pods if not selects(stateful_set, pod))
    released = do(*(release(pod, Cause.RELEASE) for pod in strays))
    retained = plan_retention(snapshot, Cause.RETENTION)
    steps = released.then(retained).then(_plan_pods(snapshot)).then(_plan_old_revisions(snapshot))
    return steps.then(
        until_available(snapshot.members.values(), spec.min_ready_seconds, snapshot.now)
    )


def _adoptable(snapshot: StatefulSetSnapshot) -> list[Pod]:
    stateful_set = snapshot.stateful_set
    return [
        pod
        for pod in snapshot.orphans
        if not pod.is_deleting and selects(stateful_set, pod) and ordinal_of(stateful_set, pod) >= 0
    ]


def _plan_old_revisions(snapshot: StatefulSetSnapshot) -> Plan:
    in_use = {
        snapshot.update_revision,
        snapshot.current_revision,
        *(revision_of_pod(pod) for pod in snapshot.pods),
    }
    limit = snapshot.stateful_set.spec.revision_history_limit
    return plan_history(snapshot.revisions, in_use, limit, Cause.HISTORY)


# ── Pods ─────────────────────────────────────────────────────────────────────────────────
def _plan_pods(snapshot: StatefulSetSnapshot) -> Plan:
    steps = _scale(snapshot)
    if snapshot.stateful_set.spec.pod_management_policy != "Parallel":
        step = next(steps, None)
        return _update(snapshot) if step is None else step
    actions = [action for step in steps for action in step.actions][:MAX_CREATIONS]
    if not actions:
        # Pods that are still on their way up or down do not stop an update of the others.
        return _update(snapshot)
    claims = [action for action in actions if action.cause is Cause.CLAIM]
    others = [action for action in actions if action.cause is not Cause.CLAIM]
    return do(*claims).then(do(*others))


def _scale(snapshot: StatefulSetSnapshot) -> Iterator[Plan]:
    """The steps to the wanted ordinals, in order. A step without actions waits for a Pod."""
    members = snapshot.members
    wanted = snapshot.stateful_set.wanted
    for ordinal in wanted:
        pod = members.get(ordinal)
        if pod is None:
            yield _create(snapshot, ordinal)
        elif pod.is_terminal and not pod.is_deleting:
            yield _delete(pod, Cause.REPLACE)
        elif missing := _missing_claims(snapshot, pod.metadata.name):
            yield do(*missing)
        elif pod.is_deleting or not snapshot.is_available(pod):
            yield Plan(notes=(f"{pod.metadata.name} is not available yet",))
    leaving = [(number, pod) for number, pod in members.items() if number not in wanted]
    for _, pod in sorted(leaving, reverse=True, key=lambda one: one[0]):
        if pod.is_deleting:
            yield Plan(notes=(f"{pod.metadata.name} is still being deleted",))
        else:
            yield _delete(pod, Cause.SURPLUS)


def _update(snapshot: StatefulSetSnapshot) -> Plan:
    """Delete Pods of older revisions from the highest ordinal down, within the budget."""
    stateful_set = snapshot.stateful_set
    if stateful_set.spec.update_strategy.type != "RollingUpdate":
        return NOTHING
    budget = _max_unavailable(stateful_set)
    deletes: list[Delete] = []
    members = snapshot.members
    for ordinal in reversed(stateful_set.wanted):
        pod = members.get(ordinal)
        if budget <= 0 or ordinal < stateful_set.wanted.start + partition(stateful_set):
            break
        old = pod is not None and revision_of_pod(pod) != snapshot.update_revision
        if pod is not None and old and not pod.is_deleting:
            deletes.append(_deletion(pod, Cause.UPDATE))
            budget -= 1
        elif pod is None or pod.is_deleting or not snapshot.is_available(pod):
            budget -= 1
    return do(*deletes)


def partition(stateful_set: StatefulSet) -> int:
    rolling = stateful_set.spec.update_strategy.rolling_update
    return (rolling.partition if rolling else None) or 0


def _max_unavailable(stateful_set: StatefulSet) -> int:
    rolling = stateful_set.spec.update_strategy.rolling_update
    text = str((rolling.max_unavailable if rolling else None) or 1)
    if text.endswith("%"):
        return max(1, floor(int(text[:-1]) * len(stateful_set.wanted) / 100))
    return max(1, int(text))


# ── actions ──────────────────────────────────────────────────────────────────────────────
def _create(snapshot: StatefulSetSnapshot, ordinal: int) -> Plan:
    """The claims of a Pod first: it must not start without them."""
    stateful_set = snapshot.stateful_set
    template, revision = _template_for(snapshot, ordinal)
    pod = new_pod(stateful_set, ordinal, template, revision)
    claims = _missing_claims(snapshot, pod_name(stateful_set, ordinal))
    return do(*claims).then(do(Create(PODS, pod, Cause.CREATE)))


def _template_for(snapshot: StatefulSetSnapshot, ordinal: int) -> tuple[dict[str, Any], str]:
    """Below the partition a rolling update keeps the revision that was current before."""
    stateful_set = snapshot.stateful_set
    below = ordinal < stateful_set.wanted.start + partition(stateful_set)
    if stateful_set.spec.update_strategy.type == "RollingUpdate" and below:
        for one in snapshot.revisions:
            if one.metadata.name == snapshot.current_revision:
                return template_of(one), snapshot.current_revision
    return stateful_set.spec.template, snapshot.update_revision


def _missing_claims(snapshot: StatefulSetSnapshot, pod: str) -> list[Create]:
    there = {one.metadata.name for one in snapshot.claims}
    stateful_set = snapshot.stateful_set
    names = claim_names(stateful_set, pod)
    templates = zip(stateful_set.spec.volume_claim_templates or (), names.values(), strict=True)
    return [
        Create(PERSISTENT_VOLUME_CLAIMS, new_claim(stateful_set, template, pod), Cause.CLAIM)
        for template, name in templates
        if name not in there
    ]


def _delete(pod: Pod, cause: Cause) -> Plan:
    return do(_deletion(pod, cause))


def _deletion(pod: Pod, cause: Cause) -> Delete:
    return Delete(PODS, pod.metadata.key, pod.metadata.uid, cause)
