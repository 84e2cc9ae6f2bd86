"""The attempts to run a container: their directories, and the facts that a new agent restores from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manta.api.times import parse_optional_time
from manta.localplane.node.host import wire
from manta.localplane.node.host.confined_files import Directory, remove_tree
from manta.localplane.node.pod.snapshot import ContainerFacts, ContainerState, Termination

LOST_CODE = 137
LOST = "The process ended while no agent was watching"
MAX_MESSAGE_BYTES = 4096


def attempt_directory(pod: Path, container: str, attempt: int) -> Path:
    return pod / "containers" / container / str(attempt)


def attempt_numbers(pod: Path, container: str) -> list[int]:
    """The attempt_numbers of attempts that have a directory, sorted."""
    try:
        names = [entry.name for entry in (pod / "containers" / container).iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(name) for name in names if name.isdigit())


def remove_old_attempts(pod: Path, container: str, attempt: int) -> None:
    """Keep the previous attempt (for `logs --previous`) without its scratch files, remove older ones."""
    for number in attempt_numbers(pod, container):
        directory = attempt_directory(pod, container, number)
        if number < attempt - 1:
            remove_tree(directory)
        elif number < attempt:
            remove_tree(directory / "scratch")


def has_ended(directory: Path) -> bool:
    """Whether the attempt has ended or its directory is gone."""
    return (directory / "exit.json").exists() or not directory.exists()


def write_termination(directory: Path, ended: Termination) -> None:
    """Record the end of an attempt whose init was killed."""
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


def read_termination(directory: Path) -> Termination | None:
    record = wire.read_record(directory / "exit.json")
    return None if record is None else parse_termination(record, directory)


def parse_termination(record: dict[str, Any], directory: Path) -> Termination:
    return Termination(
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
            return own.read("termination-log", MAX_MESSAGE_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return ""


def restore_from_disk(pod: Path, container: str, running: dict[str, float]) -> ContainerFacts:
    """The facts of a container from its records and from the start times that its init reports."""
    known = attempt_numbers(pod, container)
    if not known:
        return ContainerFacts()
    attempt = known[-1]
    directory = attempt_directory(pod, container, attempt)
    last = read_termination(attempt_directory(pod, container, attempt - 1)) if attempt else None
    began = running.get(f"{container}/{attempt}")
    if began is not None:
        return ContainerFacts(
            state=ContainerState.RUNNING,
            attempt=attempt,
            started=began,
            last_termination=last,
            crashes=attempt,
        )
    ended = read_termination(directory)
    if ended is None:
        record = wire.read_record(directory / "start.json") or {}
        started = float(record.get("started", directory.stat().st_mtime))
        ended = Termination(code=LOST_CODE, started=started, finished=started, message=LOST)
    return ContainerFacts(
        state=ContainerState.TERMINATED,
        attempt=attempt,
        termination=ended,
        last_termination=last,
        crashes=attempt + 1,
    )


def restore_from_status(status: Mapping[str, Any]) -> ContainerFacts:
    """The facts of a container without records, from its last status: the restart count goes on, and a
    container that must not restart does not."""
    if not status.get("containerID"):
        return ContainerFacts()
    ended = _end_in_status(status.get("state") or {}) or _end_in_status(
        status.get("lastState") or {}
    )
    if ended is None:
        return ContainerFacts()
    return ContainerFacts(
        state=ContainerState.TERMINATED,
        attempt=int(status.get("restartCount", 0)),
        termination=ended,
        crashes=1,
    )


def _end_in_status(state: Mapping[str, Any]) -> Termination | None:
    if shown := state.get("terminated"):
        started, finished = _seconds(shown.get("startedAt")), _seconds(shown.get("finishedAt"))
        return Termination(
            int(shown["exitCode"]), started, finished, message=shown.get("message", "")
        )
    if shown := state.get("running"):
        started = _seconds(shown.get("startedAt"))
        return Termination(LOST_CODE, started, started, message=LOST)
    return None


def _seconds(stamp: str | None) -> float:
    time = parse_optional_time(stamp)
    return time.timestamp() if time is not None else 0.0
