"""The process of a plane of `manta up`: find it, start it, stop it.

A plane directory holds `plane.json` with the pid and its start time. Both are compared, since another
program may have the same pid now.
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

from manta.localplane.node.host import pid_namespace
from manta.localplane.node.host.pressure import measure, pressures

_COMMAND = ("-m", "manta.cli.main", "up", "--foreground", "--dir")


class PlaneRecord(msgspec.Struct, frozen=True):
    pid: int
    started: int
    """Clock ticks since boot, field 22 of /proc/PID/stat: detects a reused pid."""
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
    """The record of the running plane; None if none runs."""
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
    """The pids of planes of `directory` and their operators, by their command lines.

    A plane that has just started, or whose directory was deleted, has no record.
    """
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
    """Whether it is neither this process, nor one in a container with a directory of the same name."""
    return pid != os.getpid() and pid_namespace.is_here(pid)


def spawn(directory: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start `manta up --foreground` detached from the terminal, with its output in a log file."""
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


FAILURE_PREFIX = "manta: the plane cannot run:"


def log_path(directory: Path) -> Path:
    return directory / "logs" / "plane.log"


def last_lines(log: Path, count: int = 15) -> str:
    """The end of a log file."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return "(no log was written)"
    return "\n".join(lines[-count:])


def failure_reason(directory: Path) -> str:
    """Why the last plane ended without `manta down`; empty if it was stopped, or is unknown."""
    if not record_path(directory).exists():
        return ""
    scarce = pressures(measure(directory), directory)
    if "DiskPressure" in scarce:
        return f"{scarce['DiskPressure'][1]}. Free some space, then run `manta up`"
    failures = [
        line
        for line in last_lines(log_path(directory)).splitlines()
        if line.startswith(FAILURE_PREFIX)
    ]
    return failures[-1].removeprefix(FAILURE_PREFIX).strip() if failures else ""


def stop(record: PlaneRecord, timeout: float = 20.0) -> bool:
    """Send SIGTERM, and SIGKILL after the timeout. True if the process ended after SIGTERM."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(record.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if start_ticks(record.pid) != record.started:
            return True
        time.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.kill(record.pid, signal.SIGKILL)
    return False
