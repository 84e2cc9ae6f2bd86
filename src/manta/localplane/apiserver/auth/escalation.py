"""No one may grant what they do not hold: the check on Roles and bindings before they are stored."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.localplane.apiserver.auth.authorizer import GROUP, MASTERS, Authorizer, RoleRef
from manta.localplane.apiserver.auth.rules import Attempt, Rule, shown, uncovered
from manta.localplane.apiserver.core import Call
from manta.localplane.apiserver.status_errors import Refusal, forbidden, not_found

_ROLES = ("roles", "clusterroles")
_BINDINGS = ("rolebindings", "clusterrolebindings")


def check_escalation(
    authorizer: Authorizer, call: Call, obj: dict[str, Any], old: dict[str, Any] | None
) -> None:
    served, user = call.served, call.user
    if served.group != GROUP or MASTERS in user.groups:
        return
    namespace = obj["metadata"].get("namespace", "")
    name = obj["metadata"].get("name", "")
    if served.plural in _ROLES:
        if old is not None and old.get("rules") == obj.get("rules"):
            return
        attempt = Attempt("escalate", GROUP, served.plural, name=name, namespace=namespace)
        if not authorizer.may(user, attempt):
            _check_rules(authorizer, call, _rules(obj), namespace)
    elif served.plural in _BINDINGS:
        if old is not None and all(
            old.get(part) == obj.get(part) for part in ("roleRef", "subjects")
        ):
            return
        _check_binding(authorizer, call, obj, namespace)


def _check_binding(authorizer: Authorizer, call: Call, obj: dict[str, Any], namespace: str) -> None:
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


def _rules(obj: dict[str, Any]) -> tuple[Rule, ...]:
    try:
        return msgspec.convert(obj.get("rules") or [], tuple[Rule, ...])
    except msgspec.ValidationError:
        return ()
