"""The recorded revisions of a RayCluster, and which one its Pods should have."""

from __future__ import annotations

from dataclasses import dataclass

from manta.api.conditions import Blockage
from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import RayClusterSpec, RollingUpdateOptions
from manta.api.revisions import ControllerRevision
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.rules.pod_health import is_terminating
from manta.rules.revisions import is_same, needs_recreate, restored, revision_name, spec_in
from manta.rules.rolling_update import rolls_back

PRUNED = (
    "the spec differs from the last revision although nobody edited it: an older CRD may prune fields."
    " No Pod is replaced until the spec is edited"
)


@dataclass(frozen=True)
class Revisions:
    """`ordered` are the revisions of this cluster, oldest first."""

    ordered: tuple[ControllerRevision, ...]
    name: str
    """The revision of new Pods, recorded or not."""
    spec: RayClusterSpec
    """What new Pods are built from: the live spec, or after a failure that of an earlier revision."""
    target: ControllerRevision | None = None
    """The recorded revision that all Pods should have. None: it is not recorded yet."""
    hold: Blockage | None = None
    """Why no Pod is replaced, whatever its revision."""

    @property
    def latest(self) -> ControllerRevision | None:
        return self.ordered[-1] if self.ordered else None

    @property
    def is_rolling_back(self) -> bool:
        return self.target is not None and self.target is not self.latest and self.hold is None

    @property
    def replaced(self) -> tuple[ControllerRevision, ...]:
        """Whose Pods the update to the target replaces: the last revision that was complete, and what came after it."""
        found: list[ControllerRevision] = []
        for one in reversed(self.ordered):
            if one is not self.target:
                found.append(one)
            if was_complete(one):
                break
        return tuple(found)

    def of_pod(self, pod: Pod) -> ControllerRevision | None:
        return revision_of(self.ordered, pod)


def own_revisions(snapshot: ClusterSnapshot) -> tuple[ControllerRevision, ...]:
    uid = snapshot.cluster.metadata.uid
    own = (one for one in snapshot.revisions if one.metadata.is_controlled_by(uid))
    return tuple(sorted(own, key=lambda one: (one.revision, one.metadata.name)))


def revision_of(ordered: tuple[ControllerRevision, ...], pod: Pod) -> ControllerRevision | None:
    """The revision of a Pod; None: it is unknown. A Pod without one may be older than the first."""
    name = pod.metadata.annotations.get(names.ANNOTATION_POD_REVISION)
    if name is not None:
        return next((one for one in ordered if one.metadata.name == name), None)
    return next((one for one in ordered if adopts_pods(one)), None)


def adopts_pods(revision: ControllerRevision) -> bool:
    return revision.metadata.annotations.get(names.ANNOTATION_ADOPTS_PODS) == "true"


def failure(revision: ControllerRevision) -> str:
    """Why the rolling update to this revision was given up; empty if it was not."""
    return revision.metadata.annotations.get(names.ANNOTATION_ROLLOUT_FAILED, "")


def was_complete(revision: ControllerRevision) -> bool:
    return names.ANNOTATION_ROLLOUT_COMPLETED in revision.metadata.annotations


def last_good(ordered: tuple[ControllerRevision, ...]) -> ControllerRevision | None:
    """The newest revision before the last one that was complete and did not fail since."""
    good = (one for one in reversed(ordered[:-1]) if was_complete(one) and not failure(one))
    return next(good, None)


def revisions_of(snapshot: ClusterSnapshot, options: RollingUpdateOptions) -> Revisions:
    """The revisions, and the target among them."""
    spec, ordered = snapshot.cluster.spec, own_revisions(snapshot)
    name = revision_name(snapshot.cluster.metadata.name, spec)
    if not ordered or not is_same(spec_in(ordered[-1].data), spec):
        is_pruned = bool(ordered) and not snapshot.is_edited
        return Revisions(ordered, name, spec, hold=Blockage("Held", PRUNED) if is_pruned else None)
    latest = ordered[-1]
    if failure(latest) and rolls_back(options) and (good := last_good(ordered)):
        return _to(ordered, good, spec)
    if (before := _of_running_head(snapshot, ordered)) is not None:
        fields = needs_recreate(spec_in(before.data), spec)
        if fields and before is not latest:
            why = (
                f"the edit cannot be rolled: {'; '.join(fields)}. Pods keep the spec of revision"
                f" {before.revision}; set spec.upgradeStrategy.type to Recreate to replace all at once"
            )
            held = _to(ordered, before, spec)
            return Revisions(ordered, held.name, held.spec, before, Blockage("NeedsRecreate", why))
    return Revisions(ordered, latest.metadata.name, spec, latest)


def _to(
    ordered: tuple[ControllerRevision, ...], target: ControllerRevision, spec: RayClusterSpec
) -> Revisions:
    return Revisions(ordered, target.metadata.name, restored(spec, target.data), target)


def _of_running_head(
    snapshot: ClusterSnapshot, ordered: tuple[ControllerRevision, ...]
) -> ControllerRevision | None:
    heads = (pod for pod in snapshot.head_pods if not is_terminating(pod))
    head = next(heads, None)
    return revision_of(ordered, head) if head is not None else None
