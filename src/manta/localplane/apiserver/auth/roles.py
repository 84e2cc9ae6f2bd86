"""The roles and bindings that every cluster has: who may look around, and who may do everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_ANNOTATIONS = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_API = "rbac.authorization.k8s.io/v1"
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"

Object = dict[str, Any]

_NAMESPACED: dict[str, list[str]] = {
    "": [
        "configmaps",
        "events",
        "persistentvolumeclaims",
        "persistentvolumeclaims/status",
        "pods",
        "pods/log",
        "pods/status",
        "replicationcontrollers",
        "replicationcontrollers/scale",
        "replicationcontrollers/status",
        "serviceaccounts",
        "services",
        "services/status",
        "endpoints",
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
    "networking.k8s.io": ["ingresses", "ingresses/status", "networkpolicies"],
    "policy": ["poddisruptionbudgets", "poddisruptionbudgets/status"],
}
_LOOK_ONLY = {
    "": [
        "bindings",
        "limitranges",
        "namespaces",
        "namespaces/status",
        "resourcequotas",
        "resourcequotas/status",
    ]
}
_EDIT_MORE = {
    "": [
        "pods/attach",
        "pods/exec",
        "pods/portforward",
        "pods/proxy",
        "pods/eviction",
        "secrets",
        "services/proxy",
        "serviceaccounts/token",
    ],
    "coordination.k8s.io": ["leases"],
}


def _rule(group: str, resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _view() -> list[Object]:
    rules = [_rule(group, names, _READ) for group, names in _NAMESPACED.items()]
    return rules + [_rule(group, names, _READ) for group, names in _LOOK_ONLY.items()]


def _edit() -> list[Object]:
    rules = [
        _rule(group, [name for name in names if not name.endswith("/status")], _WRITE)
        for group, names in _NAMESPACED.items()
    ]
    more = [_rule(group, names, _READ + _WRITE) for group, names in _EDIT_MORE.items()]
    return rules + more + [_rule("", ["serviceaccounts"], ["impersonate"])]


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
                "nonResourceURLs": ["/.well-known/openid-configuration", "/openid/v1/jwks"],
                "verbs": ["get"],
            }
        ],
    )
    yield from _personal_roles()


def _personal_roles() -> Iterator[Object]:
    """admin holds edit, edit holds view; charts add to them by label."""
    layers = {"view": _view(), "edit": _edit(), "admin": _admin()}
    holds = {"view": ["view"], "edit": ["edit", "view"], "admin": ["admin", "edit", "view"]}
    for name, rules in layers.items():
        labels = {f"{_AGGREGATE}{name}": "true"}
        yield _role(f"system:aggregate-to-{name}", rules, labels)
    for name, parts in holds.items():
        selectors = [{"matchLabels": {f"{_AGGREGATE}{part}": "true"}} for part in parts]
        role = _role(name, [rule for part in parts for rule in layers[part]])
        yield role | {"aggregationRule": {"clusterRoleSelectors": selectors}}


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
