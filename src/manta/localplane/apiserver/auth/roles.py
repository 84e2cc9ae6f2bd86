"""The roles and bindings that every cluster has: who may look around, and who may do everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_ANNOTATIONS = {AUTOUPDATE: "true"}
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_API = "rbac.authorization.k8s.io/v1"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"

Object = dict[str, Any]

# What `view` reads, and which of it `edit` writes, group by group, as in Kubernetes 1.35. Neither writes
# Endpoints or EndpointSlices: whoever does chooses where a Service's connections go.
_VIEW: dict[str, list[str]] = {
    "": [
        "bindings",
        "configmaps",
        "endpoints",
        "events",
        "limitranges",
        "namespaces",
        "namespaces/status",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "pods/log",
        "pods/status",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "replicationcontrollers/status",
        "resourcequotas",
        "resourcequotas/status",
        "serviceaccounts",
        "services",
        "services/status",
    ],
    "apps": [
        "controllerrevisions",
        "daemonsets",
        "daemonsets/status",
        "deployments",
        "deployments/scale",
        "deployments/status",
        "replicasets",
        "replicasets/scale",
        "replicasets/status",
        "statefulsets",
        "statefulsets/scale",
        "statefulsets/status",
    ],
    "autoscaling": ["horizontalpodautoscalers", "horizontalpodautoscalers/status"],
    "batch": ["cronjobs", "cronjobs/status", "jobs", "jobs/status"],
    "discovery.k8s.io": ["endpointslices"],
    "events.k8s.io": ["events"],
    "networking.k8s.io": ["ingresses", "ingresses/status", "networkpolicies"],
    "policy": ["poddisruptionbudgets", "poddisruptionbudgets/status"],
}
_EDIT: dict[str, list[str]] = {
    "": [
        "configmaps",
        "events",
        "persistentvolumeclaims",
        "pods",
        "pods/attach",
        "pods/exec",
        "pods/portforward",
        "pods/proxy",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "secrets",
        "serviceaccounts",
        "services",
        "services/proxy",
    ],
    "apps": [
        "daemonsets",
        "deployments",
        "deployments/scale",
        "replicasets",
        "replicasets/scale",
        "statefulsets",
        "statefulsets/scale",
    ],
    "autoscaling": ["horizontalpodautoscalers"],
    "batch": ["cronjobs", "jobs"],
    "coordination.k8s.io": ["leases"],
    "events.k8s.io": ["events"],
    "networking.k8s.io": ["ingresses", "networkpolicies"],
    "policy": ["poddisruptionbudgets"],
}
_EDIT_READS: dict[str, list[str]] = {
    "": [
        "pods/attach",
        "pods/exec",
        "pods/portforward",
        "pods/proxy",
        "secrets",
        "services/proxy",
    ],
    "coordination.k8s.io": ["leases"],
}
_EDIT_CREATES = ["pods/eviction", "serviceaccounts/token"]
WITHDRAWN = frozenset(
    (
        ("", "endpoints"),
        ("", "pods/eviction"),
        ("", "pods/log"),
        ("", "serviceaccounts/token"),
        ("apps", "controllerrevisions"),
        ("discovery.k8s.io", "endpointslices"),
    )
)
"""What `system:aggregate-to-edit` of earlier versions wrote and today's does not."""


def _rule(group: str, resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _view() -> list[Object]:
    return [_rule(group, names, _READ) for group, names in _VIEW.items()]


def _edit() -> list[Object]:
    return [
        *(_rule(group, names, _READ) for group, names in _EDIT_READS.items()),
        *(_rule(group, names, _WRITE) for group, names in _EDIT.items()),
        _rule("", _EDIT_CREATES, ["create"]),
        _rule("", ["serviceaccounts"], ["impersonate"]),
    ]


def _admin() -> list[Object]:
    rbac = "rbac.authorization.k8s.io"
    return [
        _rule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
        _rule(rbac, ["roles", "rolebindings"], _READ + _WRITE),
    ]


def cluster_roles() -> Iterator[Object]:
    everything = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["*"], "verbs": ["*"]},
    ]
    yield _role("cluster-admin", everything)
    discovery = ["/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi"]
    discovery += ["/openapi/*", "/readyz", "/version", "/version/"]
    yield _role("system:discovery", [{"nonResourceURLs": discovery, "verbs": ["get"]}])
    public = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
    yield _role("system:public-info-viewer", [{"nonResourceURLs": public, "verbs": ["get"]}])
    self_reviews = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    yield _role(
        "system:basic-user",
        [
            _rule("authorization.k8s.io", self_reviews, ["create"]),
            _rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"]),
        ],
    )
    yield _role(
        "system:auth-delegator",
        [
            _rule("authentication.k8s.io", ["tokenreviews"], ["create"]),
            _rule("authorization.k8s.io", ["subjectaccessreviews"], ["create"]),
        ],
    )
    yield _role(
        "system:service-account-issuer-discovery",
        [
            {
                "nonResourceURLs": [
                    "/.well-known/openid-configuration",
                    "/.well-known/openid-configuration/",
                    "/openid/v1/jwks",
                    "/openid/v1/jwks/",
                ],
                "verbs": ["get"],
            }
        ],
    )
    yield from _personal_roles()


def _personal_roles() -> Iterator[Object]:
    """admin holds edit, edit holds view; charts add to them by label.

    The rules of the three are those of the roles that they aggregate, written out for readers.
    """
    parts = {"view": _view(), "edit": _edit(), "admin": _admin()}
    holders = {"view": "edit", "edit": "admin", "admin": ""}
    held: list[Object] = []
    for name, holder in holders.items():
        label = f"{_AGGREGATE}{name}"
        yield _role(f"system:aggregate-to-{name}", parts[name], {label: "true"})
        held = [*parts[name], *held]
        role = _role(name, held, {f"{_AGGREGATE}{holder}": "true"} if holder else None)
        yield role | {
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}
        }


def cluster_role_bindings() -> Iterator[Object]:
    yield _binding("cluster-admin", "cluster-admin", "system:masters")
    for name in ("system:discovery", "system:basic-user"):
        yield _binding(name, name, "system:authenticated")
    yield _binding("system:public-info-viewer", "system:public-info-viewer", "system:authenticated")
    yield _binding(
        "system:service-account-issuer-discovery",
        "system:service-account-issuer-discovery",
        "system:serviceaccounts",
    )


def _role(name: str, rules: list[Object], labels: dict[str, str] | None = None) -> Object:
    meta = {"name": name, "labels": _LABELS | (labels or {}), "annotations": dict(_ANNOTATIONS)}
    return {"apiVersion": _API, "kind": "ClusterRole", "metadata": meta, "rules": rules}


def _binding(name: str, role: str, group: str) -> Object:
    api_group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": _API,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name, "labels": dict(_LABELS), "annotations": dict(_ANNOTATIONS)},
        "roleRef": {"apiGroup": api_group, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "Group", "apiGroup": api_group, "name": group}],
    }
