"""Views of the RBAC group: the permissions of a RayCluster's autoscaler."""

from __future__ import annotations

import msgspec

from manta.api.meta import Object, View


class PolicyRule(View, frozen=True, kw_only=True):
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()


class Role(Object, frozen=True, kw_only=True):
    listed_rules: tuple[PolicyRule, ...] | None = msgspec.field(default=None, name="rules")

    @property
    def rules(self) -> tuple[PolicyRule, ...]:
        """The API server encodes an empty list as null."""
        return self.listed_rules or ()


class Subject(View, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""
    namespace: str = ""
    api_group: str = ""


class RoleRef(View, frozen=True, kw_only=True):
    api_group: str = ""
    kind: str = ""
    name: str = ""


class RoleBinding(Object, frozen=True, kw_only=True):
    subjects: tuple[Subject, ...] = ()
    role_ref: RoleRef = RoleRef()
