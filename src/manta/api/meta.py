"""The metadata of Kubernetes objects: only the fields that Manta reads.

Views are frozen, shared and never written back. A write is a patch or a full manifest, so that unknown fields
are never lost.
"""

from __future__ import annotations

from typing import Final, NamedTuple, NewType

import msgspec

Uid = NewType("Uid", str)
ResourceVersion = NewType("ResourceVersion", str)

SET_BY_SERVER: Final = frozenset(
    (
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    )
)
"""Fields of the metadata that only the API server sets: no part of a manifest."""


class Key(NamedTuple):
    """Namespace and name of an object. Cluster-scoped objects have the namespace ''."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class View(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of all decoded API values. `gc=False` is safe because views contain no cycles."""


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

    def is_controlled_by(self, uid: str) -> bool:
        return self.controller is not None and self.controller.uid == uid


class Object(View, frozen=True, kw_only=True):
    """The metadata of any object."""

    metadata: ObjectMeta = ObjectMeta()


class Condition(View, frozen=True, kw_only=True):
    """A condition. The API requires reason, message and time even if empty: a default factory keeps msgspec
    from omitting them."""

    type: str
    status: str
    reason: str = msgspec.field(default_factory=str)
    message: str = msgspec.field(default_factory=str)
    last_transition_time: str = msgspec.field(default_factory=str)
    observed_generation: int = 0
