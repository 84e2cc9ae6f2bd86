"""Objects of an earlier RayCluster of the same name, which the new one waits for."""

from __future__ import annotations

from typing import Final

from manta.api.conditions import Blockage
from manta.api.core import Pod
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.times import parse_time
from manta.api.well_known import TAINT_OUT_OF_SERVICE
from manta.controllers.raycluster.facts import DELETION_GRACE, HasMetadata, is_ours, lost_because
from manta.controllers.raycluster.snapshot import ClusterSnapshot

REMAINS: Final = "EarlierObjectRemains"


def is_of_earlier_cluster(snapshot: ClusterSnapshot, live: HasMetadata) -> bool:
    owner, name = live.metadata.controller, snapshot.cluster.metadata.name
    if owner is None or is_ours(snapshot, live):
        return False
    return owner.kind == RAY_CLUSTERS.kind and owner.name == name


def remains(snapshot: ClusterSnapshot, kind: str, live: HasMetadata) -> Blockage | None:
    """Why it is still there, and the cure; None while it may go by itself."""
    meta = live.metadata
    since = meta.deletion_timestamp or snapshot.cluster.metadata.creation_timestamp
    if not since or snapshot.now < parse_time(since) + DELETION_GRACE:
        return None
    what = f"{kind} {meta.name} of an earlier RayCluster of this name"
    if isinstance(live, Pod) and live.spec.node_name:
        what += f" on node {live.spec.node_name}"
    if meta.deletion_timestamp is None:
        return Blockage(REMAINS, f"the garbage collector has not deleted {what}: delete it")
    cure = stuck_because(snapshot, live) if isinstance(live, Pod) else _kept_by(live)
    return Blockage(REMAINS, f"{what} is being deleted but does not go away: {cure}")


def _kept_by(live: HasMetadata) -> str:
    kept = ", ".join(live.metadata.finalizers)
    return f"it is kept by the finalizers {kept}" if kept else "delete it again"


def stuck_because(snapshot: ClusterSnapshot, pod: Pod) -> str:
    """What keeps a Pod that is stuck in deletion, or what lets it go."""
    if why := lost_because(snapshot, pod):
        return f"{why}, and {_kept_by(pod)}" if pod.metadata.finalizers else why
    return (
        "if its Node is shut down for good, delete the Node or taint it"
        f" {TAINT_OUT_OF_SERVICE}=nodeshutdown:NoExecute"
    )
