"""The planners of a RayCluster, in their order. Nothing else is decided here."""

from __future__ import annotations

from manta.controllers.raycluster.planners.deletion import plan_deletion, plan_finalizer
from manta.controllers.raycluster.planners.pods import plan_pods
from manta.controllers.raycluster.planners.recreate import plan_recreate_upgrade
from manta.controllers.raycluster.planners.services import (
    plan_head_service,
    plan_headless_service,
    plan_serve_service,
)
from manta.controllers.raycluster.planners.suspension import plan_suspension
from manta.controllers.raycluster.planners.validity import plan_validity
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.plan import Plan, chain

PLANNERS = (
    plan_deletion,  # first: whatever is wrong with the spec, an object can always be deleted
    plan_validity,
    plan_finalizer,
    plan_serve_service,
    plan_head_service,
    plan_headless_service,
    plan_suspension,
    plan_recreate_upgrade,
    plan_pods,
)


def plan(seen: ClusterSnapshot) -> Plan:
    return chain(PLANNERS, seen)
