"""Records what a rolling update needs to survive the operator: revisions, progress, success and failure.

The spec of an edit is recorded before any Pod is created from it or replaced because of it. Everything is
kept in ControllerRevisions, which every API server has: a CRD without our fields loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from manta.api.ray import names
from manta.api.ray.cluster import RayClusterStatus
from manta.api.resources import CONTROLLER_REVISIONS, PODS
from manta.api.revisions import ControllerRevision
from manta.api.times import format_time
from manta.api.well_known import ANNOTATION_CHANGE_CAUSE
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import has_another_spec, is_of_another_version
from manta.controllers.raycluster.planners.ensure import ensure
from manta.controllers.raycluster.rollout.condition import stalled_because
from manta.controllers.raycluster.rollout.progress import written
from manta.controllers.raycluster.rollout.revisions import PRUNED, failure, last_good, was_complete
from manta.controllers.raycluster.rollout.state import Rollout
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.ownership import owned_by
from manta.reconcile.actions import Action, Create, Delete, Patch
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.reconcile.step import Step, earliest
from manta.rules.pod_health import is_terminating
from manta.rules.revisions import KEPT, content, is_same, spec_in
from manta.rules.rolling_update import rolling_update, rolls_back
from manta.rules.spec_hash import spec_hash

LIST_RETRY: Final = timedelta(seconds=1)


def plan_revision(snapshot: ClusterSnapshot) -> Plan:
    """Record the spec, if it is new. A spec that was recorded before becomes the newest again."""
    if rolling_update(snapshot.cluster) is None or snapshot.revisions_error:
        return NOTHING
    rollout = snapshot.rollout
    if rollout is None:
        return Plan(wait=Wait("the ControllerRevisions are not listed yet", LIST_RETRY))
    if rollout.to_note:
        return _note_revision(rollout)
    if rollout.revisions.target is not None:
        return _retry(snapshot, rollout)
    if rollout.revisions.ordered and not snapshot.is_edited:
        return Plan(notes=(PRUNED,))
    plan = _record(snapshot, rollout)
    wait = Wait("the revision of this spec is recorded before any Pod changes")
    return plan if plan.wait else replace(plan, wait=wait)


def _note_revision(rollout: Rollout) -> Plan:
    """Pods that were created while no rolling update was asked for are of this revision."""
    body = {"metadata": {"annotations": {names.ANNOTATION_POD_REVISION: rollout.revisions.name}}}
    why = "it was created without a rolling update"
    pods = (pod.metadata for pod in rollout.to_note)
    patches = [Patch(PODS, one.key, body, Cause.OPERATOR_CHANGED, why, uid=one.uid) for one in pods]
    return do(*patches, wait=Wait("the revision of Pods that have none is noted"))


def _retry(snapshot: ClusterSnapshot, rollout: Rollout) -> Plan:
    """Try a revision again that was given up, or that stopped at the deadline. It gets a new number, so that one
    request is one attempt."""
    latest = rollout.revisions.latest
    asked = snapshot.cluster.metadata.annotations.get(names.ANNOTATION_ROLLING_UPDATE_RETRY)
    if latest is None or asked != str(latest.revision):
        return NOTHING
    if not failure(latest) and not rollout.is_stalled:
        return NOTHING
    why = "the user asked to try it again"
    return do(_renumber(latest, latest.revision + 1, why), wait=Wait(why))


def _renumber(revision: ControllerRevision, number: int, why: str, **more: Any) -> Patch:
    meta = revision.metadata
    gone = dict.fromkeys(
        (
            names.ANNOTATION_ROLLOUT_FAILED,
            names.ANNOTATION_ROLLOUT_PROGRESS,
            names.ANNOTATION_ROLLOUT_COMPLETED,
        )
    )
    change = {"revision": number, "metadata": {"annotations": gone, **more}}
    return Patch(CONTROLLER_REVISIONS, meta.key, change, Cause.REVISION, why, uid=meta.uid)


def _record(snapshot: ClusterSnapshot, rollout: Rollout) -> Plan:
    spec, ordered = snapshot.cluster.spec, rollout.revisions.ordered
    number = ordered[-1].revision + 1 if ordered else 1
    known = next((one for one in ordered if is_same(spec_in(one.data), spec)), None)
    if known is not None:
        why = f"the spec is that of revision {known.revision} again"
        return do(_renumber(known, number, why))
    manifest = _manifest(snapshot, rollout.revisions.name, number)
    live = next((one for one in snapshot.revisions if one.metadata.name == _name(manifest)), None)
    if live is not None and live.metadata.controller is None and is_same(spec_in(live.data), spec):
        # The RayCluster before this one was deleted without its dependents.
        owners = manifest["metadata"]["ownerReferences"]
        return do(_renumber(live, number, "it had no owner", ownerReferences=owners))
    create = Create(CONTROLLER_REVISIONS, manifest, Cause.REVISION)
    is_foreign = live is not None and live.metadata.controller is not None
    return ensure(snapshot, create, live if is_foreign else None)


def _name(manifest: Mapping[str, Any]) -> Any:
    return manifest["metadata"]["name"]


def _manifest(snapshot: ClusterSnapshot, name: str, number: int) -> dict[str, Any]:
    meta = snapshot.cluster.metadata
    annotations = {}
    if number == 1 and _may_adopt(snapshot):
        annotations[names.ANNOTATION_ADOPTS_PODS] = "true"
    if cause := meta.annotations.get(ANNOTATION_CHANGE_CAUSE):
        annotations[ANNOTATION_CHANGE_CAUSE] = cause
    manifest = {
        "apiVersion": CONTROLLER_REVISIONS.api_version,
        "kind": CONTROLLER_REVISIONS.kind,
        "metadata": {
            "name": name,
            "namespace": meta.namespace,
            "labels": {names.LABEL_CLUSTER: meta.name},
            **({"annotations": annotations} if annotations else {}),
        },
        "data": content(snapshot.cluster.spec),
        "revision": number,
    }
    return owned_by(snapshot.cluster, manifest)


def _may_adopt(snapshot: ClusterSnapshot) -> bool:
    """Whether Pods from before the first revision count as of it. Not if this very edit also changed
    their spec: then they are to be replaced."""
    head = next((pod for pod in snapshot.head_pods if not is_terminating(pod)), None)
    if head is None:
        return bool(snapshot.pods)
    is_changed = snapshot.is_edited and has_another_spec(snapshot, head)
    return not is_changed or is_of_another_version(snapshot, head)


# ── what happened to it ──────────────────────────────────────────────────────────────────


def plan_rollout_records(snapshot: ClusterSnapshot) -> Step[RayClusterStatus]:
    """Record progress, success or failure, and forget old revisions."""
    rollout = snapshot.rollout
    if rollout is None or rollout.revisions.target is None:
        return Step()
    if _gives_up(rollout):
        return Step(_give_up(snapshot, rollout))
    actions = [*_progress(rollout), *_success(snapshot, rollout), *_forgotten(snapshot, rollout)]
    deadline = rollout.stalls_in or None  # a deadline that has passed needs no timer
    return Step(do(*actions), wake_in=earliest(deadline, rollout.next_available))


def _progress(rollout: Rollout) -> Iterator[Action]:
    latest = rollout.revisions.latest
    if latest is None or rollout.is_complete or rollout.revisions.hold is not None:
        return
    last = rollout.recorded
    if last.is_behind(rollout.progress) if last else rollout.progress.outdated > 0:
        note = {names.ANNOTATION_ROLLOUT_PROGRESS: written(rollout.progress)}
        yield _annotate(latest, note, Cause.ROLLOUT_PROGRESS, "")


def _success(snapshot: ClusterSnapshot, rollout: Rollout) -> Iterator[Action]:
    target, head = rollout.revisions.target, rollout.head
    if target is None or head is None or not rollout.is_complete:
        return
    if not was_complete(target):
        note: dict[str, str | None] = {
            names.ANNOTATION_ROLLOUT_COMPLETED: format_time(snapshot.now),
            names.ANNOTATION_ROLLOUT_FAILED: None,  # it was given up before, and had another chance
        }
        why = f"All Pods are of revision {target.revision}"
        yield _annotate(target, note, Cause.ROLLOUT_COMPLETE, why)
    hashed = spec_hash(snapshot.cluster.spec)
    known = head.metadata.annotations.get(names.ANNOTATION_RECREATE_HASH, hashed)
    is_current = known == hashed or is_of_another_version(snapshot, head)
    if not is_current and not rollout.revisions.is_rolling_back:
        # The head outlived an edit of the workers: Recreate, if it is chosen later, has nothing to do.
        patch = {"metadata": {"annotations": {names.ANNOTATION_RECREATE_HASH: hashed}}}
        why, meta = "all Pods are of this spec", head.metadata
        yield Patch(PODS, meta.key, patch, Cause.OPERATOR_CHANGED, why, uid=meta.uid)


def _gives_up(rollout: Rollout) -> bool:
    latest, ordered = rollout.revisions.latest, rollout.revisions.ordered
    if latest is None or rollout.revisions.target is not latest or failure(latest):
        return False
    return rollout.is_stalled and rolls_back(rollout.options) and last_good(ordered) is not None


def _give_up(snapshot: ClusterSnapshot, rollout: Rollout) -> Plan:
    latest, good = rollout.revisions.latest, last_good(rollout.revisions.ordered)
    if latest is None or good is None:
        return NOTHING
    why = stalled_because(snapshot, rollout)
    note = {
        names.ANNOTATION_ROLLOUT_FAILED: f"{format_time(snapshot.now)}: {why}"[:1000],
        names.ANNOTATION_ROLLOUT_PROGRESS: None,
    }
    sentence = f"Revision {latest.revision} is given up, back to {good.revision}: {why}"
    action = _annotate(latest, note, Cause.ROLLOUT_FAILED, sentence)
    return do(action, wait=Wait("the failure is recorded before Pods go back"))


def _forgotten(snapshot: ClusterSnapshot, rollout: Rollout) -> Iterator[Action]:
    """The oldest revisions, beyond the last ten and those that are in use."""
    revisions = rollout.revisions
    good = last_good(revisions.ordered)
    kept = {one.metadata.name for one in (revisions.target, good) if one is not None}
    used = (revisions.of_pod(pod) for pod in snapshot.pods)
    kept |= {one.metadata.name for one in used if one is not None}
    for one in revisions.ordered[:-KEPT]:
        if one.metadata.name not in kept:
            meta, why = one.metadata, f"only the last {KEPT} revisions are kept"
            yield Delete(CONTROLLER_REVISIONS, meta.key, meta.uid, Cause.OLD_REVISION, why)


def _annotate(
    revision: ControllerRevision, note: Mapping[str, str | None], cause: Cause, why: str
) -> Patch:
    meta = revision.metadata
    patch = {"metadata": {"annotations": note}}
    return Patch(CONTROLLER_REVISIONS, meta.key, patch, cause, why, uid=meta.uid)
