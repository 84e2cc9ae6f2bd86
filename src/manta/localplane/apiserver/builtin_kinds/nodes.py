"""Schema nodes of built-in kinds, for patches and managedFields."""

from __future__ import annotations

from functools import cache
from weakref import WeakKeyDictionary

from manta.localplane.apiserver.builtin_kinds.messages import (
    Field,
    flat_fields,
    is_kind,
    is_message,
    message,
    message_of,
)
from manta.localplane.apiserver.schema.compilation import make_node
from manta.localplane.apiserver.schema.node import NO_DEFAULT, Node

_SCALARS = {
    "string": "string",
    "bytes": "string",
    "bool": "boolean",
    "int32": "integer",
    "int64": "integer",
    "float": "number",
    "Time": "string",
    "MicroTime": "string",
    "Duration": "string",
    "Quantity": "integer,string",
    "IntOrString": "integer,string",
}

# The schema inside a CRD is owned as one value. Its type contains itself.
_OPAQUE = frozenset({"apiextensions.JSONSchemaProps"})


def node_of_kind(api_version: str, kind: str) -> Node | None:
    """The node of a built-in kind; None for other kinds."""
    name = message_of(api_version, kind)
    return None if name is None else _message_node(name)


_custom: WeakKeyDictionary[Node, Node] = WeakKeyDictionary()


def node_of_custom(root: Node) -> Node:
    """The node of a custom resource: its schema, with the type of metadata."""
    node = _custom.get(root)
    if node is None:
        properties = {**root.properties, "metadata": _message_node("meta.ObjectMeta")}
        node = make_node(
            type_="object",
            properties=properties,
            additional=root.additional,
            preserve=root.preserve,
            map_type=root.map_type,
        )
        _custom[root] = node
    return node


@cache
def _message_node(name: str, *, atomic: bool = False) -> Node:
    if name in _OPAQUE:
        return make_node(type_="object", preserve=True, map_type="atomic")
    properties = {field.name: _field_node(field) for field in flat_fields(name)}
    if is_kind(name):
        properties["apiVersion"] = properties["kind"] = make_node(type_="string")
    map_type = "atomic" if atomic or message(name).atomic else ""
    return make_node(type_="object", properties=properties, map_type=map_type)


def _field_node(field: Field) -> Node:
    strategies = tuple(field.strategy.split(",")) if field.strategy else ()
    if field.type == "Strings":
        return make_node(type_="array", items=_element_node("string"))
    if field.repeated:
        return make_node(
            type_="array",
            items=_element_node(field.element),
            list_type=field.list_type,
            list_map_keys=field.list_map_keys,
            strategies=strategies,
            merge_key=field.merge_key,
        )
    if field.keyed:
        map_type = "atomic" if field.atomic else ""
        values = _element_node(field.element)
        return make_node(
            type_="object", additional=values, map_type=map_type, strategies=strategies
        )
    if strategies or field.default is not None:
        return _with_facets(_element_node(field.element, atomic=bool(field.atomic)), field)
    return _element_node(field.element, atomic=bool(field.atomic))


def _with_facets(plain: Node, field: Field) -> Node:
    return make_node(
        type_=plain.type_,
        properties=plain.properties,
        items=plain.items,
        additional=plain.additional,
        preserve=plain.preserve,
        map_type=plain.map_type,
        strategies=tuple(field.strategy.split(",")) if field.strategy else (),
        default=NO_DEFAULT if field.default is None else field.default,
    )


@cache
def _element_node(type_: str, *, atomic: bool = False) -> Node:
    if is_message(type_):
        return _message_node(type_, atomic=atomic)
    if type_ == "Strings":
        return make_node(type_="array", items=_element_node("string"))
    if type_ in _SCALARS:
        return make_node(type_=_SCALARS[type_])
    return make_node(preserve=True, map_type="atomic")
