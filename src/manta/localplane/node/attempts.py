"""What the disk tells of a container's attempts: how a new agent learns what the last one saw."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from manta.localplane.node import wire
from manta.localplane.node.snapshot import ContainerFacts, Ended, Life

_LOST = "The process ended while no agent was watching"
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
            shutil.rmtree(directory, ignore_errors=True)
        elif number < attempt:
            shutil.rmtree(directory / "scratch", ignore_errors=True)


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
        with (directory / "termination-log").open("rb") as file:
            return file.read(MESSAGE_LIMIT).decode(errors="replace")
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
        ended = Ended(code=137, started=started, finished=started, message=_LOST)
    return ContainerFacts(
        life=Life.ENDED, attempt=attempt, ended=ended, last=last, crashes=attempt + 1
    )
