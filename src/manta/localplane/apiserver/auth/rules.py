"""RBAC rules, pure: does a rule allow this, and do rules cover other rules?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

import msgspec

MOST_SHOWN = 100
"""Permissions that a refusal names."""


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What someone wants to do."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""
    """For requests outside of resources; then the rest is empty."""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def read_rules(rules: Any) -> tuple[Rule, ...]:
    """Rules as an object has them. Raises ValidationError where they are no rules."""
    return msgspec.convert(rules or [], tuple[Rule, ...])


def allows(rule: Rule, attempt: Attempt) -> bool:
    if attempt.verb not in rule.verbs and "*" not in rule.verbs:
        return False
    if attempt.path:
        return any(_url_matches(pattern, attempt.path) for pattern in rule.non_resource_urls)
    if attempt.group not in rule.api_groups and "*" not in rule.api_groups:
        return False
    if not any(_resource_matches(pattern, attempt) for pattern in rule.resources):
        return False
    return not rule.resource_names or attempt.name in rule.resource_names


def _url_matches(pattern: str, path: str) -> bool:
    if pattern == "*":
        return True
    if pattern.endswith("*"):
        return path.startswith(pattern[:-1])
    return path == pattern


def _resource_matches(pattern: str, attempt: Attempt) -> bool:
    if pattern in ("*", attempt.full_resource):
        return True
    return bool(attempt.subresource) and pattern == f"*/{attempt.subresource}"


def count_permissions(rules: Iterable[Rule]) -> int:
    """How many single permissions rules stand for: a product, of which a few bytes make millions."""
    return sum(
        len(rule.verbs)
        * (
            len(rule.api_groups) * len(rule.resources) * max(1, len(rule.resource_names))
            + len(rule.non_resource_urls)
        )
        for rule in rules
    )


def uncovered(wanted: Iterable[Rule], held: Iterable[Rule]) -> list[Rule]:
    """Single permissions in `wanted` that `held` does not give, the first hundred: no one may grant
    more."""
    held = tuple(held)
    missing = (
        single
        for rule in wanted
        for single in _singles(rule)
        if not any(_covers(owner, single) for owner in held)
    )
    return list(islice(missing, MOST_SHOWN))


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
    """A rule as the real server prints it in a refusal."""
    parts: list[tuple[str, tuple[str, ...]]] = [
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("ResourceNames", rule.resource_names),
        ("NonResourceURLs", rule.non_resource_urls),
        ("Verbs", rule.verbs),
    ]
    told = [f"{name}:[{' '.join(_quoted(values))}]" for name, values in parts if values]
    return "{" + ", ".join(told) + "}"


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
