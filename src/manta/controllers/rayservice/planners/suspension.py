"""Suspend and resume. Atomic: once begun it goes through, whatever `spec.suspend` says meanwhile.

First it is said, then it is done: the status names no cluster any more before one is deleted, and
the ways in (Services, route) are closed before the clusters behind them go (C54).
"""

from __future__ import annotations

from datetime import timedelta

from manta.api.conditions import is_true
from manta.api.ray.service import ServiceConditionType
from manta.api.resources import SERVICES
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.planners.gateway import closing
from manta.controllers.rayservice.planners.old_clusters import delete_clusters
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.controllers.rayservice.step import Step
from manta.reconcile.actions import Delete
from manta.reconcile.plan import do

WHY = "the RayService is suspended"
LOOK_AGAIN = timedelta(seconds=2)


def is_suspending(seen: ServiceSnapshot) -> bool:
    return is_true(seen.status.conditions, ServiceConditionType.SUSPENDING)


def is_suspended(seen: ServiceSnapshot) -> bool:
    return is_true(seen.status.conditions, ServiceConditionType.SUSPENDED)


def is_everything_gone(seen: ServiceSnapshot) -> bool:
    return not (seen.clusters or seen.own_services or seen.gateway or seen.route)


def plan_release(seen: ServiceSnapshot) -> Step:
    ways_in = (*closing(seen, WHY), *_services(seen))
    clusters = delete_clusters(seen, WHY)
    # Gateway and route are not watched: somebody must look whether they are gone.
    timer = LOOK_AGAIN if seen.gateway or seen.route else None
    return Step(do(*ways_in).then(do(*clusters)), timer=timer)


def _services(seen: ServiceSnapshot) -> list[Delete]:
    return [
        Delete(SERVICES, one.metadata.key, one.metadata.uid, Cause.DELETE_SERVICE, WHY)
        for one in seen.own_services
        if one.metadata.deletion_timestamp is None
    ]
