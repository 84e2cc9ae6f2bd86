"""A canary behind a Gateway: the HTTPRoute has the exact weights, besides the Pods behind the one Service."""

from __future__ import annotations

from manta.controllers.rayservice.facts.canary import (
    able_weight,
    canary_obstacle,
    is_shared,
    progress,
    worker_groups,
)
from manta.controllers.rayservice.facts.clusters import is_rolling_back
from manta.controllers.rayservice.facts.rollout import routed_weight
from manta.controllers.rayservice.planners.gateway import plan_gateway, plan_route
from manta.controllers.rayservice.planners.services import plan_cluster_serve_service
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.reconcile.plan import NOTHING, Plan
from manta.rules.canary import FULL


def plan_canary_route(snapshot: ServiceSnapshot, *, is_over: bool = False) -> Plan:
    """Gateway, HTTPRoute, and the Service of each cluster; nothing without a class of the Gateway.

    `is_over`: the new cluster has all requests.
    """
    active, pending = snapshot.active, snapshot.pending
    if not snapshot.gateway_class or active is None:
        return NOTHING
    plan = plan_gateway(snapshot).then(plan_cluster_serve_service(snapshot, active))
    if pending is None or pending.is_deleting:
        return plan.then(plan_route(snapshot, FULL, None))
    weight = FULL if is_over else _weight(snapshot, pending)
    plan = plan.then(plan_cluster_serve_service(snapshot, pending))
    return plan.then(plan_route(snapshot, FULL - weight, weight))


def _weight(snapshot: ServiceSnapshot, pending: ClusterView) -> int:
    """The weight of the new cluster: that of the step, as far as its workers reach."""
    if is_rolling_back(snapshot) or not is_shared(snapshot):
        return 0
    if canary_obstacle(snapshot):  # as before, until it can take more
        return routed_weight(snapshot.route, pending.name) or 0
    return able_weight(worker_groups(snapshot), progress(snapshot).weight)
