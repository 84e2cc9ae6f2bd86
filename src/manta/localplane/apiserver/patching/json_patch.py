"""JSON patches (RFC 6902), as tolerant as the library of kube-apiserver.

Unlike the RFC, `replace` of a missing member under an existing parent succeeds: Ray's autoscaler
needs that. Negative list indexes count from the end, and `test` against null accepts a missing member.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from manta.api.documents import limits
from manta.api.documents.reader import check_depth
from manta.localplane.apiserver.patching.errors import PatchError, malformed

MAX_OPERATIONS = 10_000
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""The size of all values that the `copy` operations of one patch copy, as in kube-apiserver."""

_MISSING = object()


def apply_json_patch(obj: dict[str, Any], operations: Any) -> dict[str, Any]:
    """Return the object after all operations. Raises PatchError."""
    if not isinstance(operations, list) or not all(isinstance(op, dict) for op in operations):
        raise malformed("invalid JSON patch")
    if len(operations) > MAX_OPERATIONS:
        raise _too_large(
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, "
            f"got {len(operations)}"
        )
    document = _Document(obj)
    for operation in operations:
        document.perform(operation)
    if not isinstance(document.root, dict):
        raise PatchError("the patched document is not an object")
    try:
        check_depth(document.root, limits.REQUEST)
    except limits.DocumentError as error:
        raise malformed(f"the patched object is {error}") from None
    return document.root


def _too_large(message: str) -> PatchError:
    return PatchError(message, status=413, message=message)


class _Document:
    """A copy-on-write document: containers are copied once, when first changed."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._owned: dict[int, Any] = {}  # id -> container; the value keeps the id alive
        self._copied = 0

    def perform(self, operation: dict[str, Any]) -> None:
        kind = operation.get("op")
        act = _OPERATIONS.get(kind) if isinstance(kind, str) else None
        if act is None:
            raise PatchError(f"unexpected kind of operation: {kind!r}")
        act(self, operation)

    def add(self, operation: dict[str, Any]) -> None:
        self._put(_path(operation, "path"), operation.get("value"), insert=True)

    def remove(self, operation: dict[str, Any]) -> None:
        self._take(_path(operation, "path"))

    def replace(self, operation: dict[str, Any]) -> None:
        path = _path(operation, "path")
        if not path:
            self.root = operation.get("value")
            return
        self._put(path, operation.get("value"), insert=False)

    def move(self, operation: dict[str, Any]) -> None:
        value = self._take(_path(operation, "from"))
        self._put(_path(operation, "path"), value, insert=True)

    def copy(self, operation: dict[str, Any]) -> None:
        value = self._look(_path(operation, "from"))
        value = None if value is _MISSING else self._duplicate(value)
        self._put(_path(operation, "path"), value, insert=True)

    def _duplicate(self, value: Any) -> Any:
        """Return a deep copy, which counts for the limit of all copies."""
        try:
            check_depth(value, limits.REQUEST)
        except limits.DocumentError as error:
            raise malformed(f"the value to copy is {error}") from None
        raw = msgspec.json.encode(value)
        self._copied += len(raw)
        if self._copied > MAX_COPIED_BYTES:
            raise _too_large(
                "Unable to complete the copy, the accumulated size increase of copy is "
                f"{self._copied}, exceeding the limit {MAX_COPIED_BYTES}"
            )
        return msgspec.json.decode(raw)

    def test(self, operation: dict[str, Any]) -> None:
        found = self._look(_path(operation, "path"))
        found = None if found is _MISSING else found
        if not _same_json(found, operation.get("value")):
            raise PatchError(f"test of {operation.get('path')} failed")

    def _look(self, path: list[str]) -> Any:
        if not path:
            return self.root
        container = self.root
        for part in path[:-1]:
            container = _member(container, part)
        return _member(container, path[-1], leaf=True)

    def _writable_parent(self, path: list[str]) -> Any:
        if not path:
            raise PatchError("the whole document cannot be the target")
        self.root = container = self._own(self.root)
        for part in path[:-1]:
            child = self._own(_member(container, part))
            container[_index(container, part) if isinstance(container, list) else part] = child
            container = child
        return container

    def _own(self, container: Any) -> Any:
        if id(container) in self._owned:
            return container
        if not isinstance(container, dict | list):
            raise PatchError("a scalar has no members")
        copy = container.copy()
        self._owned[id(copy)] = copy
        return copy

    def _put(self, path: list[str], value: Any, *, insert: bool) -> None:
        parent = self._writable_parent(path)
        key = path[-1]
        if isinstance(parent, dict):
            parent[key] = value
        elif not insert:
            parent[_index(parent, key)] = value
        elif key == "-":
            parent.append(value)
        else:
            parent.insert(_index(parent, key, extra=1), value)

    def _take(self, path: list[str]) -> Any:
        parent = self._writable_parent(path)
        key = path[-1]
        if isinstance(parent, list):
            return parent.pop(_index(parent, key))
        if key not in parent:
            raise PatchError(f"unable to remove nonexistent key: {key}")
        return parent.pop(key)


_OPERATIONS: dict[str, Callable[[_Document, dict[str, Any]], None]] = {
    "add": _Document.add,
    "remove": _Document.remove,
    "replace": _Document.replace,
    "move": _Document.move,
    "copy": _Document.copy,
    "test": _Document.test,
}


def _path(operation: dict[str, Any], member: str) -> list[str]:
    path = operation.get(member)
    if not isinstance(path, str):
        raise PatchError(f"an operation without a valid {member!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def _member(container: Any, part: str, *, leaf: bool = False) -> Any:
    """Return the named member. Raises PatchError; only a member of an object may be missing."""
    if isinstance(container, list):
        return container[_index(container, part)]
    if not isinstance(container, dict):
        raise PatchError(f"no container on the way to {part!r}")
    found = container.get(part, _MISSING)
    if found is _MISSING and not leaf:
        raise PatchError(f"missing path at {part!r}")
    return found


def _index(items: list[Any], text: str, *, extra: int = 0) -> int:
    size = len(items) + extra
    try:
        index = int(text)
    except ValueError:
        raise PatchError(f"no list index: {text!r}") from None
    if not -size <= index < size:
        raise PatchError(f"list index out of range: {index}")
    return index + size if index < 0 else index


def _same_json(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal; true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            _same_json(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same_json, left, right))
    return bool(left == right)
