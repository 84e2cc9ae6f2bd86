"""An invalid RayCluster is told so and otherwise left exactly as it is."""

from __future__ import annotations

from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.plan import NOTHING, Plan, Wait
from manta.rules.validation.violation import sentence


def plan_validity(seen: ClusterSnapshot) -> Plan:
    if not seen.violations:
        return NOTHING
    return Plan(wait=Wait(sentence(seen.violations)))
