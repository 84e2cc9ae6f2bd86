"""A namespace that is being deleted, and what is left in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from manta.api.resources import Resource
from manta.localplane.builtin.views import Namespace

FINALIZER = "kubernetes"


@dataclass(frozen=True, slots=True)
class Remainder:
    """The objects of one kind that are still there."""

    count: int
    untouched: int
    """How many of them were not asked to go yet."""
    finalizers: Mapping[str, int] = field(default_factory=dict)
    """What holds them, and how many each."""


@dataclass(frozen=True, slots=True)
class NamespaceSnapshot:
    namespace: Namespace
    remaining: Mapping[Resource, Remainder]
    """Only kinds of which something is left. Empty as long as the namespace is not deleted."""
    now: datetime
