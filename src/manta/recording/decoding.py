"""Builds the snapshot of a recorded reconcile from this version's types.

A field that this version does not know is left out with a note; one that the recording does not have gets
its default. Pure.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Iterator
from types import ModuleType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec

from manta.recording.reader import Json, Recorded, Segment

SNAPSHOTS = {
    "raycluster": "ClusterSnapshot",
    "rayjob": "JobSnapshot",
    "rayservice": "ServiceSnapshot",
    "raycronjob": "CronSnapshot",
    "idlesuspend": "IdleSnapshot",
}


class CannotDecodeError(ValueError):
    """This version cannot build the snapshot: the message says which field is to blame."""


def package_of(controller: str) -> str:
    """`raycluster-controller` and `raycluster` are of the same package. Raises CannotDecodeError."""
    name = controller.removesuffix("-controller")
    if name not in SNAPSHOTS:
        raise CannotDecodeError(f"unknown controller {controller!r}")
    return name


def decode_snapshot(recorded: Recorded) -> tuple[Any, list[str]]:
    """The snapshot, and notes about fields that were left out. Raises CannotDecodeError."""
    package = package_of(recorded.controller)
    module = importlib.import_module(f"manta.controllers.{package}.snapshot")
    notes: list[str] = []
    kind = getattr(module, SNAPSHOTS[package])
    fields = recorded.line.get("snapshot", {})
    return _part(kind, fields, recorded.segment, module, "snapshot", notes), notes


def _part(
    kind: Any, fields: Json, segment: Segment, module: ModuleType, path: str, notes: list[str]
) -> Any:
    hints = _hints(kind)
    given: dict[str, Any] = {}
    for name, node in fields.items():
        if name not in hints:
            notes.append(f"{path}.{name}: unknown to this version, left out")
            continue
        try:
            given[name] = _value(hints[name], node, segment, module, f"{path}.{name}", notes)
        except (msgspec.ValidationError, KeyError, TypeError) as error:
            raise CannotDecodeError(f"{path}.{name}: {error}") from error
    missing = [one for one in _required(kind) if one not in given]
    if missing:
        raise CannotDecodeError(f"{path}: the recording has no {', '.join(missing)}")
    return kind(**given)


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {one.name: hints[one.name] for one in dataclasses.fields(kind)}


@functools.cache
def _required(kind: Any) -> tuple[str, ...]:
    none = dataclasses.MISSING
    return tuple(
        one.name
        for one in dataclasses.fields(kind)
        if one.default is none and one.default_factory is none
    )


def _value(
    hint: Any, node: Json, segment: Segment, module: ModuleType, path: str, notes: list[str]
) -> Any:
    match node:
        case {"type": name, "fields": fields}:
            kind = getattr(module, name, None)
            if kind is None:
                raise CannotDecodeError(f"{path}: this version has no {name}")
            return _part(kind, fields, segment, module, path, notes)
        case {"plain": value}:
            return _typed(hint, value, path, notes)
        case {"value": number}:
            return _typed(hint, segment.value(number), path, notes)
        case {"object": number}:
            return _object(_only(hint), number, segment, path, notes)
        case {"objects": numbers}:
            kind = get_args(_only(hint))[0]
            return tuple(_object(kind, one, segment, path, notes) for one in numbers)
        case {"map": found}:
            kind = get_args(_only(hint))[1]
            return {key: _object(kind, one, segment, path, notes) for key, one in found.items()}
        case _:
            raise CannotDecodeError(f"{path}: cannot read {list(node)}")


def _object(kind: Any, number: int, segment: Segment, path: str, notes: list[str]) -> Any:
    return _typed(kind, segment.object(number), path, notes)


def _only(hint: Any) -> Any:
    """The type without None."""
    if get_origin(hint) in (Union, UnionType):
        return next(one for one in get_args(hint) if one is not type(None))
    return hint


def _typed(hint: Any, value: Any, path: str, notes: list[str]) -> Any:
    found = msgspec.json.decode(msgspec.json.encode(value), type=hint)
    if isinstance(found, msgspec.Struct):
        again = msgspec.json.decode(msgspec.json.encode(found))
        notes += [f"{path}.{one}: unknown to this version, left out" for one in _lost(value, again)]
    return found


def _lost(recorded: Any, kept: Any, path: str = "") -> Iterator[str]:
    """Paths of fields with a value that the typed object does not have."""
    if isinstance(recorded, dict) and isinstance(kept, dict):
        for name, value in recorded.items():
            below = f"{path}.{name}" if path else name
            if name in kept:
                yield from _lost(value, kept[name], below)
            elif value not in (None, "", 0, False, [], {}):
                yield below
