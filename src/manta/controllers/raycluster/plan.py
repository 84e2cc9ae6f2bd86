"""The planners of a RayCluster, in their order. Nothing else is decided here."""

from __future__ import annotations

from manta.controllers.raycluster.planners.auth_secret import plan_awaited_auth_secret
from manta.controllers.raycluster.planners.autoscaler_rbac import plan_autoscaler_rbac
from manta.controllers.raycluster.planners.certificates import (
    plan_certificates,
    plan_secret_owners,
    plan_trust,
)
from manta.controllers.raycluster.planners.deletion import plan_deletion, plan_finalizer
from manta.controllers.raycluster.planners.gang import plan_gang
from manta.controllers.raycluster.planners.gcs_storage import plan_gcs_storage
from manta.controllers.raycluster.planners.head_budget import plan_head_budget
from manta.controllers.raycluster.planners.ingress import plan_ingress
from manta.controllers.raycluster.planners.joining import join
from manta.controllers.raycluster.planners.lost_pods import plan_lost_pods
from manta.controllers.raycluster.planners.network_policy import plan_network_policies
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

SURROUNDINGS = (
    plan_ingress,
    plan_serve_service,
    plan_autoscaler_rbac,
    plan_head_service,
    plan_headless_service,
    plan_gcs_storage,
    plan_network_policies,
    plan_head_budget,
    plan_certificates,
    plan_awaited_auth_secret,
)


def plan_surroundings(seen: ClusterSnapshot) -> Plan:
    """What Pods need before they start. These do not need each other, so they are made together;
    what no Pod needs (`independent`) goes ahead and may fail alone."""
    plans = [planner(seen) for planner in SURROUNDINGS]
    optional = join(one for one in plans if one.stages and one.stages[0].independent)
    needed = join(one for one in plans if not (one.stages and one.stages[0].independent))
    return optional.then(needed)


PLANNERS = (
    plan_lost_pods,  # before all that waits for them to be gone
    plan_deletion,  # early: whatever is wrong with the spec, an object can always be deleted
    plan_validity,
    plan_finalizer,
    plan_surroundings,
    plan_suspension,
    plan_recreate_upgrade,
    plan_gang,
    plan_trust,
    plan_pods,
    plan_secret_owners,
)


def plan(seen: ClusterSnapshot) -> Plan:
    return chain(PLANNERS, seen)
