"""The wire form of a watch, without any I/O: bytes in, events out.

Lines are split here and not by the HTTP library, because a single object may be larger than
any line limit. An event is decoded in two steps: its type and raw object first, then the object
into the wanted type, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from manta.kube import codec
from manta.kube.errors import Malformed, error_from_status

T = TypeVar("T")

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    type: EventType
    object: T
    """What changed. A BOOKMARK has none: do not look."""
    resource_version: str
    """From where to resume after this event."""
    initial_end: bool = False
    """This BOOKMARK ends the initial events of a streaming list."""


class LineSplitter:
    """Collects bytes until a line is whole. Costs one copy of a line, however many chunks."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their ends and without empty ones."""
        if b"\n" not in chunk:
            self._pending.append(chunk)
            return []
        *lines, rest = chunk.split(b"\n")
        lines[0] = b"".join((*self._pending, lines[0]))
        self._pending = [rest] if rest else []
        return [line for line in lines if line.strip()]

    @property
    def cut_off(self) -> bool:
        """The stream ended inside a line: its last event is lost."""
        return any(part.strip() for part in self._pending)


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def decode_event(line: bytes, into: type[T], what: str) -> WatchEvent[T]:
    """One line of the stream. An ERROR event is raised: Gone when history was compacted."""
    try:
        envelope = _ENVELOPE.decode(line)
    except msgspec.MsgspecError as error:
        raise Malformed(f"watch of {what}: {error}") from error
    match envelope.type:
        case "ADDED" | "MODIFIED" | "DELETED":
            value = codec.decode(envelope.object, into, what)
            version = _version_of(value) or _identity(envelope.object, what)[0]
            return WatchEvent(envelope.type, value, version)
        case "BOOKMARK":
            version, ends = _identity(envelope.object, what)
            # Bookmarks of built-in types carry nulls where objects have fields, so they are
            # never decoded into the wanted type.
            return WatchEvent("BOOKMARK", cast("T", None), version, initial_end=ends)
        case "ERROR":
            raise error_from_status(envelope.object)
        case other:
            raise Malformed(f"watch of {what}: unknown event type {other!r}")


def _version_of(value: Any) -> str:
    """The resourceVersion of a decoded object, without decoding anything twice."""
    if isinstance(value, dict):
        meta = value.get("metadata")
        return meta.get("resourceVersion", "") if isinstance(meta, dict) else ""
    return getattr(getattr(value, "metadata", None), "resource_version", "")


def _identity(raw: msgspec.Raw, what: str) -> tuple[str, bool]:
    meta = codec.decode(raw, codec.Identity, f"watch of {what}").metadata
    return meta.resource_version, (meta.annotations or {}).get(INITIAL_EVENTS_END) == "true"
