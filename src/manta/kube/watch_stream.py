"""Decodes a watch stream, without I/O: bytes in, events out.

Lines are split here because one object may exceed an HTTP library's line limit. An event is decoded in two
steps: first its type and the raw object, then the object as the requested type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from manta.api.well_known import ANNOTATION_INITIAL_EVENTS_END
from manta.kube import codec
from manta.kube.errors import Malformed, error_from_status

T = TypeVar("T")

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


@dataclass(frozen=True, slots=True)
class WatchEvent(Generic[T]):
    type: EventType
    object: T
    """The object that changed; None for a BOOKMARK."""
    resource_version: str
    """Where to resume after this event."""
    initial_end: bool = False
    """This BOOKMARK ends the initial events of a streaming list."""


class LineSplitter:
    """Splits chunks into lines. Copies each line once, however many chunks it spans."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The non-empty lines that this chunk completes."""
        if b"\n" not in chunk:
            self._pending.append(chunk)
            return []
        *lines, rest = chunk.split(b"\n")
        lines[0] = b"".join((*self._pending, lines[0]))
        self._pending = [rest] if rest else []
        return [line for line in lines if line.strip()]

    @property
    def cut_off(self) -> bool:
        """Whether a line is incomplete: if the stream has ended, its last event is lost."""
        return any(part.strip() for part in self._pending)


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def decode_event(line: bytes, into: type[T], what: str) -> WatchEvent[T]:
    """The event of one line. Raises Malformed, or the ApiError of an ERROR event: Gone if the resourceVersion
    is too old."""
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
            # Bookmarks of built-in types have nulls where objects have fields, so they are not decoded as
            # the requested type.
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
    return meta.resource_version, (meta.annotations or {}).get(
        ANNOTATION_INITIAL_EVENTS_END
    ) == "true"
