"""The Events of the Deployment controller: one line per cause. An empty reason is not told, on purpose."""

from __future__ import annotations

from manta.localplane.builtin.deployment.plan import Cause
from manta.reconcile.events import EventTable, Reasons

_SCALED = "ScalingReplicaSet"

EVENTS: EventTable = {
    Cause.NEW_TEMPLATE: Reasons(
        "Scale",
        _SCALED,
        "ReplicaSetCreateError",
        "Scaled up replica set {key.name} {why}",
        "Failed to create new replica set: {error}",
    ),
    Cause.SCALE_UP: Reasons("Scale", _SCALED, done_note="Scaled up replica set {key.name} {why}"),
    Cause.SCALE_DOWN: Reasons(
        "Scale", _SCALED, done_note="Scaled down replica set {key.name} {why}"
    ),
    Cause.REVISION: Reasons("Annotate"),
    Cause.HISTORY: Reasons("Delete"),
}
