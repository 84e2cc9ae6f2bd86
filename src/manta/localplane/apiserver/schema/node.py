"""A node of a compiled schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from manta.localplane.apiserver.schema.rules import Rule
    from manta.localplane.apiserver.schema.values import ValueCheck


class _NoDefault:
    """Distinguishes `default: null` from no default."""


NO_DEFAULT: Final = _NoDefault()
NO_PROPERTIES: Final[Mapping[str, Node]] = {}

# Python type of a decoded value -> JSON type.
PYTHON_TYPES: Final[Mapping[str, frozenset[type]]] = {
    "object": frozenset({dict}),
    "array": frozenset({list}),
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "integer,string": frozenset({int, str}),
    "": frozenset({dict, list, str, int, float, bool}),
}


class Node:
    """A compiled subschema. Immutable, and shared by all equal subschemas.

    Built-in kinds and custom resources use the same nodes.
    """

    __slots__ = (
        "__weakref__",
        "additional",
        "any_key",
        "check",
        "default",
        "defaulted",
        "defaults_below",
        "embedded",
        "embedded_below",
        "format",
        "items",
        "list_map_keys",
        "list_type",
        "list_types_below",
        "map_type",
        "merge_key",
        "nullable",
        "preserve",
        "properties",
        "python_types",
        "required",
        "rules",
        "rules_below",
        "strategies",
        "transitions_below",
        "type_",
    )

    type_: str
    """A JSON type, `integer,string`, or empty for anything."""
    python_types: frozenset[type]
    format: str
    """The format of a string, if it is one that is checked."""
    properties: Mapping[str, Node]
    additional: Node | None
    """The schema of the values of a map."""
    any_key: bool
    """`additionalProperties: true`."""
    items: Node | None
    required: tuple[str, ...]
    nullable: bool
    preserve: bool
    """x-kubernetes-preserve-unknown-fields."""
    embedded: bool
    """x-kubernetes-embedded-resource."""
    list_type: str
    """`atomic`, `set`, `map`, or empty, which means atomic."""
    list_map_keys: tuple[str, ...]
    map_type: str
    """`atomic`, `granular`, or empty, which means granular."""
    strategies: tuple[str, ...]
    """patchStrategy of built-in kinds: `merge`, `replace`, `retainKeys`."""
    merge_key: str
    """patchMergeKey of built-in kinds."""
    default: Any
    check: ValueCheck | None
    rules: tuple[Rule, ...]
    defaulted: tuple[tuple[str, Node], ...]
    """The properties that have a default themselves."""
    defaults_below: bool
    list_types_below: bool
    """Somewhere below, or here, are lists with unique elements."""
    embedded_below: bool
    rules_below: bool
    transitions_below: bool

    @property
    def children(self) -> list[Node]:
        below = list(self.properties.values())
        below.extend(node for node in (self.additional, self.items) if node is not None)
        return below

    def child(self, name: str) -> Node | None:
        """Return the node of a property, or else that of the values of the map."""
        return self.properties.get(name, self.additional)

    @property
    def is_atomic_list(self) -> bool:
        return self.list_type not in {"set", "map"}
