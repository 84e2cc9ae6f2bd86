"""Suspend and resume. Atomic: once begun it goes through, whatever `spec.suspend` says meanwhile.

First it is said, then it is done: the status names no cluster any more before one is deleted, and
the ways in (Services, route) are closed before the clusters behind them go (C54).
"""

from __future__ import annotations

from manta.api.conditions import is_true
from manta.api.ray.service import ServiceConditionType
from manta.api.resources import GATEWAYS, HTTP_ROUTES, SERVICES
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.planners.old_clusters import delete_clusters
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.controllers.rayservice.step import Step
from manta.reconcile.actions import Delete
from manta.reconcile.plan import Wait, do

WHY = "the RayService is suspended"


def is_suspending(seen: ServiceSnapshot) -> bool:
    return is_true(seen.status.conditions, ServiceConditionType.SUSPENDING)


def is_suspended(seen: ServiceSnapshot) -> bool:
    return is_true(seen.status.conditions, ServiceConditionType.SUSPENDED)


def is_everything_gone(seen: ServiceSnapshot) -> bool:
    return not (seen.clusters or seen.own_services or seen.gateway or seen.route)


def plan_release(seen: ServiceSnapshot) -> Step:
    ways_in = [*_route(seen), *_services(seen), *_gateway(seen)]
    clusters = delete_clusters(seen, WHY)
    waits = Wait("everything to be gone")
    return Step(do(*ways_in).then(do(*clusters, wait=waits)))


def _services(seen: ServiceSnapshot) -> list[Delete]:
    return [
        Delete(SERVICES, one.metadata.key, one.metadata.uid, Cause.DELETE_SERVICE, WHY)
        for one in seen.own_services
        if one.metadata.deletion_timestamp is None
    ]


def _route(seen: ServiceSnapshot) -> list[Delete]:
    if seen.route is None or seen.route.metadata.deletion_timestamp is not None:
        return []
    meta = seen.route.metadata
    return [Delete(HTTP_ROUTES, meta.key, meta.uid, Cause.DELETE_ROUTE, WHY)]


def _gateway(seen: ServiceSnapshot) -> list[Delete]:
    if seen.gateway is None or seen.gateway.metadata.deletion_timestamp is not None:
        return []
    meta = seen.gateway.metadata
    return [Delete(GATEWAYS, meta.key, meta.uid, Cause.DELETE_GATEWAY, WHY)]
