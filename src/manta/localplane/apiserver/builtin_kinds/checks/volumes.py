"""Volumes of a Pod: the paths of their files.

The node agent writes these files as root, so a path that leaves its volume is refused here as in
kube-apiserver, and again where the file is written (`node/host/confined_files.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from manta.localplane.apiserver.builtin_kinds.checks.rules import Causes, Json
from manta.localplane.apiserver.schema.causes import forbidden, invalid, not_supported, required

_REQUIRED = {
    "persistentVolumeClaim": "claimName",
    "secret": "secretName",
    "configMap": "name",
    "hostPath": "path",
}
_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_SHORTEST_TOKEN, _LONGEST_TOKEN = 600, 1 << 32


def check_volume_source(kind: str, source: Json, field: str) -> Causes:
    member = _REQUIRED.get(kind)
    if member is not None and not source.get(member):
        yield required(f"{field}.{member}")
    match kind:
        case "hostPath" if source.get("path"):
            yield from _check_host_path(source, field)
        case "secret" | "configMap":
            yield from _check_mode(source.get("defaultMode"), f"{field}.defaultMode")
            yield from _check_items(source, field)
        case "downwardAPI":
            yield from _check_mode(source.get("defaultMode"), f"{field}.defaultMode")
            for item in source.get("items") or []:
                yield from _check_downward_file(item, field)
        case "projected":
            yield from _check_mode(source.get("defaultMode"), f"{field}.defaultMode")
            yield from _check_projected(source.get("sources") or [], field)
        case _:
            return


# ── paths ────────────────────────────────────────────────────────────────────────────────
def relative_path(field: str, path: str) -> Causes:
    if path.startswith("/"):
        yield invalid(field, path, "must be a relative path")
    yield from no_parent_steps(field, path)


def no_parent_steps(field: str, path: str) -> Causes:
    if ".." in path.split("/"):
        yield invalid(field, path, "must not contain '..'")


def _not_reserved(field: str, path: str) -> Causes:
    yield from relative_path(field, path)
    if path.startswith("..") and not path.startswith("../"):
        yield invalid(field, path, "must not start with '..'")


def _check_host_path(source: Json, field: str) -> Causes:
    yield from no_parent_steps(f"{field}.path", source["path"])
    kind = source.get("type")
    if kind is not None and kind not in _HOST_PATH_TYPES:
        yield not_supported(f"{field}.type", kind, _HOST_PATH_TYPES)


# ── files ────────────────────────────────────────────────────────────────────────────────
def _check_mode(mode: int | None, field: str) -> Causes:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(field, mode, _MODE)


def _check_items(source: Json, field: str) -> Causes:
    for index, item in enumerate(source.get("items") or []):
        yield from _check_key_to_path(item, f"{field}.items[{index}]")


def _check_key_to_path(item: Json, field: str) -> Causes:
    if not item.get("key"):
        yield required(f"{field}.key")
    if not item.get("path"):
        yield required(f"{field}.path")
    yield from _not_reserved(f"{field}.path", item.get("path", ""))
    yield from _check_mode(item.get("mode"), f"{field}.mode")


def _check_downward_file(item: Json, field: str) -> Causes:
    """`field` is that of the volume: kube-apiserver omits the index."""
    if not item.get("path"):
        yield required(f"{field}.path")
    yield from _not_reserved(f"{field}.path", item.get("path", ""))
    one, other = item.get("fieldRef"), item.get("resourceFieldRef")
    if one is not None and other is not None:
        detail = "fieldRef and resourceFieldRef can not be specified simultaneously"
        yield invalid(field, "resource", detail)
    elif one is None and other is None:
        yield required(field, "one of fieldRef and resourceFieldRef is required")
    yield from _check_mode(item.get("mode"), f"{field}.mode")


# ── projected volumes ────────────────────────────────────────────────────────────────────
def _check_projected(sources: list[Json], field: str) -> Causes:
    paths: set[str] = set()
    for index, source in enumerate(sources):
        where = f"{field}.sources[{index}]"
        given = [kind for kind in _PROJECTIONS if source.get(kind) is not None]
        for kind in given:
            part = source[kind]
            yield from _PROJECTIONS[kind](part, f"{where}.{kind}", field)
            yield from _check_unique(kind, part, field, paths)
        if len(given) > 1:
            yield forbidden(where, "may not specify more than 1 volume type per source")


def _check_unique(kind: str, part: Json, field: str, paths: set[str]) -> Causes:
    """Tokens are not checked, as in kube-apiserver: a later file of the same path wins."""
    if kind == "serviceAccountToken":
        return
    for item in part.get("items") or []:
        path = item.get("path", "")
        if path and path in paths:
            shown = path if kind == "downwardAPI" else part.get("name", "")
            yield invalid(field, shown, "conflicting duplicate paths")
        paths.add(path)


def _check_named(part: Json, field: str, _: str) -> Causes:
    if not part.get("name"):
        yield required(f"{field}.name")
    yield from _check_items(part, field)


def _check_downward(part: Json, field: str, _: str) -> Causes:
    for item in part.get("items") or []:
        yield from _check_downward_file(item, field)


def _check_token(part: Json, field: str, volume: str) -> Causes:
    """kube-apiserver reports the path as one of the volume itself."""
    seconds: Any = part.get("expirationSeconds", 3600)
    if seconds < _SHORTEST_TOKEN:
        detail = "may not specify a duration less than 10 minutes"
        yield invalid(f"{field}.expirationSeconds", seconds, detail)
    if seconds > _LONGEST_TOKEN:
        detail = "may not specify a duration larger than 2^32 seconds"
        yield invalid(f"{field}.expirationSeconds", seconds, detail)
    if not part.get("path"):
        yield required(f"{volume}.path")
    else:
        yield from _not_reserved(f"{volume}.path", part["path"])


_PROJECTIONS: dict[str, Callable[[Json, str, str], Causes]] = {
    "secret": _check_named,
    "configMap": _check_named,
    "downwardAPI": _check_downward,
    "serviceAccountToken": _check_token,
}
