"""Network policies: created, corrected, and deleted when they are no longer wanted."""

from __future__ import annotations

from typing import Any

from manta.api.codec import to_json
from manta.api.networking import NetworkPolicy
from manta.api.resources import NETWORK_POLICIES
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import stale_policies, wanted_policies
from manta.controllers.raycluster.planners.ensure import correct, ensure, holds, metadata_drift
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.actions import Create, Delete, Manifest
from manta.reconcile.plan import NOTHING, Plan, do, merge


def plan_network_policies(snapshot: ClusterSnapshot) -> Plan:
    """Before the Pods, so that a cluster is isolated before it listens."""
    if not snapshot.settings.gates.ray_cluster_network_policy:
        return NOTHING
    wanted = {one["metadata"]["name"]: one for one in wanted_policies(snapshot)}
    live = {one.metadata.name: one for one in snapshot.network_policies}
    why = "it is no longer wanted"
    deletions = [
        Delete(NETWORK_POLICIES, one.metadata.key, one.metadata.uid, Cause.STALE_POLICY, why)
        for one in stale_policies(snapshot)
        if snapshot.is_edited  # else an older CRD may prune the field: stay isolated
    ]
    kept = [_keep(snapshot, manifest, live.get(name)) for name, manifest in wanted.items()]
    return merge([*kept, do(*deletions)])


def _keep(snapshot: ClusterSnapshot, manifest: Manifest, live: NetworkPolicy | None) -> Plan:
    plan = ensure(snapshot, Create(NETWORK_POLICIES, manifest, Cause.NETWORK_POLICY), live)
    if plan != NOTHING or live is None:
        return plan
    change = metadata_drift(manifest["metadata"], live.metadata)
    change |= _spec_drift(manifest["spec"], to_json(live.spec))
    why = "it differed from what the RayCluster asks for"
    return correct(snapshot, NETWORK_POLICIES, live, change, Cause.NETWORK_POLICY_DRIFT, why)


def _spec_drift(wanted: dict[str, Any], live: dict[str, Any]) -> dict[str, Any]:
    """A selector with more labels than ours selects fewer Pods, and the others are open: extra labels are drift."""
    drift = {
        name: wanted.get(name)
        for name in ("policyTypes", "ingress", "egress")
        if not holds(live.get(name, []), wanted.get(name, []))
    }
    selector = live.get("podSelector") or {}
    if selector != wanted["podSelector"]:
        more = dict.fromkeys(selector.get("matchLabels") or {})
        labels = wanted["podSelector"]["matchLabels"]
        drift["podSelector"] = {"matchLabels": {**more, **labels}, "matchExpressions": None}
    return {"spec": drift} if drift else {}
