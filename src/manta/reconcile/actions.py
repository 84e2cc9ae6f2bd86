"""The closed set of things a reconcile round may do to the world.

The domain rides in `cause`: each controller has an enum of causes, and its `events.py` maps each
cause to the Event that it leaves behind. Secrets never ride in an action: `Create.secret_data`
names the keys that `perform` fills with fresh random text, so that a plan can be printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

from manta.api.meta import Key, ResourceVersion, Uid
from manta.api.resources import Resource

Manifest = Mapping[str, Any]
"""A full object as it goes over the wire. Never mutated after it was built."""

PatchKind = Literal["merge", "json", "strategic", "apply"]
Propagation = Literal["Background", "Foreground", "Orphan"]


@dataclass(frozen=True, slots=True)
class Create:
    resource: Resource
    manifest: Manifest
    cause: StrEnum
    why: str = ""
    secret_data: tuple[str, ...] = ()
    """Keys of a Secret's data to be filled with 32 random bytes when it is performed."""
    adopt: bool = True
    """Already there under the same controller UID counts as done; under another owner it is a
    failure that names that owner (C75)."""

    @property
    def key(self) -> Key:
        meta = self.manifest["metadata"]
        return Key(meta.get("namespace", ""), meta.get("name") or meta.get("generateName", ""))


@dataclass(frozen=True, slots=True)
class Patch:
    resource: Resource
    key: Key
    patch: Any
    cause: StrEnum
    why: str = ""
    kind: PatchKind = "merge"
    subresource: str = ""
    uid: Uid | None = None
    """The object that was seen. A recreated object of this name is left alone."""
    resource_version: ResourceVersion | None = None
    """Set when the patch is only right for the version that was seen."""


@dataclass(frozen=True, slots=True)
class Delete:
    resource: Resource
    key: Key
    uid: Uid
    """Sent as a precondition: an object that was recreated under this name survives."""
    cause: StrEnum
    why: str = ""
    propagation: Propagation = "Background"
    grace_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """Something that is not a Kubernetes write (a request to a Ray dashboard, a process).

    The controller's own `perform` carries it out; the pure rooms only name it.
    """

    verb: str
    key: Key
    cause: StrEnum
    why: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    must_succeed: bool = True
    """False: best effort. A failure is reported, and stops nothing."""


Action = Create | Patch | Delete | Call
