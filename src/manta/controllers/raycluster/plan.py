"""The planners of a RayCluster, in their order."""

from __future__ import annotations

from manta.api.ray.cluster import RayClusterStatus
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
from manta.controllers.raycluster.planners.head_pdb import plan_head_pdb
from manta.controllers.raycluster.planners.ingress import plan_ingress
from manta.controllers.raycluster.planners.lost_pods import plan_lost_pods
from manta.controllers.raycluster.planners.network_policy import plan_network_policies
from manta.controllers.raycluster.planners.pods import plan_pods
from manta.controllers.raycluster.planners.recreate import plan_recreate_upgrade
from manta.controllers.raycluster.planners.revisions import plan_revision, plan_rollout_records
from manta.controllers.raycluster.planners.services import (
    plan_head_service,
    plan_headless_service,
    plan_serve_service,
)
from manta.controllers.raycluster.planners.suspension import plan_suspension
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.plan import NOTHING, Plan, Wait, merge
from manta.reconcile.step import Step, chain
from manta.rules.validation.violation import violations_message


def plan_validity(snapshot: ClusterSnapshot) -> Plan:
    if not snapshot.violations:
        return NOTHING
    return Plan(wait=Wait(violations_message(snapshot.violations)))


SUPPORT_PLANNERS = (
    plan_ingress,
    plan_serve_service,
    plan_autoscaler_rbac,
    plan_head_service,
    plan_headless_service,
    plan_gcs_storage,
    plan_network_policies,
    plan_head_pdb,
    plan_certificates,
    plan_awaited_auth_secret,
)


def plan_support(snapshot: ClusterSnapshot) -> Plan:
    """Objects that Pods need before they start. They do not depend on each other, so they are created
    together. Optional ones (`independent`) come first and may fail alone."""
    plans = [planner(snapshot) for planner in SUPPORT_PLANNERS]
    optional = merge(one for one in plans if one.stages and one.stages[0].independent)
    needed = merge(one for one in plans if not (one.stages and one.stages[0].independent))
    return optional.then(needed)


PLANNERS = (
    plan_lost_pods,  # before planners that wait for these Pods to be gone
    plan_deletion,  # early: also an object with an invalid spec can be deleted
    plan_validity,
    plan_finalizer,
    plan_support,
    plan_suspension,
    plan_recreate_upgrade,
    plan_revision,
    plan_rollout_records,
    plan_gang,
    plan_trust,
    plan_pods,
    plan_secret_owners,
)


def plan(snapshot: ClusterSnapshot) -> Step[RayClusterStatus]:
    return chain(PLANNERS, snapshot)
