"""Events that no action leaves behind: the spec is invalid, or has a likely mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from manta.api.conditions import find
from manta.api.ray.cluster import ClusterConditionType, RayClusterStatus
from manta.controllers.raycluster.facts import (
    claim_drift,
    expiring_certificates,
    missing_account,
    missing_certificates,
    outdated_certificates,
)
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.events import Event
from manta.rules.advice import cluster_advice
from manta.rules.validation.violation import Violation, violations_message

INVALID_REASONS: Final = (
    "InvalidRayClusterMetadata",
    "InvalidRayClusterStatus",
    "InvalidRayClusterSpec",
)
_NAME, _STATUS, _SPEC = INVALID_REASONS


def status_events(snapshot: ClusterSnapshot, new: RayClusterStatus) -> list[Event]:
    """Warnings about the spec, once for every generation and every new blockage (C33)."""
    before = find(snapshot.cluster.status.conditions, ClusterConditionType.BLOCKED)
    after = find(new.conditions, ClusterConditionType.BLOCKED)
    is_blocked = after is not None and (before is None or before.message != after.message)
    return spec_warnings(snapshot) if is_blocked or has_new_warnings(snapshot) else []


def has_new_warnings(snapshot: ClusterSnapshot) -> bool:
    """Whether this generation has warnings and none was recorded: the generation is written to the
    status together with the Events."""
    meta, old = snapshot.cluster.metadata, snapshot.cluster.status
    return old.observed_generation != meta.generation and bool(spec_warnings(snapshot))


def spec_warnings(snapshot: ClusterSnapshot) -> list[Event]:
    if snapshot.violations:
        return list(_invalid(snapshot.violations))
    return [*_obstacles(snapshot), *_advice(snapshot)]


def invalid_reason(violations: tuple[Violation, ...]) -> str:
    """The reason of the first violation."""
    return _reason(violations[0])


def _reason(violation: Violation) -> str:
    """As in KubeRay, only the name counts as metadata; annotations and labels configure the cluster
    as the spec does."""
    if violation.field == "metadata.name":
        return _NAME
    return _STATUS if violation.field.startswith("status.") else _SPEC


def _invalid(violations: tuple[Violation, ...]) -> Iterator[Event]:
    for reason in (_NAME, _STATUS, _SPEC):
        found = [one for one in violations if _reason(one) == reason]
        if found:
            yield Event(
                "Warning",
                reason,
                "Validate",
                f"The RayCluster is invalid: {violations_message(found)}",
            )


def _obstacles(snapshot: ClusterSnapshot) -> Iterator[Event]:
    account = missing_account(snapshot)
    if account:
        note = f"The head names ServiceAccount {account}, which does not exist: create it"
        yield Event("Warning", "AutoscalerServiceAccountNotFound", "Reconcile", note)
    if why := missing_certificates(snapshot) or outdated_certificates(snapshot):
        yield Event("Warning", "MTLSCertsNotReady", "Reconcile", why)
    if why := expiring_certificates(snapshot):
        yield Event("Warning", "MTLSCertificateExpiringSoon", "Reconcile", why)
    drift = claim_drift(snapshot)
    if drift:
        yield Event("Warning", "FailedToCreatePVC", "Create", drift)


def _advice(snapshot: ClusterSnapshot) -> Iterator[Event]:
    for one in cluster_advice(snapshot.cluster.spec):
        yield Event("Warning", _SPEC, "Validate", str(one))
