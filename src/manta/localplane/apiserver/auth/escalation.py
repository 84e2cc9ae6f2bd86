"""Privilege escalation prevention: users cannot grant permissions that they do not have."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.localplane.apiserver.auth.authorizer import GROUP, MASTERS, Authorizer, RoleRef
from manta.localplane.apiserver.auth.rules import (
    Attributes,
    Rule,
    count_permissions,
    read_rules,
    shown,
    uncovered,
)
from manta.localplane.apiserver.core import Call
from manta.localplane.apiserver.status_errors import StatusError, forbidden, not_found

Object = dict[str, Any]

_CLUSTER_ADMIN = (Rule(("*",), ("*",), ("*",)), Rule(("*",), non_resource_urls=("*",)))
_ROLES = ("roles", "clusterroles")
_BINDINGS = ("rolebindings", "clusterrolebindings")


MAX_PERMISSIONS = 20_000
"""The permissions of one role. Each is compared with every rule of the user, on the event loop."""
_IGNORED_METADATA = (
    "ownerReferences",
    "finalizers",
    "managedFields",
    "generation",
    "resourceVersion",
)
"""Changed by the garbage collector and by the server."""


def check_escalation(authorizer: Authorizer, call: Call, obj: Object, old: Object | None) -> None:
    """Raises StatusError for a Role or binding that grants more than the user has.

    Changes of labels are checked too: a label can make a ClusterRole part of `admin`.
    """
    resource, user = call.resource, call.user
    if resource.group != GROUP or MASTERS in user.groups:
        return
    if old is not None and _content(old) == _content(obj):
        return
    namespace = obj["metadata"].get("namespace", "")
    if resource.plural in _ROLES:
        _check_role(authorizer, call, obj, old, namespace)
    elif resource.plural in _BINDINGS:
        _check_binding(authorizer, call, obj, namespace)


def _content(obj: Object) -> Object:
    meta = {name: value for name, value in obj["metadata"].items() if name not in _IGNORED_METADATA}
    return obj | {"metadata": meta}


def _check_role(
    authorizer: Authorizer, call: Call, obj: Object, old: Object | None, namespace: str
) -> None:
    resource, name = call.resource, obj["metadata"].get("name", "")
    attributes = Attributes("escalate", GROUP, resource.plural, name=name, namespace=namespace)
    if authorizer.may(call.user, attributes):
        return
    _check_rules(authorizer, call, _rules(obj), namespace)
    if (_aggregates(obj) or _aggregates(old or {})) and uncovered(
        _CLUSTER_ADMIN, authorizer.rules_for(call.user, "")
    ):
        why = "must have cluster-admin privileges to use the aggregationRule"
        raise forbidden(resource.plural, resource.group, name, why)


def _aggregates(role: Object) -> bool:
    """An aggregating role may get any rule later."""
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _check_binding(authorizer: Authorizer, call: Call, obj: Object, namespace: str) -> None:
    ref = obj.get("roleRef") or {}
    kind, role = str(ref.get("kind", "")), str(ref.get("name", ""))
    plural = "clusterroles" if kind == "ClusterRole" else "roles"
    if authorizer.may(call.user, Attributes("bind", GROUP, plural, name=role, namespace=namespace)):
        return
    rules = authorizer.role_rules(RoleRef(kind, role), namespace)
    if rules is None:
        raise not_found(plural, GROUP, role)
    _check_rules(authorizer, call, rules, namespace)


def _check_rules(
    authorizer: Authorizer, call: Call, wanted: tuple[Rule, ...], namespace: str
) -> None:
    count = count_permissions(wanted)
    if count > MAX_PERMISSIONS:
        resource = call.resource
        why = (
            f"its rules stand for {count} permissions (groups x resources x verbs x names), and at "
            f"most {MAX_PERMISSIONS} are compared with yours; make several roles, or ask somebody "
            "who may escalate"
        )
        raise forbidden(resource.plural, resource.group, call.route.name, why)
    missing = uncovered(wanted, authorizer.rules_for(call.user, namespace))
    if missing:
        raise _escalation(call, missing)


def _escalation(call: Call, missing: list[Rule]) -> StatusError:
    groups = " ".join(f'"{group}"' for group in call.user.groups)
    listed = "\n".join(shown(rule) for rule in missing)
    why = (
        f'user "{call.user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not '
        f"currently held:\n{listed}"
    )
    resource = call.resource
    return forbidden(resource.plural, resource.group, call.route.name, why)


def _rules(obj: Object) -> tuple[Rule, ...]:
    try:
        return read_rules(obj.get("rules"))
    except msgspec.ValidationError:
        return ()
