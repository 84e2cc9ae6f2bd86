"""Encodes a reconcile: its snapshot, plan, outcome and status, as the lines of a segment.

A field of a snapshot is one of: `plain` (the value itself), `value` or `object` (the id of a line),
`objects` or `map` (ids), `type` and `fields` (a part of the snapshot with a type of its own). A field that
has its default is left out. Pure.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from manta.api.ray.names import LABEL_GROUP
from manta.reconcile.actions import Action, Call, Create, Delete, Patch
from manta.reconcile.observer import Reconciled
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import Plan
from manta.reconcile.step import Step
from manta.recording.hashes import hashed_values
from manta.recording.values import Values

Json = dict[str, Any]
_MISSING: Final = object()


def encode_reconcile(
    values: Values, number: int, one: Reconciled, left_out: int = 0
) -> list[bytes]:
    """The lines: new values first, the reconcile last. `left_out`: reconciles before it."""
    values.begin((one.controller, one.key))
    for slot, name, value in hashed_values(one.snapshot):
        values.learn_hashes(slot, name, value)
    record: Json = {
        "line": "reconcile",
        "number": number,
        "controller": one.controller,
        "key": one.key,
        "snapshot": _fields(values, one.snapshot, ()),
    }
    if left_out:
        record["left_out"] = left_out
    if one.step is not None:
        record |= _step(values, one.step)
    if one.outcome is not None and one.step is not None:
        record |= _outcome(values, one.step, one.outcome)
    if one.status is not None:
        has_failed = one.outcome is None or one.outcome.failures
        encode = values.encode if has_failed else values.encode_planned
        record["status"] = msgspec.Raw(encode(one.status))
        record["status_written"] = one.written
    if one.error is not None:
        record["error"] = _error(values, one.error)
    lines = [*values.lines, msgspec.json.encode(record) + b"\n"]
    values.lines.clear()
    return lines


# ── snapshot ─────────────────────────────────────────────────────────────────────────────


@functools.cache
def _layout(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    """Name, default and whether the default is made by a factory, for each field."""
    return tuple(
        (
            one.name,
            _MISSING if one.default is dataclasses.MISSING else one.default,
            one.default_factory is not dataclasses.MISSING,
        )
        for one in dataclasses.fields(kind)
    )


def _fields(values: Values, part: Any, path: tuple[str, ...]) -> Json:
    found: Json = {}
    kind: Any = type(part)
    for name, default, made in _layout(kind):
        value = getattr(part, name)
        if value is default or (made and not value) or (not value and value == default):
            continue
        found[name] = _node(values, value, (*path, name))
    return found


def _node(values: Values, value: Any, path: tuple[str, ...]) -> Json:
    match value:
        case None | bool() | int() | float() | datetime():
            return {"plain": value}
        case str():
            return {"plain": msgspec.Raw(values.encode(value))}
        case msgspec.Struct() if _is_object(value):
            return {"object": values.object(value)}
        case tuple() if value and _is_object(value[0]):
            return {"objects": [values.object(one) for one in value]}
        case Mapping() if value and _is_object(next(iter(value.values()))):
            return {"map": {key: values.object(one) for key, one in value.items()}}
    if type(value).__module__.endswith(".snapshot"):
        return {"type": type(value).__name__, "fields": _fields(values, value, path)}
    return {"value": values.value(path, value)}


def _is_object(value: Any) -> bool:
    return hasattr(value, "metadata")


# ── plan ─────────────────────────────────────────────────────────────────────────────────


def _step(values: Values, step: Step[Any]) -> Json:
    found: Json = {"plan": _plan(values, step.plan)}
    if step.blocked_by is not None:
        found["blocked_by"] = msgspec.Raw(values.encode_planned(step.blocked_by))
    if step.wake_in is not None:
        found["wake_in"] = step.wake_in.total_seconds()
    return found


def _plan(values: Values, plan: Plan) -> Json:
    found: Json = {}
    if plan.stages:
        found["stages"] = [
            {
                "independent": stage.independent,
                "actions": [_action(values, one) for one in stage.actions],
            }
            for stage in plan.stages
        ]
    if plan.wait is not None:
        found["wait"] = msgspec.Raw(values.encode_planned(wait_document(plan)))
    if plan.notes:
        found["notes"] = msgspec.Raw(values.encode_planned(plan.notes))
    if plan.unfinished:
        found["unfinished"] = plan.unfinished
    return found


def wait_document(plan: Plan) -> Json | None:
    wait = plan.wait
    if wait is None:
        return None
    retry = wait.retry_in.total_seconds() if wait.retry_in is not None else None
    return {"why": wait.why, "retry_in": retry, "backoff": wait.backoff}


def _action(values: Values, action: Action) -> Json:
    found = action_document(action)
    body = found.pop("body", None)
    if isinstance(action, Create):
        found["manifest"] = dict(_manifest(values, action))
    elif body is not None:
        found["body"] = msgspec.Raw(values.encode(_secret_aware(action, body)))
    for name in ("why", "arguments"):
        if found.get(name):
            found[name] = msgspec.Raw(values.encode_planned(found[name]))
    return found


def _manifest(values: Values, action: Create) -> Iterator[tuple[str, Json]]:
    """Pods of a group differ in their metadata only: the rest is written once."""
    manifest = action.manifest
    if action.resource.kind == "Secret":
        clean = msgspec.json.decode(values.encode({**manifest, "kind": "Secret"}))
        yield from ((name, {"plain": value}) for name, value in clean.items())
        return
    group = (manifest["metadata"].get("labels") or {}).get(LABEL_GROUP, "")
    for name, value in manifest.items():
        if isinstance(value, str):
            yield name, {"plain": value}
        elif name == "metadata":
            yield name, {"plain": msgspec.Raw(values.encode_planned(value))}
        else:
            slot = ("create", action.resource.plural, group, name)
            yield name, {"value": values.value(slot, value, observed=False)}


def _secret_aware(action: Action, body: Any) -> Any:
    is_secret = not isinstance(action, Call) and action.resource.kind == "Secret"
    return {**body, "kind": "Secret"} if is_secret and isinstance(body, dict) else body


def action_document(action: Action) -> Json:
    """An action without its manifest, as `replay` compares it. `body`: of a patch."""
    common: Json = {"verb": type(action).__name__.lower(), "key": list(action.key)}
    common |= {"cause": str(action.cause), "why": action.why}
    match action:
        case Create():
            return common | {
                "kind": action.resource.kind,
                "on_exists": action.on_exists.name,
                "secret_data": list(action.secret_data),
                "cached_by_label": action.cached_by_label,
            }
        case Patch():
            return common | {
                "kind": action.resource.kind,
                "body": action.patch,
                "patch": action.kind,
                "subresource": action.subresource,
                "uid": action.uid,
                "resource_version": action.resource_version,
            }
        case Delete():
            return common | {
                "kind": action.resource.kind,
                "uid": action.uid,
                "propagation": action.propagation,
                "grace_seconds": action.grace_seconds,
            }
        case Call():
            arguments = msgspec.to_builtins(dict(action.arguments), enc_hook=str)
            return common | {
                "call": action.verb,
                "arguments": arguments,
                "must_succeed": action.must_succeed,
            }


# ── outcome ──────────────────────────────────────────────────────────────────────────────


def _outcome(values: Values, step: Step[Any], outcome: Outcome) -> Json:
    """By the number of the action in the plan."""
    numbers = {id(action): number for number, action in enumerate(step.plan.actions)}
    found: Json = {}
    if outcome.done:
        found["done"] = [
            [numbers.get(id(one.action), -1), one.key.name, one.uid, one.existed]
            for one in outcome.done
        ]
    if outcome.failures:
        found["failures"] = [
            {
                "action": numbers.get(id(one.action), -1),
                "unknown": one.unknown,
                **_error(values, one.error),
            }
            for one in outcome.failures
        ]
    if outcome.skipped:
        found["skipped"] = [numbers.get(id(one), -1) for one in outcome.skipped]
    return {"outcome": found} if found else {}


def _error(values: Values, error: BaseException) -> Json:
    return {"error": type(error).__name__, "message": msgspec.Raw(values.encode(str(error)))}
