"""The finalizer: added first, and removed after the clusters of a deleted RayService are gone."""

from __future__ import annotations

from datetime import timedelta

from manta.api.ray.names import FINALIZER_RAY_SERVICE
from manta.api.ray.resources import RAY_SERVICES
from manta.api.times import parse_time
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.planners.old_clusters import delete_clusters
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.controllers.rayservice.status_changes import ServiceStep
from manta.reconcile.finalizers import add_finalizer, remove_finalizer
from manta.reconcile.plan import Plan, do
from manta.reconcile.step import Step

MAX_DELETION_WAIT = timedelta(minutes=10)
"""After this time the finalizer is removed even if a cluster still exists; the garbage collector deletes
the cluster later. It is twice the time limit of the cleanup of Redis."""


def initialize(snapshot: ServiceSnapshot) -> Plan:
    meta = snapshot.service.metadata
    return do(add_finalizer(RAY_SERVICES, meta, FINALIZER_RAY_SERVICE, Cause.ADD_FINALIZER))


def finalize(snapshot: ServiceSnapshot) -> ServiceStep:
    """Delete the clusters, then remove the finalizer."""
    meta = snapshot.service.metadata
    if FINALIZER_RAY_SERVICE not in meta.finalizers:
        return Step()
    assert meta.deletion_timestamp is not None
    left = parse_time(meta.deletion_timestamp) + MAX_DELETION_WAIT - snapshot.now
    if snapshot.clusters and left > timedelta(0):
        deletions = delete_clusters(snapshot, "the RayService is deleted")
        return Step(do(*deletions), wake_in=left)
    cause = Cause.REMOVE_FINALIZER
    return Step(do(remove_finalizer(RAY_SERVICES, meta, FINALIZER_RAY_SERVICE, cause)))
