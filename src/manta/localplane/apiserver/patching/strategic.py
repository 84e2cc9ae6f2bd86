"""Strategic merge patches: merge patches that merge keyed lists item by item.

How a list merges comes from the table of the built-in kinds (`patchStrategy`, `patchMergeKey`).
Directives in a patch start with `$`:

    $patch: replace | delete            for the object or list item that contains it
    $retainKeys: [...]                  removes all other members of the object
    $deleteFromPrimitiveList/x: [...]   removes these values from the list x
    $setElementOrder/x: [...]           the resulting order of the list x
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from manta.localplane.apiserver.patching.errors import PatchError, failed, malformed
from manta.localplane.apiserver.patching.go_text import go_text
from manta.localplane.apiserver.schema.node import Node

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_DELETE_VALUES: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"

Json = dict[str, Any]


def apply_strategic_patch(obj: Json, patch: Any, node: Node) -> Json:
    """Return the object after `patch`; `node` is the schema of the kind. Raises PatchError."""
    if not isinstance(patch, dict):
        raise malformed(
            "json: cannot unmarshal array into Go value of type map[string]interface {}"
        )
    return _merge(obj, patch, node)


def _merge(target: Json, patch: Json, node: Node | None) -> Json:
    if _DIRECTIVE in patch:
        return _directed(patch)
    result = _retained(target, patch) if _RETAIN_KEYS in patch else dict(target)
    for key, value in patch.items():
        if key.startswith(_DELETE_VALUES):
            _delete_values(result, key.removeprefix(_DELETE_VALUES), value)
    for key in _lists_in_order(patch):
        _merge_in_order(result, patch, key, _child(node, key))
    for key, value in patch.items():
        if not key.startswith("$") and _ORDER + key not in patch:
            _merge_member(result, key, value, _child(node, key))
    return result


def _directed(patch: Json) -> Json:
    directive = patch[_DIRECTIVE]
    if directive == "replace":
        return {
            key: _clean(value)
            for key, value in patch.items()
            if value is not None and not key.startswith("$")
        }
    if directive == "delete":
        return {}
    raise PatchError(f"unknown patch type found: {directive}")


def _child(node: Node | None, key: str) -> Node | None:
    return None if node is None else node.child(key)


def _merge_member(result: Json, key: str, value: Any, node: Node | None) -> None:
    current = result.get(key)
    if value is None or (type(value) is not type(current) and _is_directive(value)):
        result.pop(key, None)
    elif isinstance(value, dict) and isinstance(current, dict) and not _replaces(node):
        result[key] = _merge(current, value, node)
    elif isinstance(value, list) and isinstance(current, list) and _merges(node):
        result[key] = _merge_list(current, value, node)
    elif isinstance(value, dict) and isinstance(current, list):
        raise PatchError("cannot restore slice from map", unreadable=True)
    else:
        result[key] = _clean(value)


def _is_directive(value: Any) -> bool:
    """Return whether an object contains a `$patch` directive."""
    return isinstance(value, dict) and _DIRECTIVE in value


def _merges(node: Node | None) -> bool:
    return node is not None and "merge" in node.strategies


def _replaces(node: Node | None) -> bool:
    return node is not None and "replace" in node.strategies


def _retained(target: Json, patch: Json) -> Json:
    keys = patch[_RETAIN_KEYS]
    if not isinstance(keys, list) or not {
        key for key, value in patch.items() if not key.startswith("$") and value is not None
    } <= set(keys):
        raise malformed("invalid patch format of retainKeys")
    return {key: value for key, value in target.items() if key in keys}


def _delete_values(result: Json, key: str, values: Any) -> None:
    if not isinstance(values, list):
        raise malformed("invalid patch format of primitive list")
    if isinstance(result.get(key), list):
        gone = {_hashable(value) for value in values}
        result[key] = [value for value in result[key] if _hashable(value) not in gone]


# ── lists ────────────────────────────────────────────────────────────────────────────────
def _merge_list(current: list[Any], patch: list[Any], node: Node | None) -> list[Any]:
    """Return the merged list: items of the patch in its order, between the others."""
    if any(isinstance(item, list) for item in (*current, *patch)):
        raise PatchError("lists of lists are not supported")
    if not any(isinstance(item, dict) for item in (*current, *patch)):
        merged = list(dict.fromkeys([*current, *patch]))
        return _in_order(merged, patch, current, lambda item: item)
    if any(not isinstance(item, dict) for item in (*current, *patch)):
        raise PatchError("a list of objects cannot merge with a list of values")
    if node is None or not node.merge_key:
        raise PatchError("cannot merge lists without merge key")
    identity = _identity(node)
    plain = [item for item in patch if _DIRECTIVE not in item]
    if any(item.get(_DIRECTIVE) == "replace" for item in patch):
        return [_clean(item) for item in plain]
    deleted = {identity(item) for item in patch if _is_deletion(item)}
    kept = [item for item in current if identity(item) not in deleted]
    merged = _merge_elements(kept, plain, identity, node)
    return _in_order(merged, [identity(item) for item in plain], kept, identity)


def _is_deletion(item: Json) -> bool:
    if _DIRECTIVE not in item:
        return False
    if item[_DIRECTIVE] != "delete":
        raise PatchError(f"unknown patch type found: {item[_DIRECTIVE]}")
    return True


def _merge_elements(
    kept: list[Any], patch: list[Json], identity: Callable[[Any], Any], node: Node
) -> list[Any]:
    merged = list(kept)
    places = _places([identity(one) for one in merged])
    for item in patch:
        at = places.setdefault(identity(item), len(merged))
        if at == len(merged):
            merged.append(_merge({}, item, node.items))
        else:
            merged[at] = _merge(merged[at], item, node.items)
    return merged


# ── order ────────────────────────────────────────────────────────────────────────────────
def _lists_in_order(patch: Json) -> list[str]:
    return [key.removeprefix(_ORDER) for key in patch if key.startswith(_ORDER)]


def _merge_in_order(result: Json, patch: Json, key: str, node: Node | None) -> None:
    """Merge a list, in the order that the client requests.

    Items that only the server has keep their place next to their old neighbours.
    """
    order = patch[_ORDER + key]
    current = result.get(key) or []
    changes = patch.get(key) or []
    if not isinstance(order, list) or not isinstance(changes, list):
        raise malformed("invalid patch format of setElementOrder list")
    if not current and not changes:
        return
    identity = _identity(node)
    wanted = [identity(item) for item in order]
    _check_order(changes, wanted, identity)
    if not changes:
        merged = list(current)
    elif _merges(node) and current:
        merged = _merge_list(current, changes, node)
    else:
        merged = _clean(changes)
    result[key] = _in_order(merged, wanted, current, identity)


def _in_order(
    merged: list[Any], wanted: Sequence[Any], current: list[Any], identity: Callable[[Any], Any]
) -> list[Any]:
    places = _places(wanted)
    named = [item for item in merged if identity(item) in places]
    named.sort(key=lambda item: places[identity(item)])
    others = [item for item in merged if identity(item) not in places]
    return _interleave(others, named, [identity(item) for item in current], identity)


def _places(items: Sequence[Any]) -> dict[Any, int]:
    """Return the first position of each item, so that long lists are merged in linear time."""
    places: dict[Any, int] = {}
    for number, item in enumerate(items):
        places.setdefault(item, number)
    return places


def _hashable(value: Any) -> Any:
    """Return a hashable form of a value; equal values have equal forms."""
    return go_text(value) if isinstance(value, dict | list) else value


def _identity(node: Node | None) -> Callable[[Any], Any]:
    merge_key = node.merge_key if node is not None else ""

    def identity(item: Any) -> Any:
        if not isinstance(item, dict):
            return _hashable(item)
        if merge_key not in item:
            raise failed(f"map: {go_text(item)} does not contain declared merge key: {merge_key}")
        return _hashable(item[merge_key])

    return identity


def _check_order(changes: list[Any], wanted: Sequence[Any], identity: Callable[[Any], Any]) -> None:
    named = [
        identity(item)
        for item in changes
        if not isinstance(item, dict) or item.get(_DIRECTIVE) != "delete"
    ]
    known = set(named)
    if [item for item in wanted if item in known] != list(dict.fromkeys(named)):
        raise malformed("The order in patch list doesn't match setElementOrder list in the patch")


def _interleave(
    left: list[Any], right: list[Any], old: Sequence[Any], identity: Callable[[Any], Any]
) -> list[Any]:
    """Merge two lists: an item of the left goes first where it was first before."""
    result: list[Any] = []
    places = _places(old)
    lefts, rights = deque(left), deque(right)
    while lefts and rights:
        first, second = places.get(identity(lefts[0])), places.get(identity(rights[0]))
        is_first = first is not None and second is not None and first < second
        result.append((lefts if is_first else rights).popleft())
    return [*result, *lefts, *rights]


def _clean(value: Any) -> Any:
    """Return a new value without nulls, directives and items to delete."""
    if isinstance(value, dict):
        return {
            key: _clean(item)
            for key, item in value.items()
            if item is not None and not key.startswith("$") and not _is_directive(item)
        }
    if isinstance(value, list):
        return [_clean(item) for item in value if not _is_directive(item)]
    return value
