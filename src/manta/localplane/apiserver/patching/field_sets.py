"""Sets of field paths, in the form in which managedFields stores them.

A set is a tree of path elements: `f:name` a field, `k:{"name":"c"}` an element of a list map,
`v:"x"` an element of a set. A path is in the set if its node is empty or has the member `.`:

    {"f:data": {"f:a": {}}}              data.a
    {"f:data": {".": {}, "f:a": {}}}     data, and data.a

Trees are never changed once made; results share what did not change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

Tree: TypeAlias = dict[str, Any]

LEAF: Final[Tree] = {}
SELF: Final = "."


def is_member(tree: Tree) -> bool:
    """Return whether the path itself is in the set, not only paths below it."""
    return not tree or SELF in tree


def as_member(tree: Tree) -> Tree:
    return tree if is_member(tree) else {SELF: LEAF, **tree}


def union(left: Tree, right: Tree) -> Tree:
    """Return the union of two sets; an empty tree is the empty set."""
    if not left or not right:
        return left or right
    result = dict(left)
    for element, below in right.items():
        known = result.get(element)
        result[element] = below if known is None else _union_node(known, below)
    return result


def _union_node(left: Tree, right: Tree) -> Tree:
    if left is right:
        return left
    below = union(_children(left), _children(right))
    return _node(below, member=is_member(left) or is_member(right))


def difference(left: Tree, right: Tree) -> Tree:
    """Return the paths of the first set that are not in the second."""
    if not right or not (left.keys() & right.keys()):
        return left
    result = dict(left)
    for element in left.keys() & right.keys():
        rest = _difference_node(left[element], right[element])
        if rest is None:
            del result[element]
        else:
            result[element] = rest
    return result


def _difference_node(left: Tree, right: Tree) -> Tree | None:
    below = difference(_children(left), _children(right))
    return _node_or_nothing(below, member=is_member(left) and not is_member(right))


def intersection(left: Tree, right: Tree) -> Tree:
    """Return the paths that are in both sets."""
    result: Tree = {}
    for element in left.keys() & right.keys():
        one, other = left[element], right[element]
        below = intersection(_children(one), _children(other))
        node = _node_or_nothing(below, member=is_member(one) and is_member(other))
        if node is not None:
            result[element] = node
    return result


def _children(node: Tree) -> Tree:
    if SELF not in node:
        return node
    return {element: below for element, below in node.items() if element != SELF}


def _node(below: Tree, *, member: bool) -> Tree:
    return {SELF: LEAF, **below} if member and below else below


def _node_or_nothing(below: Tree, *, member: bool) -> Tree | None:
    return _node(below, member=member) if member or below else None


def paths(tree: Tree, prefix: str = "") -> Iterator[str]:
    """Yield every path as messages print it: at each level members first, then paths below."""
    elements = sorted(element for element in tree if element != SELF)
    for element in elements:
        if is_member(tree[element]):
            yield prefix + printed(element)
    for element in elements:
        yield from paths(tree[element], prefix + printed(element))


def printed(element: str) -> str:
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "v:":
        return f"[={text}]"
    if kind == "k:":
        keys = json.loads(text).items()
        return "[" + ",".join(f"{name}={json.dumps(value)}" for name, value in keys) + "]"
    return f"[{text}]"
