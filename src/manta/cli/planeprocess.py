"""The process behind `manta up`: is it there, is it healthy, start it, stop it.

A plane directory holds `plane.json` (pid, start time of that pid, address, version). A pid alone proves
nothing: it may have been given to another program since. So both are compared.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from manta.localplane.node import pidspace
from manta.localplane.node.pressures import look, pressures

_COMMAND = ("-m", "manta.cli.main", "up", "--foreground", "--dir")


class PlaneRecord(msgspec.Struct, frozen=True):
    pid: int
    started: int
    """Clock ticks since boot, field 22 of /proc/PID/stat: tells a reused pid from ours."""
    url: str = ""
    version: str = ""


def record_path(directory: Path) -> Path:
    return directory / "plane.json"


def write_record(directory: Path, url: str, version: str) -> None:
    record = PlaneRecord(os.getpid(), start_ticks(os.getpid()) or 0, url, version)
    fresh = record_path(directory).with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(record))
    fresh.replace(record_path(directory))


def read_record(directory: Path) -> PlaneRecord | None:
    """The record of a plane that runs now, or None."""
    try:
        record = msgspec.json.decode(record_path(directory).read_bytes(), type=PlaneRecord)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    return record if start_ticks(record.pid) == record.started else None


def start_ticks(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def plane_processes(directory: Path) -> list[int]:
    """Planes of `directory` and their operators, found by their command lines: a plane that was just
    started has written no record yet, and one whose directory was removed has it no more."""
    whole = str(directory.resolve())
    plane = "\0".join(("", *_COMMAND, whole, "")).encode()
    operator = f"\0operator\0--kubeconfig\0{whole}/operator.kubeconfig\0".encode()
    found = []
    for entry in Path("/proc").iterdir() if Path("/proc").exists() else ():
        with contextlib.suppress(OSError):
            line = b"\0" + (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
            if (plane in line or operator in line) and _is_another(int(entry.name)):
                found.append(int(entry.name))
    return found


def _is_another(pid: int) -> bool:
    """Not this process, nor one of a container that has a directory of the same name."""
    return pid != os.getpid() and pidspace.is_here(pid)


def spawn(directory: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start `manta up --foreground` detached from this terminal; its output goes to a log file."""
    log = log_path(directory)
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, *_COMMAND, str(directory)]
    with log.open("ab") as sink:
        return subprocess.Popen(  # noqa: S603 - our own program
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )


LAST_WORDS = "manta: the plane cannot run:"


def log_path(directory: Path) -> Path:
    return directory / "logs" / "plane.log"


def last_log_lines(directory: Path, count: int = 15) -> str:
    try:
        lines = log_path(directory).read_text(errors="replace").splitlines()
    except OSError:
        return "(no log was written)"
    return "\n".join(lines[-count:])


def why_it_ended(directory: Path) -> str:
    """Why a plane that nobody stopped runs no more. Empty: it was stopped, or nothing is known."""
    if not record_path(directory).exists():
        return ""
    scarce = pressures(look(directory), directory)
    if "DiskPressure" in scarce:
        return f"{scarce['DiskPressure'][1]}. Free some, then `manta up`"
    said = [line for line in last_log_lines(directory).splitlines() if line.startswith(LAST_WORDS)]
    return said[-1].removeprefix(LAST_WORDS).strip() if said else ""


def stop(record: PlaneRecord, patience: float = 20.0) -> bool:
    """TERM, and KILL when patience ends. True when the process went by itself."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(record.pid, signal.SIGTERM)
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if start_ticks(record.pid) != record.started:
            return True
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.kill(record.pid, signal.SIGKILL)
    return False
