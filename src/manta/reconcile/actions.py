"""The closed set of actions that a plan consists of.

Each controller has an enum of causes, which hold the Events. No action holds a secret, so that plans can be printed: `Create.secret_data` names the keys that the executor fills.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Literal

from manta.api.meta import Key, ResourceVersion, Uid
from manta.api.resources import Resource
from manta.reconcile.causes import ActionCause

Manifest = Mapping[str, Any]
"""A full object as it goes over the wire. Never mutated once it is built."""

PatchKind = Literal["merge", "json", "strategic", "apply"]
Propagation = Literal["Background", "Foreground", "Orphan"]


class OnExists(Enum):
    """What a creation does when the name is taken."""

    FAIL = auto()
    ADOPT = auto()
    """Succeed if the object has the controller that the manifest names, as after a crash between
    creation and status. Another owner, or none, is a failure that says so (C75)."""
    USE = auto()
    """As ADOPT, and use an object without controller as it is: it is the user's (as in KubeRay)."""


@dataclass(frozen=True, slots=True)
class Create:
    resource: Resource
    manifest: Manifest
    cause: ActionCause
    why: str = ""
    secret_data: tuple[str, ...] = ()
    """Keys of a Secret's data that the executor fills with 32 random bytes."""
    on_exists: OnExists = OnExists.ADOPT
    cached_by_label: bool = False
    """The cache selects by our labels: an object without them is planned again in every reconcile.
    The executor restores labels on our own objects, and remembers the user's for a while."""

    @property
    def key(self) -> Key:
        meta = self.manifest["metadata"]
        return Key(meta.get("namespace", ""), meta.get("name") or meta.get("generateName", ""))


@dataclass(frozen=True, slots=True)
class Patch:
    resource: Resource
    key: Key
    patch: Any
    cause: ActionCause
    why: str = ""
    kind: PatchKind = "merge"
    subresource: str = ""
    uid: Uid | None = None
    """Sent as a precondition: an object that was re-created under this name stays as it is."""
    resource_version: ResourceVersion | None = None
    """Set when the patch is only right for this version."""


@dataclass(frozen=True, slots=True)
class Delete:
    resource: Resource
    key: Key
    uid: Uid
    """Sent as a precondition: an object that was re-created under this name stays."""
    cause: ActionCause
    why: str = ""
    propagation: Propagation = "Background"
    grace_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """An action that is not a Kubernetes write, such as a request to a Ray dashboard.

    The `call` phase of the reconciler executes it.
    """

    verb: str
    key: Key
    cause: ActionCause
    why: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    must_succeed: bool = True
    """False: best effort. A failure is reported, and later stages still run."""


Action = Create | Patch | Delete | Call
