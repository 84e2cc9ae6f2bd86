"""Recomputes the plan of a recorded reconcile with this version, and compares. Pure.

A digest in a recorded text stands for the removed secret. Where the recomputed text has a digest too, both
must be equal; otherwise the digest matches any text, because Manta itself wrote something that looked like
a credential.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from manta.reconcile.actions import Action, Create
from manta.reconcile.step import Step
from manta.recording.decoding import CannotDecodeError, decode_snapshot, package_of
from manta.recording.encoding import action_document, wait_document
from manta.recording.reader import Json, Recorded, Segment
from manta.recording.redaction import TOKEN


@dataclass(frozen=True, slots=True)
class Replayed:
    recorded: Recorded
    differences: tuple[str, ...] = ()
    """Each with its path, and both values. Empty: this version plans the same."""
    notes: tuple[str, ...] = ()
    unreadable: str = ""
    """Why the plan cannot be computed."""

    @property
    def same(self) -> bool:
        return not self.differences and not self.unreadable


def replay(recorded: Recorded) -> Replayed:
    """What this version plans from the recorded snapshot, beside what was planned."""
    try:
        snapshot, notes = decode_snapshot(recorded)
        planner = _planner(recorded.controller)
    except CannotDecodeError as error:
        return Replayed(recorded, notes=recorded.notes, unreadable=str(error))
    notes = [*recorded.notes, *notes]
    try:
        step = planner(snapshot)
    except Exception as error:  # noqa: BLE001  a planner that raises is a result
        found = _raised(recorded, error)
        return Replayed(recorded, found, tuple(notes))
    was, now = recorded_step(recorded), computed_step(step)
    return Replayed(recorded, tuple(differences(was, now)), tuple(notes))


def _planner(controller: str) -> Callable[[Any], Step[Any]]:
    module = importlib.import_module(f"manta.controllers.{package_of(controller)}.plan")
    planner: Callable[[Any], Step[Any]] = module.plan
    return planner


def _raised(recorded: Recorded, error: Exception) -> tuple[str, ...]:
    text = f"{type(error).__name__}: {error}"
    was = recorded.line.get("error")
    if recorded.plan is None and was is not None and was["error"] == type(error).__name__:
        return ()
    return (f"plan: the planner raises {text}",)


# ── both plans in one shape ──────────────────────────────────────────────────────────────


def computed_step(step: Step[Any]) -> Json:
    """The step as `recorded_step` returns it."""
    plan = step.plan
    found = {
        "stages": [
            {"independent": stage.independent, "actions": [_whole(one) for one in stage.actions]}
            for stage in plan.stages
        ],
        "wait": wait_document(plan),
        "notes": plan.notes,
        "unfinished": plan.unfinished,
        "blocked_by": step.blocked_by,
        "wake_in": step.wake_in.total_seconds() if step.wake_in is not None else None,
    }
    plain: Json = msgspec.json.decode(msgspec.json.encode(found, enc_hook=str))
    return plain


def _whole(action: Action) -> Json:
    found = action_document(action)
    return {**found, "manifest": action.manifest} if isinstance(action, Create) else found


def recorded_step(recorded: Recorded) -> Json:
    plan = recorded.plan or {}
    error = recorded.line.get("error")
    found: Json = {
        "stages": [_stage(recorded.segment, one) for one in plan.get("stages", ())],
        "wait": plan.get("wait"),
        "notes": plan.get("notes", []),
        "unfinished": plan.get("unfinished", ""),
        "blocked_by": recorded.line.get("blocked_by"),
        "wake_in": recorded.line.get("wake_in"),
    }
    if recorded.plan is None and error is not None:
        found["raised"] = f"{error['error']}: {error['message']}"
    return found


def _stage(segment: Segment, stage: Json) -> Json:
    return {**stage, "actions": [_manifested(segment, one) for one in stage["actions"]]}


def _manifested(segment: Segment, action: Json) -> Json:
    if "manifest" not in action:
        return action
    parts = action["manifest"].items()
    manifest = {
        name: segment.value(node["value"]) if "value" in node else node["plain"]
        for name, node in parts
    }
    return {**action, "manifest": manifest}


# ── comparison ───────────────────────────────────────────────────────────────────────────


def differences(was: Any, now: Any, path: str = "") -> Iterator[str]:
    """Where `now` differs from the recorded value."""
    if isinstance(was, dict) and isinstance(now, dict):
        for name in dict.fromkeys((*was, *now)):
            below = f"{path}.{name}" if path else str(name)
            if name not in now:
                yield f"{below}: was {_short(was[name])}, is not there now"
            elif name not in was:
                yield f"{below}: was not there, is {_short(now[name])}"
            else:
                yield from differences(was[name], now[name], below)
    elif isinstance(was, list) and isinstance(now, list):
        yield from _list_differences(was, now, path)
    elif was != now and not _matches(was, now):
        yield f"{path}: was {_short(was)}, is {_short(now)}"


def _list_differences(was: list[Any], now: list[Any], path: str) -> Iterator[str]:
    for at, (one, other) in enumerate(zip(was, now, strict=False)):
        yield from differences(one, other, f"{path}[{at}]")
    for at, one in enumerate(was[len(now) :], len(now)):
        yield f"{path}[{at}]: was {_short(one)}, is not there now"
    for at, one in enumerate(now[len(was) :], len(was)):
        yield f"{path}[{at}]: was not there, is {_short(one)}"


def _matches(was: Any, now: Any) -> bool:
    """Whether `now` is the recorded text, with any text in the place of each digest."""
    if not isinstance(was, str) or not isinstance(now, str) or not TOKEN.search(was):
        return False
    pattern = "(.+)".join(re.escape(one) for one in TOKEN.split(was))
    found = re.fullmatch(pattern, now, re.DOTALL)
    if found is None:
        return False
    pairs = zip(TOKEN.findall(was), found.groups(), strict=True)
    return all(one == other or not TOKEN.search(other) for one, other in pairs)


def _short(value: Any) -> str:
    if isinstance(value, dict) and "verb" in value:
        what = value.get("kind") or value.get("call")
        return f"{value['verb']} {what} {'/'.join(value['key'])} ({value['cause']})"
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 120 else f"{text[:117]}..."
