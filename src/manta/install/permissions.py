"""The permissions of the operator: one table for the chart, `manta install` and `manta up`.

`tests/cluster/test_permissions.py` compares it with the recorded requests of an operator: none lacks a
permission, and no permission is unused.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from manta.operator.feature_gates import enabled_gates
from manta.rules.settings import FeatureGates


@dataclass(frozen=True, slots=True)
class Permission:
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    when: str = ""
    """The setting or feature gate that needs it; empty: always."""
    held_for: str = ""
    """Why it is granted although no request of the operator uses it."""

    @property
    def rule(self) -> dict[str, Any]:
        return {
            "apiGroups": [self.group],
            "resources": list(self.resources),
            "verbs": list(self.verbs),
        }


READ = ("get", "list", "watch")

PROXY = "useKubernetesProxy"
"""The setting that sends requests to Ray through the API server."""
MTLS = "RayClusterMTLS"
INCREMENTAL = "RayServiceIncrementalUpgrade"
WAS = "KubernetesWAS"
STORAGE = "GCSFaultToleranceEmbeddedStorage"
OPENSHIFT = "openshift"
"""An API server with Routes."""


def _may(group: str, resources: str, *verbs: str, when: str = "", held_for: str = "") -> Permission:
    return Permission(group, tuple(resources.split()), verbs, when, held_for)


def _sub(kinds: str, name: str) -> str:
    return " ".join(f"{kind}/{name}" for kind in kinds.split())


RAY_KINDS = "rayclusters rayjobs rayservices"
CRON, CRON_GATE = "raycronjobs", "RayCronJob"
GATEWAY = "gateway.networking.k8s.io"
TO_GRANT = "an account can grant only what it has, and the autoscaler's Role gets this"
TO_OWN = (
    "the admission plugin OwnerReferencesPermissionEnforcement requires it for owner references"
)
TO_SHOW_FAILURES = "a reconcile that raises is shown in a condition without the code that raised"
POD_GROUPS = ("podgroups", *READ, "create", "patch")

PERMISSIONS: tuple[Permission, ...] = (
    _may("", "pods", *READ, "create", "delete", "patch"),
    _may("", "nodes", "get"),
    _may("", "services", *READ, "create", "delete", "patch"),
    _may("", "serviceaccounts", *READ, "create"),
    _may("", "secrets", "get", "create"),
    _may("", "pods/resize", "patch", held_for=TO_GRANT),
    _may("ray.io", "rayclusters rayjobs", *READ, "create", "delete", "patch"),
    _may("ray.io", "rayservices", *READ, "patch"),
    _may("ray.io", _sub(RAY_KINDS, "status"), "update"),
    _may("ray.io", _sub(RAY_KINDS, "status"), "patch", held_for=TO_SHOW_FAILURES),
    _may("ray.io", _sub(RAY_KINDS, "finalizers"), "update", held_for=TO_OWN),
    _may("batch", "jobs", *READ, "create", "delete"),
    _may("rbac.authorization.k8s.io", "roles", *READ, "create", "patch"),
    _may("rbac.authorization.k8s.io", "rolebindings", *READ, "create", "delete", "patch"),
    _may("networking.k8s.io", "ingresses", *READ, "create", "patch"),
    _may("apps", "controllerrevisions", *READ, "create", "delete", "patch"),
    _may("policy", "poddisruptionbudgets", *READ, "create", "delete", "patch"),
    _may("discovery.k8s.io", "endpointslices", "list", "watch"),
    _may("", "events", "create", "patch"),
    _may("", "services/proxy", "get", "create", "update", when=PROXY),
    _may("", "pods/proxy", "get", when=PROXY),
    _may("ray.io", CRON, *READ, when=CRON_GATE),
    _may("ray.io", f"{CRON}/status", "update", when=CRON_GATE),
    _may("ray.io", f"{CRON}/status", "patch", when=CRON_GATE, held_for=TO_SHOW_FAILURES),
    _may("ray.io", f"{CRON}/finalizers", "update", when=CRON_GATE, held_for=TO_OWN),
    _may(GATEWAY, "gateways httproutes", *READ, "create", "delete", "patch", when=INCREMENTAL),
    _may("", "persistentvolumeclaims", *READ, "create", "patch", when=STORAGE),
    _may(
        "networking.k8s.io",
        "networkpolicies",
        *(*READ, "create", "delete", "patch"),
        when="RayClusterNetworkPolicy",
    ),
    _may("route.openshift.io", "routes", *READ, "create", "patch", when=OPENSHIFT),
    _may("cert-manager.io", "issuers", *READ, "create", when=MTLS),
    _may("cert-manager.io", "certificates", *READ, "create", "patch", when=MTLS),
    _may("cert-manager.io", "certificates/finalizers", "update", when=MTLS, held_for=TO_OWN),
    _may("", "secrets", "patch", when=MTLS),
    _may("scheduling.volcano.sh", *POD_GROUPS, when="volcano"),
    _may("scheduling.x-k8s.io", *POD_GROUPS, when="scheduler-plugins"),
    _may("scheduling.k8s.io", *POD_GROUPS, "delete", when=WAS),
    _may("scheduling.k8s.io", "workloads", *READ, "create", "delete", when=WAS),
)

LEASE_PERMISSIONS: tuple[Permission, ...] = (
    _may("coordination.k8s.io", "leases", "create", "get", "update"),
)
"""For the Lease of the leader election, in the operator's namespace only."""


def default_features() -> frozenset[str]:
    """The gates that are on by default."""
    return frozenset(enabled_gates(FeatureGates()))


def rules(features: Iterable[str]) -> list[dict[str, Any]]:
    """The rules of the operator's Role with these settings and gates."""
    on = {"", *features}
    chosen = sorted((one for one in PERMISSIONS if one.when in on), key=lambda one: one.when)
    return [one.rule for one in chosen]
