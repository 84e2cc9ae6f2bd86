"""Suspension. Once begun it is completed, even if `spec.suspend` becomes false meanwhile.

The status names no cluster any more before one is deleted, and the Services, the HTTPRoute and the
Gateway are deleted before the clusters behind them (C54).
"""

from __future__ import annotations

from datetime import timedelta

from manta.api.resources import SERVICES
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.planners.gateway import delete_gateway_objects
from manta.controllers.rayservice.planners.old_clusters import delete_clusters
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.controllers.rayservice.status_changes import ServiceStep
from manta.reconcile.actions import Delete
from manta.reconcile.plan import do
from manta.reconcile.step import Step

WHY = "the RayService is suspended"
RECHECK_AFTER = timedelta(seconds=2)


def plan_suspension(snapshot: ServiceSnapshot) -> ServiceStep:
    entrances = (*delete_gateway_objects(snapshot, WHY), *_services(snapshot))
    clusters = delete_clusters(snapshot, WHY)
    # Gateway and HTTPRoute may not be watched: read them again to see that they are gone.
    wake_in = RECHECK_AFTER if snapshot.gateway or snapshot.route else None
    return Step(do(*entrances).then(do(*clusters)), wake_in=wake_in)


def _services(snapshot: ServiceSnapshot) -> list[Delete]:
    return [
        Delete(SERVICES, one.metadata.key, one.metadata.uid, Cause.DELETE_SERVICE, WHY)
        for one in snapshot.own_services
        if one.metadata.deletion_timestamp is None
    ]
