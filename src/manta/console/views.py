"""What the console's informers keep of each object: what pages show, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, TypeVar, cast
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import force_setattr

from manta.api.core import Container, ObjectReference, Terminated, Waiting
from manta.api.meta import Object, ObjectMeta, View
from manta.runtime.interning import share

_Part = TypeVar("_Part")
_EMPTY: Final[dict[str, str]] = {}
_NOTHING: Final = msgspec.Raw(b"{}")
_decode_containers: Final = msgspec.json.Decoder(tuple[Container, ...]).decode
_decode: Final = msgspec.json.Decoder(dict[str, Any] | None).decode


@lru_cache(maxsize=4096)
def _once(part: _Part) -> _Part:
    """The first of all equal parts."""
    return part


@lru_cache(maxsize=1024)
def _containers(written: bytes) -> tuple[Container, ...]:
    """The first of all equal containers. Their resources are dicts, which have no hash."""
    return tuple(share(one) for one in _decode_containers(written))


class SharedObjects:
    """Keeps each version of an object once, although each visitor reads it with a watch of their own."""

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[str, str], Any] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._known)

    def share(self, one: _Part, before: object = None) -> _Part:
        """The object that another visitor has read already; else this one."""
        if not isinstance(one, RayObject | Pod | Event):
            return share(one, before)
        name = (one.metadata.uid, one.metadata.resource_version)
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = share(one, before)
        return cast("_Part", known)


class RayObject(View, frozen=True, kw_only=True, gc=True, weakref=True):
    """Any of the four Ray kinds. Spec and status stay JSON, a fifth of its size as dicts, until a page reads them."""

    metadata: ObjectMeta = ObjectMeta()
    written_spec: msgspec.Raw = msgspec.field(default=_NOTHING, name="spec")
    written_status: msgspec.Raw = msgspec.field(default=_NOTHING, name="status")

    @property
    def spec(self) -> dict[str, Any]:
        """Decoded at each call: read it once."""
        return _decode(self.written_spec) or {}

    @property
    def status(self) -> dict[str, Any]:
        """Decoded at each call: read it once."""
        return _decode(self.written_status) or {}

    def document(self) -> dict[str, Any]:
        """The object as `manta.client.object_state` reads it."""
        meta = self.metadata
        named = {"name": meta.name, "namespace": meta.namespace, "generation": meta.generation}
        if meta.deletion_timestamp:
            named["deletionTimestamp"] = meta.deletion_timestamp
        return {"metadata": named, "spec": self.spec, "status": self.status}


# ── Pods ─────────────────────────────────────────────────────────────────────────────────


class PodCondition(View, frozen=True, kw_only=True):
    """Without its times: then those of most Pods are equal."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class Running(View, frozen=True, kw_only=True):
    """Without its time."""


class ContainerState(View, frozen=True, kw_only=True):
    """At most one is set; none means waiting without a reason."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(View, frozen=True, kw_only=True):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodSpec(View, frozen=True, kw_only=True):
    node_name: str = ""
    containers: tuple[Container, ...] = ()

    def __post_init__(self) -> None:
        """The Pods of a group have equal containers: they are stored once."""
        force_setattr(self, "containers", _containers(msgspec.json.encode(self.containers)))


class PodStatus(View, frozen=True, kw_only=True):
    phase: str = "Pending"
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()

    def __post_init__(self) -> None:
        for name in ("conditions", "container_statuses", "init_container_statuses"):
            force_setattr(self, name, _once(getattr(self, name)))


class Pod(Object, frozen=True, kw_only=True, gc=True, weakref=True):
    """No page shows its annotations, owners and finalizers."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def __post_init__(self) -> None:
        for name, nothing in (
            ("annotations", _EMPTY),
            ("owner_references", ()),
            ("finalizers", ()),
        ):
            force_setattr(self.metadata, name, nothing)


# ── Events ───────────────────────────────────────────────────────────────────────────────


def names_above(pod: str) -> Iterator[str]:
    """What may be the name of the object that created a Pod of this name: `a-b` and `a` of `a-b-x7k2p`."""
    words = pod.split("-")
    return ("-".join(words[:count]) for count in range(len(words) - 1, 0, -1))


class EventSeries(View, frozen=True, kw_only=True):
    count: int = 0
    last_observed_time: str | None = None


class Event(View, frozen=True, kw_only=True, gc=True, weakref=True):
    """A core/v1 Event."""

    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int | None = None
    event_time: str | None = None
    last_timestamp: str | None = None
    series: EventSeries | None = None

    @property
    def last_seen(self) -> str:
        """Recorders write the time to one of four fields."""
        repeated = self.series.last_observed_time if self.series else None
        return (
            self.last_timestamp or repeated or self.event_time or self.metadata.creation_timestamp
        )

    @property
    def times(self) -> int:
        return (self.series.count if self.series else 0) or self.count or 1
