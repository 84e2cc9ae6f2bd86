"""RBAC rules, pure: what a rule allows, and whether rules cover other rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import msgspec

MAX_SHOWN = 100
"""Permissions that an error lists."""


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


@dataclass(frozen=True, slots=True)
class Attributes:
    """What a request wants to do; named as in k8s.io/apiserver."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""
    """For non-resource requests; the other fields are empty then."""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def read_rules(rules: Any) -> tuple[Rule, ...]:
    """Return the rules of a Role. Raises msgspec.ValidationError."""
    return msgspec.convert(rules or [], tuple[Rule, ...])


def allows(rule: Rule, attributes: Attributes) -> bool:
    if attributes.verb not in rule.verbs and "*" not in rule.verbs:
        return False
    if attributes.path:
        return any(_url_matches(pattern, attributes.path) for pattern in rule.non_resource_urls)
    if attributes.group not in rule.api_groups and "*" not in rule.api_groups:
        return False
    if not any(_resource_matches(pattern, attributes) for pattern in rule.resources):
        return False
    return not rule.resource_names or attributes.name in rule.resource_names


def _url_matches(pattern: str, path: str) -> bool:
    if pattern == "*":
        return True
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return path == pattern


def _resource_matches(pattern: str, attributes: Attributes) -> bool:
    if pattern in ("*", attributes.full_resource):
        return True
    return bool(attributes.subresource) and pattern == f"*/{attributes.subresource}"


def count_permissions(rules: Iterable[Rule]) -> int:
    """Return the number of single permissions: a product, so that a few bytes can mean millions."""
    return sum(
        len(rule.verbs)
        * (
            len(rule.api_groups) * len(rule.resources) * max(1, len(rule.resource_names))
            + len(rule.non_resource_urls)
        )
        for rule in rules
    )


def uncovered(wanted: Iterable[Rule], held: Iterable[Rule]) -> list[Rule]:
    """Return the first MAX_SHOWN single permissions of `wanted` that `held` does not cover."""
    held = tuple(held)
    missing = (
        single
        for rule in wanted
        for single in _singles(rule)
        if not any(_covers(owner, single) for owner in held)
    )
    return list(islice(missing, MAX_SHOWN))


def _singles(rule: Rule) -> Iterator[Rule]:
    for group, resource, verb in product(rule.api_groups, rule.resources, rule.verbs):
        for name in rule.resource_names or ("",):
            yield Rule((verb,), (group,), (resource,), (name,) if name else ())
    for url, verb in product(rule.non_resource_urls, rule.verbs):
        yield Rule((verb,), non_resource_urls=(url,))


def _covers(owner: Rule, single: Rule) -> bool:
    if not _has(owner.verbs, single.verbs[0]):
        return False
    if single.non_resource_urls:
        wanted = single.non_resource_urls[0]
        return any(
            pattern in ("*", wanted) or (pattern.endswith("*") and wanted.startswith(pattern[:-1]))
            for pattern in owner.non_resource_urls
        )
    if not _has(owner.api_groups, single.api_groups[0]):
        return False
    resource = single.resources[0]
    _, slash, below = resource.partition("/")
    if not _has(owner.resources, resource) and not (slash and f"*/{below}" in owner.resources):
        return False
    if not owner.resource_names:
        return True
    return bool(single.resource_names) and single.resource_names[0] in owner.resource_names


def _has(values: tuple[str, ...], wanted: str) -> bool:
    return "*" in values or wanted in values


def shown(rule: Rule) -> str:
    """Return a rule as kube-apiserver prints it in errors."""
    parts: list[tuple[str, tuple[str, ...]]] = [
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("ResourceNames", rule.resource_names),
        ("NonResourceURLs", rule.non_resource_urls),
        ("Verbs", rule.verbs),
    ]
    parts_shown = [f"{name}:[{' '.join(_quoted(values))}]" for name, values in parts if values]
    return "{" + ", ".join(parts_shown) + "}"


def _quoted(values: tuple[str, ...]) -> list[str]:
    return [f'"{value}"' for value in values]


def as_json(rule: Rule) -> dict[str, Any]:
    members = {
        "verbs": rule.verbs,
        "apiGroups": rule.api_groups,
        "resources": rule.resources,
        "resourceNames": rule.resource_names,
        "nonResourceURLs": rule.non_resource_urls,
    }
    return {name: list(values) for name, values in members.items() if values}
