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
    undeleted: int
    """How many have no deletionTimestamp yet."""
    finalizers: Mapping[str, int] = field(default_factory=dict)
    """How many objects each finalizer blocks."""


@dataclass(frozen=True, slots=True)
class NamespaceSnapshot:
    namespace: Namespace
    remaining: Mapping[Resource, Remainder]
    """Kinds with objects left. Empty unless the namespace is being deleted."""
    now: datetime
