"""Reads the labels of a namespace: level and version for enforce, audit and warn. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

PREFIX: Final = "pod-security.kubernetes.io/"
LEVELS: Final = ("privileged", "baseline", "restricted")
_VERSION = re.compile(r"v1\.([0-9]|[1-9][0-9]*)")
NEWEST: Final = 35
"""The minor version of Kubernetes that `latest` means."""


@dataclass(frozen=True, slots=True)
class Standard:
    level: str = "privileged"
    minor: int | None = None
    """None: the latest version."""

    @property
    def version(self) -> int:
        return NEWEST if self.minor is None else min(self.minor, NEWEST)

    @property
    def rank(self) -> int:
        return LEVELS.index(self.level)

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor is None else f'v1.{self.minor}'}"


@dataclass(frozen=True, slots=True)
class Problem:
    label: str
    value: str
    detail: str


@dataclass(frozen=True, slots=True)
class Policy:
    enforce: Standard = Standard()
    audit: Standard = Standard()
    warn: Standard = Standard()
    problems: tuple[Problem, ...] = ()
    """Invalid labels. Writing them is refused; existing ones enforce the strictest level."""


def policy_of(labels: Mapping[str, str]) -> Policy:
    problems: list[Problem] = []
    enforce = _standard(labels, "enforce", "restricted", problems)
    audit = _standard(labels, "audit", "privileged", problems)
    warn = _standard(labels, "warn", "privileged", problems)
    given = labels.get(f"{PREFIX}enforce") in LEVELS
    if f"{PREFIX}warn" not in labels and given and enforce.rank > warn.rank:
        warn = replace(warn, level=enforce.level)
        if f"{PREFIX}warn-version" not in labels:
            warn = replace(warn, minor=enforce.minor)
    return Policy(enforce, audit, warn, tuple(problems))


def _standard(
    labels: Mapping[str, str], mode: str, if_unreadable: str, problems: list[Problem]
) -> Standard:
    level_label, version_label = f"{PREFIX}{mode}", f"{PREFIX}{mode}-version"
    level = labels.get(level_label, "privileged")
    if level not in LEVELS:
        problems.append(Problem(level_label, level, f"must be one of {', '.join(LEVELS)}"))
        level = if_unreadable
    version = labels.get(version_label, "latest")
    found = _VERSION.fullmatch(version)
    if found is None and version != "latest":
        problems.append(Problem(version_label, version, 'must be "latest" or "v1.x"'))
    return Standard(level, int(found[1]) if found and len(found[1]) < 10 else None)
