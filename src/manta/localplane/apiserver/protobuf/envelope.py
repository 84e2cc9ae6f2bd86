"""The envelope of a protobuf body: four magic bytes, then apiVersion, kind and the object."""

from __future__ import annotations

from typing import Any, Final

from manta.api.documents import limits
from manta.api.documents.reader import read_json
from manta.localplane.apiserver.builtin_kinds.messages import message_of
from manta.localplane.apiserver.builtin_kinds.reading import read_object
from manta.localplane.apiserver.protobuf.messages import decode_message
from manta.localplane.apiserver.protobuf.wire import ProtobufError, read_fields

MAGIC: Final = b"k8s\x00"


def decode(body: bytes) -> dict[str, Any]:
    """Return the object in a body, with apiVersion and kind. Raises ProtobufError (a ValueError)."""
    if not body.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message")
    parts: dict[int, bytes] = {}
    for number, value in read_fields(body[len(MAGIC) :]):
        if not isinstance(value, bytes):
            raise ProtobufError("malformed envelope")
        parts[number] = value
    api_version, kind = _type_meta(parts.get(1, b""))
    raw = parts.get(2, b"")
    try:
        obj = _content(api_version, kind, raw, parts.get(4, b""))
    except RecursionError:
        raise ProtobufError("the message is nested too deeply") from None
    return {"apiVersion": api_version, "kind": kind, **obj}


def _type_meta(data: bytes) -> tuple[str, str]:
    fields = dict(read_fields(data))
    names = [fields.get(number, b"") for number in (1, 2)]
    try:
        api_version, kind = (name.decode() if isinstance(name, bytes) else "" for name in names)
    except UnicodeDecodeError:
        raise ProtobufError("malformed type in the envelope") from None
    return api_version, kind


def _content(api_version: str, kind: str, raw: bytes, content_type: bytes) -> dict[str, Any]:
    if content_type == b"application/json":
        try:
            value = read_json(raw, limits.REQUEST)
        except limits.DocumentError:
            value = None
        if not isinstance(value, dict):
            raise ProtobufError("the envelope promises JSON and holds something else")
        return {key: value[key] for key in value if key not in {"apiVersion", "kind"}}
    name = message_of(api_version, kind)
    if name is None:
        raise ProtobufError(f'no kind "{kind}" is registered for version "{api_version}"')
    return read_object(api_version, kind, decode_message(name, raw))
