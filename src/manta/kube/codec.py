"""JSON to values and back. Decoders are built once per type; errors name the object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from manta.kube.errors import Malformed

T = TypeVar("T")

encode = msgspec.json.encode


class ListMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T], frozen=True, gc=False):
    metadata: ListMeta = ListMeta()
    items: list[T] | None = None
    """None: servers written in Go encode an empty list as null."""


class _Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class Identity(msgspec.Struct, frozen=True, gc=False):
    """The metadata that every object has."""

    metadata: _Meta = _Meta()


@cache
def _decoder(into: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(into)


def decoder(into: type[T]) -> msgspec.json.Decoder[T]:
    of_type: Any = into
    return _decoder(of_type)


def page_decoder(into: type[T]) -> msgspec.json.Decoder[Page[T]]:
    of_type: Any = into
    return _decoder(Page[of_type])


def decode(body: bytes | msgspec.Raw, into: type[T], what: str) -> T:
    """Decode one object. Raises Malformed, which names the object: `what` and its name."""
    try:
        return decoder(into).decode(body)
    except msgspec.MsgspecError as error:
        raise Malformed(f"{what}{_name_of(body)}: {error}") from error


def decode_page(body: bytes, into: type[T], what: str) -> Page[T]:
    """Decode a list. Raises Malformed, which names the first item that does not fit."""
    try:
        return page_decoder(into).decode(body)
    except msgspec.MsgspecError as error:
        _raise_for_first_bad_item(body, into, what)
        raise Malformed(f"{what}: {error}") from error


def encode_body(body: Mapping[str, Any] | Sequence[Any] | bytes) -> bytes:
    return body if isinstance(body, bytes) else encode(body)


def _raise_for_first_bad_item(body: bytes, into: type[T], what: str) -> None:
    """Raise Malformed for the first item that cannot be decoded; return if all can."""
    try:
        items = page_decoder(msgspec.Raw).decode(body).items or []
    except msgspec.MsgspecError:
        return
    for item in items:
        decode(item, into, what)


def _name_of(body: bytes | msgspec.Raw) -> str:
    try:
        meta = decoder(Identity).decode(body).metadata
    except msgspec.MsgspecError:
        return ""
    return f" {meta.namespace}/{meta.name}" if meta.namespace else f" {meta.name}"
