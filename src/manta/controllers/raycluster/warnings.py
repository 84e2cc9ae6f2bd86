"""Events that tell of no action: the spec is wrong, or not what its author may think."""

from __future__ import annotations

from collections.abc import Iterator

from manta.controllers.raycluster.planners.autoscaler_rbac import missing_account
from manta.controllers.raycluster.planners.certificates import expiring, outdated, unissued
from manta.controllers.raycluster.planners.gcs_storage import claim_drift
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.reconcile.events import Told
from manta.rules.advice import cluster_advice
from manta.rules.validation.violation import Violation, sentence

_NAME, _STATUS, _SPEC = (
    "InvalidRayClusterMetadata",
    "InvalidRayClusterStatus",
    "InvalidRayClusterSpec",
)


def warnings(seen: ClusterSnapshot) -> list[Told]:
    """What is wrong, as it stands; told once for every generation and every new trouble."""
    if seen.violations:
        return list(_invalid(seen.violations))
    return [*_obstacles(seen), *_advice(seen)]


def invalid_reason(violations: tuple[Violation, ...]) -> str:
    """The reason of the first violation."""
    return _reason(violations[0])


def _reason(violation: Violation) -> str:
    """KubeRay's: of the metadata it means the name alone. Annotations and labels say how to run the
    cluster, as the spec does."""
    if violation.field == "metadata.name":
        return _NAME
    return _STATUS if violation.field.startswith("status.") else _SPEC


def _invalid(violations: tuple[Violation, ...]) -> Iterator[Told]:
    for reason in (_NAME, _STATUS, _SPEC):
        found = [one for one in violations if _reason(one) == reason]
        if found:
            yield Told(
                "Warning", reason, "Validate", f"The RayCluster is invalid: {sentence(found)}"
            )


def _obstacles(seen: ClusterSnapshot) -> Iterator[Told]:
    account = missing_account(seen)
    if account:
        note = f"The head names ServiceAccount {account}, which does not exist: create it"
        yield Told("Warning", "AutoscalerServiceAccountNotFound", "Reconcile", note)
    if why := unissued(seen) or outdated(seen):
        yield Told("Warning", "MTLSCertsNotReady", "Reconcile", why)
    if why := expiring(seen):
        yield Told("Warning", "MTLSCertificateExpiringSoon", "Reconcile", why)
    drift = claim_drift(seen)
    if drift:
        yield Told("Warning", "FailedToCreatePVC", "Create", drift)


def _advice(seen: ClusterSnapshot) -> Iterator[Told]:
    for one in cluster_advice(seen.cluster.spec):
        yield Told("Warning", _SPEC, "Validate", str(one))
