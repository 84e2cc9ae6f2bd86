"""No one may grant what they do not hold: the check on Roles and bindings before they are stored."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.localplane.apiserver.auth.authorizer import GROUP, MASTERS, Authorizer, RoleRef
from manta.localplane.apiserver.auth.rules import (
    Attempt,
    Rule,
    count_permissions,
    read_rules,
    shown,
    uncovered,
)
from manta.localplane.apiserver.core import Call
from manta.localplane.apiserver.status_errors import Refusal, forbidden, not_found

Object = dict[str, Any]

_EVERYTHING = (
    Rule(("*",), ("*",), ("*",)),
    Rule(("*",), non_resource_urls=("*",)),
)
_ROLES = ("roles", "clusterroles")
_BINDINGS = ("rolebindings", "clusterrolebindings")


MOST_PERMISSIONS = 20_000
"""Of one role. Each is compared with every rule that its writer holds, while all others wait."""
_COLLECTED = ("ownerReferences", "finalizers", "managedFields", "generation", "resourceVersion")
"""Metadata that the garbage collector changes, and bookkeeping of the server."""


def check_escalation(authorizer: Authorizer, call: Call, obj: Object, old: Object | None) -> None:
    """Refuse a Role or binding that would give more than its writer has.

    Every change is checked but those that only garbage collection needs: a label alone can make a
    ClusterRole part of `admin`.
    """
    served, user = call.served, call.user
    if served.group != GROUP or MASTERS in user.groups:
        return
    if old is not None and _content(old) == _content(obj):
        return
    namespace = obj["metadata"].get("namespace", "")
    if served.plural in _ROLES:
        _check_role(authorizer, call, obj, old, namespace)
    elif served.plural in _BINDINGS:
        _check_binding(authorizer, call, obj, namespace)


def _content(obj: Object) -> Object:
    meta = {name: value for name, value in obj["metadata"].items() if name not in _COLLECTED}
    return obj | {"metadata": meta}


def _check_role(
    authorizer: Authorizer, call: Call, obj: Object, old: Object | None, namespace: str
) -> None:
    served, name = call.served, obj["metadata"].get("name", "")
    attempt = Attempt("escalate", GROUP, served.plural, name=name, namespace=namespace)
    if authorizer.may(call.user, attempt):
        return
    _check_rules(authorizer, call, _rules(obj), namespace)
    if (_aggregates(obj) or _aggregates(old or {})) and uncovered(
        _EVERYTHING, authorizer.rules_for(call.user, "")
    ):
        why = "must have cluster-admin privileges to use the aggregationRule"
        raise forbidden(served.plural, served.group, name, why)


def _aggregates(role: Object) -> bool:
    """An aggregating role can come to hold any rule, also one that is written later."""
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _check_binding(authorizer: Authorizer, call: Call, obj: Object, namespace: str) -> None:
    ref = obj.get("roleRef") or {}
    kind, role = str(ref.get("kind", "")), str(ref.get("name", ""))
    plural = "clusterroles" if kind == "ClusterRole" else "roles"
    if authorizer.may(call.user, Attempt("bind", GROUP, plural, name=role, namespace=namespace)):
        return
    rules = authorizer.role_rules(RoleRef(kind, role), namespace)
    if rules is None:
        raise not_found(plural, GROUP, role)
    _check_rules(authorizer, call, rules, namespace)


def _check_rules(
    authorizer: Authorizer, call: Call, wanted: tuple[Rule, ...], namespace: str
) -> None:
    count = count_permissions(wanted)
    if count > MOST_PERMISSIONS:
        served = call.served
        why = (
            f"its rules stand for {count} permissions (groups x resources x verbs x names), and at "
            f"most {MOST_PERMISSIONS} are compared with yours; make several roles, or ask somebody "
            "who may escalate"
        )
        raise forbidden(served.plural, served.group, call.route.name, why)
    missing = uncovered(wanted, authorizer.rules_for(call.user, namespace))
    if missing:
        raise _refusal(call, missing)


def _refusal(call: Call, missing: list[Rule]) -> Refusal:
    groups = " ".join(f'"{group}"' for group in call.user.groups)
    told = "\n".join(shown(rule) for rule in missing)
    why = (
        f'user "{call.user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not '
        f"currently held:\n{told}"
    )
    served = call.served
    return forbidden(served.plural, served.group, call.route.name, why)


def _rules(obj: Object) -> tuple[Rule, ...]:
    try:
        return read_rules(obj.get("rules"))
    except msgspec.ValidationError:
        return ()
