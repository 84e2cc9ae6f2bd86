"""The default ClusterRoles and ClusterRoleBindings of every cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from manta.api.well_known import (
    ANNOTATION_RBAC_AUTOUPDATE,
    LABEL_BOOTSTRAPPING,
    PREFIX_RBAC_AGGREGATE,
)
from manta.localplane.apiserver.builtin_resources import builtin_resources

_LABELS = {LABEL_BOOTSTRAPPING: "rbac-defaults"}
_ANNOTATIONS = {ANNOTATION_RBAC_AUTOUPDATE: "true"}
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_API = "rbac.authorization.k8s.io/v1"

Object = dict[str, Any]

# The subresources that `view` reads and `edit` writes, as in Kubernetes 1.35. A resource states itself
# which of the two roles grant it. Neither role writes Endpoints or EndpointSlices: who does chooses
# where the connections to a Service go.
_SUBRESOURCES = {
    "view": ("log", "scale", "status"),
    "edit": ("attach", "exec", "portforward", "proxy", "scale"),
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
"""What `system:aggregate-to-edit` of earlier versions granted and today's does not."""


def _rule(group: str, resources: list[str], verbs: list[str]) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def _granted(role: str) -> dict[str, list[str]]:
    """The resources and subresources that a role grants, by API group."""
    granted: dict[str, list[str]] = {}
    for one in builtin_resources():
        if role in one.roles:
            names = [sub.name for sub in one.subresources if sub.name in _SUBRESOURCES[role]]
            granted.setdefault(one.group, []).append(one.plural)
            granted[one.group] += [f"{one.plural}/{name}" for name in sorted(names)]
    return {group: sorted(granted[group]) for group in sorted(granted)}


def _view() -> list[Object]:
    return [_rule(group, names, _READ) for group, names in _granted("view").items()]


def _edit() -> list[Object]:
    read, written = _granted("view"), _granted("edit")
    unread = {
        group: [name for name in names if name not in read.get(group, ())]
        for group, names in written.items()
    }
    return [
        *(_rule(group, names, _READ) for group, names in unread.items() if names),
        *(_rule(group, names, _WRITE) for group, names in written.items()),
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
    yield from _user_roles()


def _user_roles() -> Iterator[Object]:
    """view, edit and admin: admin aggregates edit, edit aggregates view; charts add to them by label.

    Their rules are those of the roles that they aggregate.
    """
    parts = {"view": _view(), "edit": _edit(), "admin": _admin()}
    holders = {"view": "edit", "edit": "admin", "admin": ""}
    held: list[Object] = []
    for name, holder in holders.items():
        label = f"{PREFIX_RBAC_AGGREGATE}{name}"
        yield _role(f"system:aggregate-to-{name}", parts[name], {label: "true"})
        held = [*parts[name], *held]
        role = _role(name, held, {f"{PREFIX_RBAC_AGGREGATE}{holder}": "true"} if holder else None)
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
