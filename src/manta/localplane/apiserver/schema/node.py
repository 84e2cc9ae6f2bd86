"""One place in a schema: what may stand there, and what lies below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from manta.localplane.apiserver.schema.rules import Rule
    from manta.localplane.apiserver.schema.values import ValueCheck


class _NoDefault:
    """Tells `default: null` from no default."""


NO_DEFAULT: Final = _NoDefault()
NO_PROPERTIES: Final[Mapping[str, Node]] = {}

# What the JSON types look like in Python, by the exact type of a decoded value.
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
    """A compiled subschema. Immutable once built, and shared by all equal subschemas.

    Built-in kinds are made of the same nodes as custom resources, so that pruning, list types
    and field ownership know only one language.
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
    """What the values of a map look like."""
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
        """The node of a member: a property, or else what any value of the map looks like."""
        return self.properties.get(name, self.additional)

    @property
    def is_atomic_list(self) -> bool:
        return self.list_type not in {"set", "map"}
