"""The table of the built-in kinds (`kinds.json`), read when first needed.

A message is a Go struct of Kubernetes: its fields with their names in JSON, their numbers in
protobuf, how lists and maps merge, and whether Go prints them when they are empty.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import msgspec


class Field(msgspec.Struct, frozen=True, gc=False):
    name: str = msgspec.field(name="n", default="")
    """The name in JSON; empty for an inlined struct."""
    type: str = msgspec.field(name="t", default="string")
    """A scalar, a special type such as `Quantity`, or a message; `[]` and `{}` before it."""
    number: int = msgspec.field(name="p", default=0)
    flags: str = msgspec.field(name="f", default="")
    list_type: str = msgspec.field(name="l", default="")
    list_map_keys: tuple[str, ...] = msgspec.field(name="k", default=())
    atomic: int = msgspec.field(name="a", default=0)
    strategy: str = msgspec.field(name="s", default="")
    merge_key: str = msgspec.field(name="g", default="")
    default: str | int | bool | None = msgspec.field(name="d", default=None)

    @property
    def omit_empty(self) -> bool:
        return "o" in self.flags

    @property
    def omit_zero(self) -> bool:
        """Go omits the field even if it is a struct whose fields are all empty."""
        return "z" in self.flags

    @property
    def pointer(self) -> bool:
        return "*" in self.flags

    @property
    def inline(self) -> bool:
        return "i" in self.flags

    @property
    def required(self) -> bool:
        return "r" in self.flags

    @property
    def repeated(self) -> bool:
        return self.type.startswith("[]")

    @property
    def keyed(self) -> bool:
        return self.type.startswith("{}")

    @property
    def element(self) -> str:
        """The type of the value itself, or of one element of the list or map."""
        return self.type[2:] if self.type[:2] in {"[]", "{}"} else self.type


class Message(msgspec.Struct, frozen=True, gc=False):
    fields: tuple[Field, ...] = msgspec.field(name="f", default=())
    atomic: int = msgspec.field(name="a", default=0)


class _Table(msgspec.Struct, frozen=True, gc=False):
    version: str
    kinds: dict[str, str]
    messages: dict[str, Message]


# The kinds of meta/v1, which every API group registers.
_META_KINDS = frozenset(
    {
        "CreateOptions",
        "DeleteOptions",
        "GetOptions",
        "ListOptions",
        "PatchOptions",
        "Status",
        "UpdateOptions",
    }
)


@cache
def table() -> _Table:
    text = files(__package__).joinpath("kinds.json").read_bytes()
    return msgspec.json.decode(text, type=_Table)


def message_of(api_version: str, kind: str) -> str | None:
    """The message of a kind, or None if the kind is not built in."""
    if kind in _META_KINDS:
        return f"meta.{kind}"
    return table().kinds.get(f"{api_version}/{kind}")


def message(name: str) -> Message:
    return table().messages[name]


def is_message(type_: str) -> bool:
    return type_ in table().messages


@cache
def _kind_messages() -> frozenset[str]:
    return frozenset(table().kinds.values())


def is_kind(name: str) -> bool:
    """Whether a message has apiVersion and kind."""
    return name in _kind_messages()


def flat_fields(name: str) -> list[Field]:
    """The fields of a message in JSON, with those of inlined structs."""
    found: list[Field] = []
    for field in message(name).fields:
        found.extend(flat_fields(field.element) if field.inline else [field])
    return found
