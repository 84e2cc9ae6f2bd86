"""RBAC: who may do what, by the Roles and bindings in the store, and nothing else.

The bindings are read into an index by subject; it is made anew after a change of any of the four
kinds. `system:masters` may do everything, as in the real server.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from manta.api.selectors import SelectorError, from_object
from manta.localplane.apiserver.auth.rules import Attempt, Rule, allows
from manta.localplane.apiserver.messages import User
from manta.localplane.apiserver.status_errors import Refusal, forbidden
from manta.localplane.store.store import Store

GROUP = "rbac.authorization.k8s.io"
MASTERS = "system:masters"
_SHELVES = tuple(
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
    """Where it counts; '' is everywhere."""
    rules: tuple[Rule, ...]


class Authorizer:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._made_at: tuple[int, ...] = ()
        self._grants: dict[tuple[str, str], list[_Grant]] = {}

    def may(self, user: User, attempt: Attempt) -> bool:
        if MASTERS in user.groups:
            return True
        return any(allows(rule, attempt) for rule in self.rules_for(user, attempt.namespace))

    def rules_for(self, user: User, namespace: str) -> Iterator[Rule]:
        """Everything that a user may do in a namespace, or everywhere for ''."""
        self._refresh()
        subjects = [("User", user.name), *(("Group", group) for group in user.groups)]
        for subject in subjects:
            for grant in self._grants.get(subject, ()):
                if not grant.namespace or grant.namespace == namespace:
                    yield from grant.rules

    def require(self, user: User, attempt: Attempt) -> None:
        if not self.may(user, attempt):
            raise refusal(user, attempt)

    def role_rules(self, ref: RoleRef, namespace: str) -> tuple[Rule, ...] | None:
        """The rules of a role; None when there is no such role."""
        if ref.kind == "ClusterRole":
            record = self._store.get(f"clusterroles.{GROUP}", ref.name)
            return self._cluster_rules(record.raw) if record is not None else None
        record = self._store.get(f"roles.{GROUP}", f"{namespace}/{ref.name}")
        return _decode_role(record.raw).rules or () if record is not None else None

    # ── the index ────────────────────────────────────────────────────────────────────────
    def _refresh(self) -> None:
        revisions = (self._store.shelf(name).revision for name in _SHELVES)
        state = (self._store.reverts, *revisions)
        if state == self._made_at:
            return
        self._grants = {}
        for record in self._store.select(f"clusterrolebindings.{GROUP}"):
            self._add(_decode_binding(record.raw), "")
        for record in self._store.select(f"rolebindings.{GROUP}"):
            self._add(_decode_binding(record.raw), record.namespace)
        self._made_at = state

    def _add(self, binding: _Binding, namespace: str) -> None:
        rules = self.role_rules(binding.role_ref, namespace)
        if not rules:
            return
        grant = _Grant(namespace, rules)
        for subject in binding.subjects or ():
            self._grants.setdefault(_subject_key(subject, namespace), []).append(grant)

    def _cluster_rules(self, raw: bytes, holders: frozenset[str] = frozenset()) -> tuple[Rule, ...]:
        """The rules of a ClusterRole. One that aggregates has those of the selected roles only.

        `holders` are the roles that aggregate this one: a cycle adds nothing.
        """
        role = _decode_role(raw)
        if role.aggregation_rule is None or not role.aggregation_rule.cluster_role_selectors:
            return role.rules or ()
        return tuple(dict.fromkeys(self._aggregated(role.aggregation_rule, holders)))

    def _aggregated(self, aggregation: _Aggregation, holders: frozenset[str]) -> Iterator[Rule]:
        for selector in aggregation.cluster_role_selectors:
            try:
                chosen = from_object(selector)
            except SelectorError:
                continue
            for record in self._store.select(f"clusterroles.{GROUP}"):
                if record.name not in holders and chosen.matches(record.labels):
                    yield from self._cluster_rules(record.raw, holders | {record.name})


def _subject_key(subject: _Subject, namespace: str) -> tuple[str, str]:
    if subject.kind == "ServiceAccount":
        where = subject.namespace or namespace
        return "User", f"system:serviceaccount:{where}:{subject.name}"
    return subject.kind, subject.name


def refusal(user: User, attempt: Attempt) -> Refusal:
    """The 403 that says what was not allowed, in the words that people search for."""
    if attempt.path:
        why = f'User "{user.name}" cannot {attempt.verb} path "{attempt.path}"'
        return Refusal(403, "Forbidden", f"forbidden: {why}", {})
    where = (
        f'in the namespace "{attempt.namespace}"' if attempt.namespace else "at the cluster scope"
    )
    why = (
        f'User "{user.name}" cannot {attempt.verb} resource "{attempt.full_resource}" in API group '
        f'"{attempt.group}" {where}'
    )
    return forbidden(attempt.resource, attempt.group, attempt.name, why)
