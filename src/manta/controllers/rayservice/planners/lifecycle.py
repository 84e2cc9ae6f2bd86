"""The beginning and the end: the finalizer, and giving everything back before it goes."""

from __future__ import annotations

from datetime import timedelta

from manta.api.ray import names
from manta.api.ray.resources import RAY_SERVICES
from manta.api.times import parse_time
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.planners.old_clusters import delete_clusters
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.controllers.rayservice.step import NO_STEP, Step
from manta.reconcile.actions import Patch
from manta.reconcile.plan import do

LONGEST_FAREWELL = timedelta(minutes=10)
"""A cluster that cannot end holds its RayService no longer than this: twice what it may take to
clean up its Redis. The garbage collector still has the cluster on its list."""


def begin(seen: ServiceSnapshot) -> Step:
    kept = [*seen.service.metadata.finalizers, names.FINALIZER_RAY_SERVICE]
    return Step(do(_finalizers(seen, kept, Cause.ADD_FINALIZER)))


def leave(seen: ServiceSnapshot) -> Step:
    """Being deleted: the clusters first, then the finalizer."""
    meta = seen.service.metadata
    if names.FINALIZER_RAY_SERVICE not in meta.finalizers:
        return NO_STEP
    assert meta.deletion_timestamp is not None
    waited = seen.now - parse_time(meta.deletion_timestamp)
    if seen.clusters and waited < LONGEST_FAREWELL:
        deletions = delete_clusters(seen, "the RayService is deleted")
        return Step(do(*deletions), timer=LONGEST_FAREWELL - waited)
    kept = [name for name in meta.finalizers if name != names.FINALIZER_RAY_SERVICE]
    return Step(do(_finalizers(seen, kept, Cause.REMOVE_FINALIZER)))


def _finalizers(seen: ServiceSnapshot, kept: list[str], cause: Cause) -> Patch:
    meta = seen.service.metadata
    return Patch(
        RAY_SERVICES,
        meta.key,
        {"metadata": {"finalizers": kept or None}},
        cause,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )
