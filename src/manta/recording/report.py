"""A recorded reconcile as text: what it observed, what it did, and the result. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from manta.recording.reader import Json, Recorded, Segment
from manta.recording.replay import Replayed

_WORD = 10


class ReplayReport:
    """Remembers the objects of the previous reconcile, to report only changes."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], dict[str, str]] = {}

    def lines(self, replayed: Replayed) -> Iterator[str]:
        recorded = replayed.recorded
        saw = _objects(recorded)
        known = self._before.get((recorded.controller, recorded.key))
        self._before[recorded.controller, recorded.key] = saw
        if left_out := recorded.line.get("left_out"):
            yield f"({left_out} reconciles left out: the operator was busy)"
        yield f"#{recorded.number} {_time(recorded)} {recorded.controller} {recorded.key}"
        for line in _changes(known, saw):
            yield _line("saw", line)
        yield from (_line(*one) for one in _actions(recorded))
        yield from (_line(*one) for one in _status(recorded))
        yield from (_line("note", one) for one in replayed.notes)
        yield from (_line(*one) for one in verdict(replayed))


def verdict(replayed: Replayed) -> Iterator[tuple[str, str]]:
    """What this version makes of it."""
    if replayed.unreadable:
        yield "replay", f"cannot be replayed: {replayed.unreadable}"
    elif replayed.same:
        yield "replay", "the same plan"
    else:
        yield "replay", "ANOTHER PLAN:"
        yield from (("", one) for one in replayed.differences)


def _line(word: str, text: str) -> str:
    return f"  {word.ljust(_WORD)}{text}"


def _time(recorded: Recorded) -> str:
    return str(recorded.line.get("snapshot", {}).get("now", {}).get("plain", "?"))


# ── what it saw ──────────────────────────────────────────────────────────────────────────


def _objects(recorded: Recorded) -> dict[str, str]:
    """Each object of the snapshot, in one line, by its kind and name."""
    found: dict[str, str] = {}
    _collect(recorded.line.get("snapshot", {}), recorded.segment, found)
    return found


def _collect(fields: Json, segment: Segment, found: dict[str, str]) -> None:
    for name, node in fields.items():
        for number in _numbers(node):
            try:
                one = segment.object(number)
            except KeyError:
                continue
            if isinstance(one, dict):
                named = one.get("metadata", {}).get("name", "?")
                found[f"{name.removesuffix('s')} {named}"] = _state(one)
        if isinstance(node, dict) and "fields" in node:
            found[name] = str(node.get("type"))
            _collect(node["fields"], segment, found)


def _numbers(node: Json) -> list[int]:
    if "object" in node:
        return [node["object"]]
    return list(node.get("objects", ())) or list(node.get("map", {}).values())


def _state(one: Json) -> str:
    meta, status = one.get("metadata", {}), one.get("status") or {}
    words = []
    if meta.get("generation"):
        words.append(f"generation {meta['generation']}")
    names = ("phase", "state", "jobDeploymentStatus", "jobStatus", "serviceStatus")
    words += [str(status[name]) for name in names if status.get(name)]
    conditions: list[Any] = status.get("conditions") or []
    true = [one["type"] for one in conditions if one.get("status") == "True"]
    if true:
        words.append("+".join(true))
    if meta.get("deletionTimestamp"):
        words.append("being deleted")
    return ", ".join(words) or "present"


def _changes(before: dict[str, str] | None, now: dict[str, str]) -> Iterator[str]:
    if before is None:
        yield from (f"{name}: {state}" for name, state in now.items())
        return
    for name, state in now.items():
        if name not in before:
            yield f"{name}: new, {state}"
        elif before[name] != state:
            yield f"{name}: {before[name]} → {state}"
    gone = [name for name in before if name not in now]
    yield from (f"{name}: gone" for name in gone)
    if before == now:
        yield "nothing new"


# ── what it did ──────────────────────────────────────────────────────────────────────────


def _actions(recorded: Recorded) -> Iterator[tuple[str, str]]:
    plan, outcome = recorded.plan or {}, recorded.line.get("outcome", {})
    failed = {one["action"]: one for one in outcome.get("failures", ())}
    skipped = set(outcome.get("skipped", ()))
    done = {one[0]: one for one in outcome.get("done", ())}
    number = 0
    for stage in plan.get("stages", ()):
        for action in stage["actions"]:
            yield "did", f"{_action(action)}: {_result(number, done, failed, skipped)}"
            number += 1
    yield from (("note", str(one)) for one in plan.get("notes", ()))
    if wait := plan.get("wait"):
        yield "waits for", wait["why"]
    if blocked := recorded.line.get("blocked_by"):
        yield "blocked by", f"{blocked['reason']}: {blocked['message']}"
    if not plan and "error" not in recorded.line:
        yield "did", "nothing: no change is needed"
    if error := recorded.line.get("error"):
        yield "raised", f"{error['error']}: {error['message']}"


def _action(action: Json) -> str:
    what = action.get("kind") or action.get("call")
    why = action.get("why") or action.get("cause")
    return f"{action['verb']} {what} {'/'.join(action['key'])} ({why})"


def _result(number: int, done: dict[int, Any], failed: dict[int, Json], skipped: set[int]) -> str:
    if number in failed:
        one = failed[number]
        lost = ", the reply was lost" if one.get("unknown") else ""
        return f"failed{lost}: {one['error']}: {one['message']}"
    if number in skipped:
        return "skipped, because an earlier action failed"
    if number in done:
        return "existed" if done[number][3] else "done"
    return "not known"


def _status(recorded: Recorded) -> Iterator[tuple[str, str]]:
    status = recorded.line.get("status")
    if status is None:
        return
    word = "wrote" if recorded.line.get("status_written") else "held back"
    yield "status", f"{word}: {_state({'status': status})}"
