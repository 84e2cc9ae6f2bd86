"""Compiles an OpenAPI v3 schema to a graph of nodes. Equal subschemas share a node.

KubeRay's four CRDs repeat one Pod template about twenty times. The table of known nodes is weak: a node
lives as long as a schema uses it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from manta.localplane.apiserver.schema.combinators import compile_combinators
from manta.localplane.apiserver.schema.formats import known_format
from manta.localplane.apiserver.schema.node import NO_DEFAULT, NO_PROPERTIES, PYTHON_TYPES, Node
from manta.localplane.apiserver.schema.rules import Rule, compile_rules
from manta.localplane.apiserver.schema.values import ValueCheck, compile_checks

_CHILDREN = frozenset({"properties", "items", "additionalProperties"})
_REMARKS = frozenset({"description", "title", "example", "externalDocs"})
_SKIPPED = _CHILDREN | _REMARKS

_known: WeakValueDictionary[tuple[Any, ...], Node] = WeakValueDictionary()


def compile_node(schema: Mapping[str, Any]) -> Node:
    """Return the node of a schema; the same node for equal schemas."""
    properties = {name: compile_node(sub) for name, sub in schema.get("properties", {}).items()}
    items = compile_node(schema["items"]) if isinstance(schema.get("items"), dict) else None
    more = schema.get("additionalProperties")
    additional = compile_node(more) if isinstance(more, dict) else None
    own = {key: value for key, value in schema.items() if key not in _SKIPPED}
    key = (
        msgspec.json.encode(own),
        tuple((name, id(node)) for name, node in properties.items()),
        id(items),
        id(additional) if additional is not None else more,
    )
    node = _known.get(key)
    if node is None:
        node = _build(own, properties, items, additional)
        node.any_key = more is True
        _known[key] = node
    return node


def make_node(  # noqa: PLR0913 - the parts of a node
    *,
    type_: str = "",
    format_: str = "",
    properties: Mapping[str, Node] | None = None,
    items: Node | None = None,
    additional: Node | None = None,
    required: Iterable[str] = (),
    nullable: bool = False,
    preserve: bool = False,
    embedded: bool = False,
    list_type: str = "",
    list_map_keys: Iterable[str] = (),
    map_type: str = "",
    strategies: Iterable[str] = (),
    merge_key: str = "",
    default: Any = NO_DEFAULT,
    check: ValueCheck | None = None,
    rules: tuple[Rule, ...] = (),
) -> Node:
    """Return a node, with summaries of the nodes below it."""
    node = Node()
    node.type_ = type_
    node.python_types = PYTHON_TYPES[type_]
    node.format = format_
    node.properties = properties or NO_PROPERTIES
    node.items = items
    node.additional = additional
    node.any_key = False
    node.required = tuple(required)
    node.nullable = nullable
    node.preserve = preserve
    node.embedded = embedded
    node.list_type = list_type
    node.list_map_keys = tuple(list_map_keys)
    node.map_type = map_type
    node.strategies = tuple(strategies)
    node.merge_key = merge_key
    node.default = default
    node.check = check
    node.rules = rules
    _summarize_below(node)
    return node


def _summarize_below(node: Node) -> None:
    below = node.children
    node.defaulted = tuple(
        (name, child) for name, child in node.properties.items() if child.default is not NO_DEFAULT
    )
    node.defaults_below = any(
        child.default is not NO_DEFAULT or child.defaults_below for child in below
    )
    node.list_types_below = not node.is_atomic_list or any(
        child.list_types_below for child in below
    )
    node.embedded_below = node.embedded or any(child.embedded_below for child in below)
    node.rules_below = bool(node.rules) or any(child.rules_below for child in below)
    node.transitions_below = any(rule.transition for rule in node.rules) or any(
        child.transitions_below for child in below
    )


def _build(
    own: Mapping[str, Any],
    properties: Mapping[str, Node],
    items: Node | None,
    additional: Node | None,
) -> Node:
    int_or_string = own.get("x-kubernetes-int-or-string") is True
    type_ = "integer,string" if int_or_string else own.get("type", "")
    checks = [
        check
        for check in (compile_checks(own), compile_combinators(own, compile_node))
        if check is not None
    ]
    return make_node(
        type_=type_ if type_ in PYTHON_TYPES else "",
        format_=own.get("format", "") if known_format(own.get("format", "")) else "",
        properties=properties,
        items=items,
        additional=additional,
        required=own.get("required", ()),
        nullable=own.get("nullable") is True,
        preserve=own.get("x-kubernetes-preserve-unknown-fields") is True,
        embedded=own.get("x-kubernetes-embedded-resource") is True,
        list_type=own.get("x-kubernetes-list-type", ""),
        list_map_keys=own.get("x-kubernetes-list-map-keys", ()),
        map_type=own.get("x-kubernetes-map-type", ""),
        default=own.get("default", NO_DEFAULT),
        check=_in_turn(checks),
        rules=compile_rules(own.get("x-kubernetes-validations", ())),
    )


def _in_turn(checks: list[ValueCheck]) -> ValueCheck | None:
    if len(checks) <= 1:
        return checks[0] if checks else None
    first, second = checks

    def check_both(value: Any, path: Any, out: Any) -> None:
        first(value, path, out)
        second(value, path, out)

    return check_both
