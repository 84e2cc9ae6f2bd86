"""What every Kubernetes object says about itself: the fields that we read, nothing else.

These are views: frozen, shared and never written back. A write is a patch or is built from a
full manifest, so that fields which we do not know are never lost.
"""

from __future__ import annotations

from typing import NamedTuple, NewType

import msgspec

Uid = NewType("Uid", str)
ResourceVersion = NewType("ResourceVersion", str)


class Key(NamedTuple):
    """Where an object lives. Cluster-scoped objects have the namespace ''."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class View(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of all decoded API values. `gc=False` is safe because views hold no cycles."""


class OwnerReference(View, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: Uid = Uid("")
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(View, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: Uid = Uid("")
    resource_version: ResourceVersion = ResourceVersion("")
    generation: int = 0
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Object(View, frozen=True, kw_only=True):
    """Any object, seen only by its metadata."""

    metadata: ObjectMeta = ObjectMeta()


class Condition(View, frozen=True, kw_only=True):
    """A condition that we write. The API wants reason, message and time even when they are empty:
    a default factory keeps msgspec from omitting them."""

    type: str
    status: str
    reason: str = msgspec.field(default_factory=str)
    message: str = msgspec.field(default_factory=str)
    last_transition_time: str = msgspec.field(default_factory=str)
    observed_generation: int = 0
