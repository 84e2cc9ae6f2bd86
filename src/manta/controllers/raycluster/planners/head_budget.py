"""The budget that keeps a protected head from being evicted: made, kept true, and taken back."""

from __future__ import annotations

from typing import Any

from manta.api.policy import PodDisruptionBudget, PodDisruptionBudgetSpec
from manta.api.resources import POD_DISRUPTION_BUDGETS
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.planners.ensure import ensure, is_ours, mend, metadata_drift
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.manifests.draining import build_head_budget
from manta.reconcile.actions import Delete
from manta.reconcile.plan import NOTHING, Plan, do
from manta.rules.traits import protects_head


def plan_head_budget(seen: ClusterSnapshot) -> Plan:
    """No Pod needs it to start, so a refusal stops nothing else."""
    live = seen.head_budget
    if not protects_head(seen.cluster.metadata.annotations):
        return _take_back(seen, live)
    if not seen.knows_budgets and (seen.head_pods or seen.is_resting):
        return NOTHING  # the first list is on its way; only a head that is new cannot wait
    manifest = build_head_budget(seen.cluster)
    cause = Cause.HEAD_BUDGET
    plan = ensure(seen, POD_DISRUPTION_BUDGETS, manifest, live, cause, independent=True)
    if plan != NOTHING or live is None:
        return plan
    change = metadata_drift(manifest["metadata"], live.metadata)
    change |= _spec_drift(manifest["spec"], live.spec)
    why, cause = "it did not protect the head", Cause.HEAD_BUDGET_DRIFT
    return mend(seen, POD_DISRUPTION_BUDGETS, live, change, cause, why, independent=True)


def _take_back(seen: ClusterSnapshot, live: PodDisruptionBudget | None) -> Plan:
    if live is None or not is_ours(seen, live):
        return NOTHING
    meta, why = live.metadata, "the head is no longer to be protected"
    delete = Delete(POD_DISRUPTION_BUDGETS, meta.key, meta.uid, Cause.STALE_BUDGET, why)
    return do(delete, independent=True)


def _spec_drift(wanted: dict[str, Any], live: PodDisruptionBudgetSpec) -> dict[str, Any]:
    """A selector that asks for more than ours selects less, so that more is drift here."""
    drift: dict[str, Any] = {}
    if (live.min_available, live.max_unavailable) != (wanted["minAvailable"], None):
        drift |= {"minAvailable": wanted["minAvailable"], "maxUnavailable": None}
    if live.selector != wanted["selector"]:
        labels = wanted["selector"]["matchLabels"]
        more = dict.fromkeys(live.selector.get("matchLabels") or {})
        drift["selector"] = {"matchLabels": {**more, **labels}, "matchExpressions": None}
    return {"spec": drift} if drift else {}
