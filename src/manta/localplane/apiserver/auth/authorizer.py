"""The RBAC authorizer, on the Roles and bindings in the store.

It indexes the bindings by subject, and rebuilds the index after a change of one of the four kinds.
`system:masters` may do everything, as in kube-apiserver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from manta.api.selectors import SelectorError, from_object
from manta.httpserver.messages import User
from manta.localplane.apiserver.auth.rules import Attributes, Rule, allows
from manta.localplane.apiserver.status_errors import StatusError, forbidden
from manta.localplane.store.store import Store

GROUP = "rbac.authorization.k8s.io"
MASTERS = "system:masters"
_STORAGE_NAMES = tuple(
    f"{plural}.{GROUP}"
    for plural in ("roles", "clusterroles", "rolebindings", "clusterrolebindings")
)


class _Aggregation(msgspec.Struct, rename="camel"):
    cluster_role_selectors: list[dict[str, object]] = []


class _Role(msgspec.Struct, rename="camel"):
    rules: tuple[Rule, ...] | None = None
    aggregation_rule: _Aggregation | None = None


class _Subject(msgspec.Struct):
    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleRef(msgspec.Struct, frozen=True):
    kind: str = ""
    name: str = ""


class _Binding(msgspec.Struct, rename="camel"):
    role_ref: RoleRef = RoleRef()
    subjects: tuple[_Subject, ...] | None = None


_decode_role = msgspec.json.Decoder(_Role).decode
_decode_binding = msgspec.json.Decoder(_Binding).decode


@dataclass(frozen=True, slots=True)
class _Grant:
    namespace: str
    """Where it applies; '' means everywhere."""
    rules: tuple[Rule, ...]


class Authorizer:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._indexed: tuple[int, ...] = ()
        self._grants: dict[tuple[str, str], list[_Grant]] = {}

    def may(self, user: User, attributes: Attributes) -> bool:
        if MASTERS in user.groups:
            return True
        return any(allows(rule, attributes) for rule in self.rules_for(user, attributes.namespace))

    def rules_for(self, user: User, namespace: str) -> Iterator[Rule]:
        """Yield the rules of a user in a namespace; for '' those of the whole cluster."""
        self._refresh()
        subjects = [("User", user.name), *(("Group", group) for group in user.groups)]
        for subject in subjects:
            for grant in self._grants.get(subject, ()):
                if not grant.namespace or grant.namespace == namespace:
                    yield from grant.rules

    def require(self, user: User, attributes: Attributes) -> None:
        """Raises StatusError (403) if the user may not do this."""
        if not self.may(user, attributes):
            raise access_denied(user, attributes)

    def role_rules(self, ref: RoleRef, namespace: str) -> tuple[Rule, ...] | None:
        """Return the rules of a role; None if it does not exist."""
        if ref.kind == "ClusterRole":
            record = self._store.get(f"clusterroles.{GROUP}", ref.name)
            return self._cluster_rules(record.raw) if record is not None else None
        record = self._store.get(f"roles.{GROUP}", f"{namespace}/{ref.name}")
        return _decode_role(record.raw).rules or () if record is not None else None

    # ── the index ────────────────────────────────────────────────────────────────────────
    def _refresh(self) -> None:
        revisions = (self._store.resource(name).revision for name in _STORAGE_NAMES)
        state = (self._store.reverts, *revisions)
        if state == self._indexed:
            return
        self._grants = {}
        for record in self._store.select(f"clusterrolebindings.{GROUP}"):
            self._add(_decode_binding(record.raw), "")
        for record in self._store.select(f"rolebindings.{GROUP}"):
            self._add(_decode_binding(record.raw), record.namespace)
        self._indexed = state

    def _add(self, binding: _Binding, namespace: str) -> None:
        rules = self.role_rules(binding.role_ref, namespace)
        if not rules:
            return
        grant = _Grant(namespace, rules)
        for subject in binding.subjects or ():
            self._grants.setdefault(_subject_key(subject, namespace), []).append(grant)

    def _cluster_rules(self, raw: bytes, parents: frozenset[str] = frozenset()) -> tuple[Rule, ...]:
        """Return the rules of a ClusterRole. An aggregating one only has those of the selected roles.

        `parents` are the roles that aggregate this one: a cycle adds nothing.
        """
        role = _decode_role(raw)
        if role.aggregation_rule is None or not role.aggregation_rule.cluster_role_selectors:
            return role.rules or ()
        return tuple(dict.fromkeys(self._aggregated(role.aggregation_rule, parents)))

    def _aggregated(self, aggregation: _Aggregation, parents: frozenset[str]) -> Iterator[Rule]:
        for selector in aggregation.cluster_role_selectors:
            try:
                chosen = from_object(selector)
            except SelectorError:
                continue
            for record in self._store.select(f"clusterroles.{GROUP}"):
                if record.name not in parents and chosen.matches(record.labels):
                    yield from self._cluster_rules(record.raw, parents | {record.name})


def _subject_key(subject: _Subject, namespace: str) -> tuple[str, str]:
    if subject.kind == "ServiceAccount":
        where = subject.namespace or namespace
        return "User", f"system:serviceaccount:{where}:{subject.name}"
    return subject.kind, subject.name


def access_denied(user: User, attributes: Attributes) -> StatusError:
    """Return the 403 with the text of kube-apiserver."""
    if attributes.path:
        why = f'User "{user.name}" cannot {attributes.verb} path "{attributes.path}"'
        return StatusError(403, "Forbidden", f"forbidden: {why}", {})
    where = (
        f'in the namespace "{attributes.namespace}"'
        if attributes.namespace
        else "at the cluster scope"
    )
    why = (
        f'User "{user.name}" cannot {attributes.verb} resource "{attributes.full_resource}" in API group '
        f'"{attributes.group}" {where}'
    )
    return forbidden(attributes.resource, attributes.group, attributes.name, why)
