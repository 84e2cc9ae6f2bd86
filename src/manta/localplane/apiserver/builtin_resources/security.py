"""RBAC, and the reviews: questions about identity and permissions that are answered and not stored."""

from __future__ import annotations

from typing import Final

from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.builtin_kinds.checks import cluster
from manta.localplane.apiserver.builtin_kinds.checks.rules import Check
from manta.localplane.apiserver.builtin_kinds.defaults import objects
from manta.localplane.apiserver.builtin_kinds.names import path_segment_errors
from manta.localplane.apiserver.builtin_resources.registration import builtin
from manta.localplane.apiserver.tables import cluster as cells
from manta.localplane.apiserver.tables.columns import table

_REVIEWS: Final = (
    ("authentication.k8s.io/v1/selfsubjectreviews", "SelfSubjectReview"),
    ("authentication.k8s.io/v1/tokenreviews", "TokenReview"),
    ("authorization.k8s.io/v1/localsubjectaccessreviews", "LocalSubjectAccessReview"),
    ("authorization.k8s.io/v1/selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    ("authorization.k8s.io/v1/selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ("authorization.k8s.io/v1/subjectaccessreviews", "SubjectAccessReview"),
)


def _role(plural: str, kind: str, check: Check, *, namespaced: bool = True) -> ApiResource:
    return builtin(
        f"rbac.authorization.k8s.io/v1/{plural}",
        kind,
        namespaced=namespaced,
        check=check,
        check_name=path_segment_errors,
        shallow=True,
        allow_create_on_update=True,
        table=table("Name, Created At", cells.role_cells),
    )


def _binding(plural: str, kind: str, check: Check, *, namespaced: bool = True) -> ApiResource:
    return builtin(
        f"rbac.authorization.k8s.io/v1/{plural}",
        kind,
        namespaced=namespaced,
        set_defaults=objects.default_binding,
        check=check,
        check_name=path_segment_errors,
        allow_create_on_update=True,
        table=table("Name, Role, Age, *Users, *Groups, *ServiceAccounts", cells.role_binding_cells),
    )


SECURITY: Final[tuple[ApiResource, ...]] = (
    _binding(
        "clusterrolebindings",
        "ClusterRoleBinding",
        cluster.check_cluster_role_binding,
        namespaced=False,
    ),
    _role("clusterroles", "ClusterRole", cluster.check_cluster_role, namespaced=False),
    _binding("rolebindings", "RoleBinding", cluster.check_role_binding),
    _role("roles", "Role", cluster.check_role),
    *(
        builtin(path, kind, namespaced=kind.startswith("Local"), verbs=("create",))
        for path, kind in _REVIEWS
    ),
)
