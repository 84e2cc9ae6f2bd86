"""Network policies: made, kept true, and removed when they are no longer asked for."""

from __future__ import annotations

from typing import Any

from manta.api.codec import to_json
from manta.api.networking import NetworkPolicy
from manta.api.resources import NETWORK_POLICIES
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.ensure import (
    ensure,
    holds,
    is_ours,
    mend,
    metadata_drift,
)
from manta.controllers.raycluster.planners.joining import join
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.network_policy import build_network_policies
from manta.reconcile.actions import Delete, Manifest
from manta.reconcile.plan import NOTHING, Plan, do


def plan_network_policies(seen: ClusterSnapshot) -> Plan:
    """Before the Pods: a cluster that is to be closed is closed before it listens."""
    if not seen.settings.gates.ray_cluster_network_policy:
        return NOTHING
    wanted = {one["metadata"]["name"]: one for one in _wanted(seen)}
    live = {one.metadata.name: one for one in seen.network_policies}
    why = "it is no longer asked for"
    deletions = [
        Delete(NETWORK_POLICIES, one.metadata.key, one.metadata.uid, Cause.STALE_POLICY, why)
        for one in _stale(seen)
        if seen.is_edited  # else an older CRD hides that it is asked for: the cluster stays closed
    ]
    kept = [_keep(seen, manifest, live.get(name)) for name, manifest in wanted.items()]
    return join([*kept, do(*deletions)])


def _wanted(seen: ClusterSnapshot) -> list[Manifest]:
    return [*build_network_policies(seen.cluster, seen.settings, seen.head)]


def awaits_fewer_policies(seen: ClusterSnapshot) -> bool:
    """As with a recreation, an edit does not count as observed before they are gone."""
    gate = seen.settings.gates.ray_cluster_network_policy
    return gate and seen.is_edited and bool(_stale(seen))


def _stale(seen: ClusterSnapshot) -> list[NetworkPolicy]:
    wanted = {one["metadata"]["name"] for one in _wanted(seen)}
    policies = seen.network_policies
    return [one for one in policies if one.metadata.name not in wanted and is_ours(seen, one)]


def _keep(seen: ClusterSnapshot, manifest: Manifest, live: NetworkPolicy | None) -> Plan:
    plan = ensure(seen, NETWORK_POLICIES, manifest, live, Cause.NETWORK_POLICY)
    if plan != NOTHING or live is None:
        return plan
    change = metadata_drift(manifest["metadata"], live.metadata)
    change |= _spec_drift(manifest["spec"], to_json(live.spec))
    why = "it differed from what the RayCluster asks for"
    return mend(seen, NETWORK_POLICIES, live, change, Cause.NETWORK_POLICY_DRIFT, why)


def _spec_drift(wanted: dict[str, Any], live: dict[str, Any]) -> dict[str, Any]:
    fields = ("podSelector", "policyTypes", "ingress", "egress")
    drift = {
        name: wanted.get(name)
        for name in fields
        if not holds(live.get(name, []), wanted.get(name, []))
    }
    return {"spec": drift} if drift else {}
