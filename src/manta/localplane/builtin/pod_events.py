"""The Events of created and deleted Pods that DaemonSets, Jobs and ReplicaSets share."""

from __future__ import annotations

from manta.reconcile.causes import Reasons

POD_CREATED = Reasons(
    "Create",
    "SuccessfulCreate",
    "FailedCreate",
    "Created pod: {key.name}",
    "Error creating: {error}",
)
POD_DELETED = Reasons(
    "Delete",
    "SuccessfulDelete",
    "FailedDelete",
    "Deleted pod: {key.name}",
    "Error deleting: {error}",
)
