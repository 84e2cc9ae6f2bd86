"""The PodDisruptionBudget that keeps a protected head from being evicted."""

from __future__ import annotations

from typing import Any

from manta.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from manta.api.resources import POD_DISRUPTION_BUDGETS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import is_ours
from manta.controllers.raycluster.planners.ensure import correct, ensure, metadata_drift
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.draining import build_head_pdb
from manta.reconcile.actions import Create, Delete
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.traits import protects_head


def plan_head_pdb(snapshot: ClusterSnapshot) -> Plan:
    """No Pod needs it to start, so a failure stops nothing else."""
    live = snapshot.head_pdb
    if not protects_head(snapshot.cluster.metadata.annotations):
        return _remove(snapshot, live)
    if not snapshot.pdbs_listed and (snapshot.head_pods or snapshot.is_suspended):
        return NOTHING  # not listed yet; only a new head cannot wait for the list
    manifest = build_head_pdb(snapshot.cluster)
    cause = Cause.HEAD_BUDGET
    plan = ensure(snapshot, Create(POD_DISRUPTION_BUDGETS, manifest, cause), live, independent=True)
    if plan != NOTHING or live is None:
        return plan
    change = metadata_drift(manifest["metadata"], live.metadata)
    change |= _spec_drift(manifest["spec"], live.spec)
    why, cause = "it did not protect the head", Cause.HEAD_BUDGET_DRIFT
    return correct(snapshot, POD_DISRUPTION_BUDGETS, live, change, cause, why, independent=True)


def _remove(snapshot: ClusterSnapshot, live: PodDisruptionBudget | None) -> Plan:
    if live is None or not is_ours(snapshot, live):
        return NOTHING
    meta, why = live.metadata, "the head is no longer protected"
    delete = Delete(POD_DISRUPTION_BUDGETS, meta.key, meta.uid, Cause.STALE_BUDGET, why)
    return do(delete, independent=True)


def _spec_drift(wanted: dict[str, Any], live: PodDisruptionBudgetSpec) -> dict[str, Any]:
    """A selector with more labels than ours selects fewer Pods, so extra labels are drift."""
    drift: dict[str, Any] = {}
    if (live.min_available, live.max_unavailable) != (wanted["minAvailable"], None):
        drift |= {"minAvailable": wanted["minAvailable"], "maxUnavailable": None}
    if live.selector != wanted["selector"]:
        labels = wanted["selector"]["matchLabels"]
        more = dict.fromkeys(live.selector.get("matchLabels") or {})
        drift["selector"] = {"matchLabels": {**more, **labels}, "matchExpressions": None}
    return {"spec": drift} if drift else {}
