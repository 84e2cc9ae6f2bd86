"""What the disk, or else the status, tells of a container's attempts: how a new agent learns what the last
one saw."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manta.api.times import parse_optional_time
from manta.localplane.node import wire
from manta.localplane.node.beneath import Directory
from manta.localplane.node.snapshot import ContainerFacts, Ended, Life
from manta.localplane.node.trees import remove_tree

LOST_CODE = 137
LOST = "The process ended while no agent was watching"
MESSAGE_LIMIT = 4096


def attempt_directory(pod: Path, container: str, attempt: int) -> Path:
    return pod / "containers" / container / str(attempt)


def numbers(pod: Path, container: str) -> list[int]:
    """Attempts that left a directory, in order."""
    try:
        names = [entry.name for entry in (pod / "containers" / container).iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isdigit())


def forget_old(pod: Path, container: str, attempt: int) -> None:
    """Keep the attempt before (for `logs --previous`) without its scratch files, drop older."""
    for number in numbers(pod, container):
        directory = attempt_directory(pod, container, number)
        if number < attempt - 1:
            remove_tree(directory)
        elif number < attempt:
            remove_tree(directory / "scratch")


def is_over(directory: Path) -> bool:
    """The attempt has ended, or nothing of it is left."""
    return (directory / "exit.json").exists() or not directory.exists()


def write_ended(directory: Path, ended: Ended) -> None:
    """For an attempt whose init could not tell any more."""
    record = {
        "code": ended.code,
        "signal": ended.signal,
        "started": ended.started,
        "finished": ended.finished,
        "oom": ended.oom,
        "error": ended.error,
    }
    if directory.exists():
        wire.write_record(directory / "exit.json", record)


def read_ended(directory: Path) -> Ended | None:
    record = wire.read_record(directory / "exit.json")
    return None if record is None else ended_of(record, directory)


def ended_of(record: dict[str, Any], directory: Path) -> Ended:
    return Ended(
        code=int(record["code"]),
        started=float(record["started"]),
        finished=float(record["finished"]),
        signal=int(record["signal"]),
        oom=bool(record["oom"]),
        error=str(record["error"]),
        message=_message(directory),
    )


def _message(directory: Path) -> str:
    try:
        with Directory.at(directory) as own:
            return own.read("termination-log", MESSAGE_LIMIT).decode(errors="replace")
    except FileNotFoundError:
        return ""


def recover(pod: Path, container: str, running: dict[str, float]) -> ContainerFacts:
    """The facts of a container from its records and from what its init says is running."""
    known = numbers(pod, container)
    if not known:
        return ContainerFacts()
    attempt = known[-1]
    directory = attempt_directory(pod, container, attempt)
    last = read_ended(attempt_directory(pod, container, attempt - 1)) if attempt else None
    began = running.get(f"{container}/{attempt}")
    if began is not None:
        return ContainerFacts(
            life=Life.RUNNING, attempt=attempt, started=began, last=last, crashes=attempt
        )
    ended = read_ended(directory)
    if ended is None:
        record = wire.read_record(directory / "start.json") or {}
        started = float(record.get("started", directory.stat().st_mtime))
        ended = Ended(code=LOST_CODE, started=started, finished=started, message=LOST)
    return ContainerFacts(
        life=Life.ENDED, attempt=attempt, ended=ended, last=last, crashes=attempt + 1
    )


def recall(status: Mapping[str, Any]) -> ContainerFacts:
    """The facts of a container whose records are gone, from what was last told of it: its restarts count
    on, and who does not run again after an end does not run again."""
    if not status.get("containerID"):
        return ContainerFacts()
    ended = _told_end(status.get("state") or {}) or _told_end(status.get("lastState") or {})
    if ended is None:
        return ContainerFacts()
    return ContainerFacts(
        life=Life.ENDED, attempt=int(status.get("restartCount", 0)), ended=ended, crashes=1
    )


def _told_end(state: Mapping[str, Any]) -> Ended | None:
    if told := state.get("terminated"):
        started, finished = _seconds(told.get("startedAt")), _seconds(told.get("finishedAt"))
        return Ended(int(told["exitCode"]), started, finished, message=told.get("message", ""))
    if told := state.get("running"):
        started = _seconds(told.get("startedAt"))
        return Ended(LOST_CODE, started, started, message=LOST)
    return None


def _seconds(stamp: str | None) -> float:
    time = parse_optional_time(stamp)
    return time.timestamp() if time is not None else 0.0
