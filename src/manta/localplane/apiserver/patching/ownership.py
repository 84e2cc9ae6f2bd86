"""Compares and merges objects by field sets.

The schema says which maps and lists are granular: their members have owners of their own. Atomic values
have one owner. Without a schema, maps are granular and lists atomic.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from manta.localplane.apiserver.patching.errors import failed
from manta.localplane.apiserver.patching.field_sets import (
    LEAF,
    SELF,
    Tree,
    as_member,
    is_member,
    printed,
)
from manta.localplane.apiserver.schema.node import NO_DEFAULT, Node
from manta.localplane.apiserver.schema.pruning import TYPE_META


class Difference(NamedTuple):
    added: Tree
    removed: Tree
    modified: Tree

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.modified)


class _Missing:
    """The field does not exist; null is a value."""


_MISSING: Final = _Missing()


# ── types ────────────────────────────────────────────────────────────────────────────────
def _is_shared_map(node: Node | None, value: Any) -> bool:
    return type(value) is dict and (node is None or node.map_type != "atomic")


def _is_keyed_list(node: Node | None, value: Any) -> bool:
    return type(value) is list and node is not None and not node.is_atomic_list


def _child(node: Node | None, name: str) -> Node | None:
    return None if node is None else node.child(name)


def _is_named(node: Node | None, name: str) -> bool:
    """Return whether the schema names the field; it may also be the key of a map."""
    if node is None:
        return False
    return name in node.properties or (node.embedded and name in TYPE_META)


def element_of(node: Node, item: Any) -> str:
    """Return the path element of a list item: its keys, or its value."""
    if node.list_type == "set" or type(item) is not dict:
        return f"v:{_compact(item)}"
    keys: dict[str, Any] = {}
    for name in sorted(node.list_map_keys):
        value = item.get(name, _default_key(node, name))
        if value is not NO_DEFAULT:
            keys[name] = value
    return f"k:{_compact(keys)}"


def _default_key(node: Node, name: str) -> Any:
    known = node.items.properties.get(name) if node.items is not None else None
    return NO_DEFAULT if known is None else known.default


_compact: Callable[[Any], str] = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":")
).encode


def _items(node: Node, items: list[Any] | None) -> dict[str, Any]:
    return {element_of(node, item): item for item in items or ()}


def refuse_duplicates(node: Node | None, value: Any, named: str, path: str = "") -> None:
    """Raises PatchError if an applied list has two items with the same key."""
    if type(value) is dict and _is_shared_map(node, value):
        for name, member in value.items():
            if type(member) is dict or type(member) is list:
                refuse_duplicates(_child(node, name), member, named, f"{path}.{name}")
    elif node is not None and _is_keyed_list(node, value):
        seen: set[str] = set()
        for item in value:
            element = element_of(node, item)
            if element in seen:
                raise failed(
                    f"failed to create typed patch object ({named}): {path}: duplicate entries "
                    f"for key {printed(element)}"
                )
            seen.add(element)
            refuse_duplicates(node.items, item, named, f"{path}{printed(element)}")


# ── comparison ───────────────────────────────────────────────────────────────────────────
def compare(node: Node | None, old: Any, new: Any) -> Difference:
    """Return the fields that are added, removed and modified."""
    trees: tuple[Tree, Tree, Tree] = ({}, {}, {})
    _compare_members(node, old, new, trees)
    return Difference(*trees)


_Trees = tuple[Tree, Tree, Tree]


def _compare_members(node: Node | None, old: Any, new: Any, out: _Trees) -> None:
    before, after = old or {}, new or {}
    for name, value in after.items():
        known = before.get(name, _MISSING)
        if known is not value:
            _compare_at(f"f:{name}", _child(node, name), known, value, out)
    for name, value in before.items():
        if name not in after:
            out[1][f"f:{name}"] = all_fields(_child(node, name), value)


def _compare_items(node: Node, old: Any, new: Any, out: _Trees) -> None:
    before, after = _items(node, old), _items(node, new)
    for element, value in after.items():
        known = before.get(element, _MISSING)
        if known is not value:
            _compare_at(element, node.items, known, value, out)
    for element, value in before.items():
        if element not in after:
            out[1][element] = all_fields(node.items, value)


def _compare_at(element: str, node: Node | None, old: Any, new: Any, out: _Trees) -> None:
    if old is _MISSING:
        out[0][element] = all_fields(node, new)
        return
    if old == new:
        return
    below: _Trees = ({}, {}, {})
    if (old or new) and _both_are(_is_shared_map, node, old, new):
        _compare_members(node, old, new, below)
    elif (old or new) and node is not None and _both_are(_is_keyed_list, node, old, new):
        _compare_items(node, old, new, below)
    else:
        out[2][element] = LEAF
        return
    for tree, found in zip(out, below, strict=True):
        if found:
            tree[element] = found


def _both_are(
    is_type: Callable[[Node | None, Any], bool], node: Node | None, old: Any, new: Any
) -> bool:
    """Return whether both values have the type; null counts as empty."""
    return (old is None or is_type(node, old)) and (new is None or is_type(node, new))


def all_fields(node: Node | None, value: Any) -> Tree:
    """Return the set of a value and everything in it."""
    if value and _is_shared_map(node, value):
        below = {f"f:{name}": all_fields(_child(node, name), one) for name, one in value.items()}
        return {SELF: LEAF, **below}
    if value and node is not None and _is_keyed_list(node, value):
        items = {
            element: all_fields(node.items, one) for element, one in _items(node, value).items()
        }
        return {SELF: LEAF, **items}
    return LEAF


# ── ownership ────────────────────────────────────────────────────────────────────────────
def owned(node: Node | None, value: dict[str, Any]) -> Tree:
    """Return the set that an applied object owns: its leaves, and the items of its lists."""
    tree: Tree = {}
    for name, member in value.items():
        child = _child(node, name)
        below = _owned_below(child, member)
        is_named = _is_named(node, name)
        if below is None or member is None or not is_named:
            below = as_member(below or LEAF)
        if below or not _is_empty_list(child, member):
            tree[f"f:{name}"] = below
    return tree


def _is_empty_list(node: Node | None, value: Any) -> bool:
    return value == [] and _is_keyed_list(node, value)


def _owned_below(node: Node | None, value: Any) -> Tree | None:
    """Return the set below a value; None if the value is a leaf."""
    if _is_shared_map(node, value):
        return owned(node, value) or None
    if node is not None and _is_keyed_list(node, value):
        return {
            element: as_member(_owned_below(node.items, item) or LEAF)
            for element, item in _items(node, value).items()
        }
    return None


def with_named_fields(node: Node | None, tree: Tree) -> Tree:
    """Return the set with the named fields above its members, which are not stored."""
    result: Tree = {}
    for element, below in tree.items():
        if element == SELF:
            result[SELF] = LEAF
            continue
        child, named = _below(node, element)
        deeper = with_named_fields(child, below) if below else below
        result[element] = as_member(deeper) if named else deeper
    return result


def _below(node: Node | None, element: str) -> tuple[Node | None, bool]:
    if element.startswith("f:"):
        name = element[2:]
        return _child(node, name), _is_named(node, name)
    return (node.items if node is not None else None), False


# ── merging and removing ─────────────────────────────────────────────────────────────────
def merge(node: Node | None, live: Any, config: Any) -> Any:
    """Return the live value merged with the config; the live value itself if nothing changes."""
    if live == config:
        return live
    if _is_shared_map(node, live) and _is_shared_map(node, config):
        changes = {
            name: merge(_child(node, name), live[name], value) if name in live else value
            for name, value in config.items()
        }
        fresh = {
            name: value for name, value in changes.items() if value is not live.get(name, _MISSING)
        }
        return {**live, **fresh} if fresh else live
    if node is not None and _is_keyed_list(node, live) and _is_keyed_list(node, config):
        return _merge_lists(node, live, config)
    return config


def _merge_lists(node: Node, live: list[Any], config: list[Any]) -> list[Any]:
    """Merge lists: items of the config in its order, the others keep their neighbours."""
    old, new = _items(node, live), _items(node, config)
    left, right = deque(old), deque(new)
    shared = deque(element for element in new if element in old)
    result: list[Any] = []
    while left or right:
        if left and left[0] not in new:
            result.append(old[left.popleft()])
        elif left and (not shared or left[0] != shared[0]):
            left.popleft()  # the config decides its position
        else:
            element = right.popleft()
            if shared and element == shared[0]:
                shared.popleft()
            result.append(
                merge(node.items, old[element], new[element]) if element in old else new[element]
            )
            if left and left[0] == element:
                left.popleft()
    same = len(result) == len(live) and all(a is b for a, b in zip(result, live, strict=True))
    return live if same else result


def remove(node: Node | None, value: Any, tree: Tree) -> Any:
    """Return the value without the fields and items of the set."""
    if not tree:
        return value
    if type(value) is dict:
        kept = {}
        for name, member in value.items():
            below = tree.get(f"f:{name}")
            if below is None:
                kept[name] = member
            elif not is_member(below):
                kept[name] = remove(_child(node, name), member, below)
        return kept
    if node is not None and _is_keyed_list(node, value):
        return [
            item if below is None else remove(node.items, item, below)
            for item in value
            if (below := tree.get(element_of(node, item))) is None or not is_member(below)
        ]
    return value
