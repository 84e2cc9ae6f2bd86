"""What each GPU does, which Pod holds it, and which processes hold its memory. Blocking."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from manta.api.times import format_time
from manta.localplane.node.gpus.allocation import Holding
from manta.localplane.node.gpus.device import Gpu
from manta.localplane.node.gpus.reading import Holder, Reading
from manta.localplane.node.host import wire
from manta.localplane.node.host.plane_id import plane_id
from manta.localplane.node.sandbox.launch import start_time
from manta.localplane.node.sandbox.processes import PLANE_VARIABLE, POD_VARIABLE
from manta.localplane.node.sandbox.sandbox import is_running

_ANCESTORS: Final = 64


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that holds memory of a GPU."""

    pid: int
    memory: int | None
    since: str
    """When the process started, RFC 3339; empty if it is not known."""
    uid: str
    """The UID of the Pod that it belongs or belonged to; empty if there is none on this plane."""
    living: bool
    """Whether that Pod still runs."""


@dataclass(frozen=True, slots=True)
class GpuState:
    gpu: Gpu
    reading: Reading
    pod: str
    """`namespace/name` of the Pod that holds it; empty if it is free."""
    processes: tuple[GpuProcess, ...]

    @property
    def leaks(self) -> tuple[GpuProcess, ...]:
        return tuple(one for one in self.processes if not one.living)


def gpu_states(
    gpus: Iterable[Gpu],
    readings: Mapping[str, Reading],
    holdings: Iterable[Holding],
    directory: Path,
) -> list[GpuState]:
    """`directory`: that of the node."""
    held = {id_: f"{one.namespace}/{one.name}" for one in holdings for id_ in one.ids}
    owners = Owners(directory)
    states = []
    for gpu in gpus:
        reading = readings.get(gpu.id, Reading())
        processes = owners.processes(reading.holders)
        states.append(GpuState(gpu, reading, held.get(gpu.id, ""), processes))
    return states


class Owners:
    """Finds the Pods of processes: by the mark in their environment, by their cgroup, or by the init of
    the Pod among their ancestors."""

    def __init__(self, directory: Path) -> None:
        self._plane = f"{PLANE_VARIABLE}={directory.resolve()}".encode()
        self._group = re.compile(rf"/manta-{plane_id(directory.resolve())}/([^/\n]+)/")
        self._inits = _running_inits(directory)

    def processes(self, holders: Iterable[Holder]) -> tuple[GpuProcess, ...]:
        return tuple(self._process(one) for one in holders)

    def _process(self, holder: Holder) -> GpuProcess:
        uid = self.pod_of(holder.pid)
        living = uid in self._inits.values()
        return GpuProcess(holder.pid, holder.memory, _started(holder.pid), uid, living)

    def pod_of(self, pid: int) -> str:
        """The UID; empty if the process is of no Pod of this plane, or not ours to read."""
        return self._by_mark(pid) or self._by_group(pid) or self._by_init(pid)

    def _by_mark(self, pid: int) -> str:
        words = _read(pid, "environ").split(b"\0")
        mark = f"{POD_VARIABLE}=".encode()
        if self._plane not in words:
            return ""
        return next((word[len(mark) :].decode() for word in words if word.startswith(mark)), "")

    def _by_group(self, pid: int) -> str:
        found = self._group.search(_read(pid, "cgroup").decode(errors="replace"))
        return found[1] if found else ""

    def _by_init(self, pid: int) -> str:
        for _ in range(_ANCESTORS):
            if pid in self._inits:
                return self._inits[pid]
            fields = _read(pid, "stat").rpartition(b")")[2].split()
            if len(fields) < 2 or (pid := int(fields[1])) == 0:
                break
        return ""


def _running_inits(directory: Path) -> dict[int, str]:
    """Pid -> UID of the Pod."""
    found = {}
    for path in directory.glob("pods/*/sandbox.json"):
        record = wire.read_record(path)
        if record is not None and is_running(record):
            found[int(record["pid"])] = path.parent.name
    return found


def _started(pid: int) -> str:
    try:
        ticks = start_time(pid)
        lines = Path("/proc/stat").read_text().splitlines()
    except (OSError, IndexError, ValueError):
        return ""
    boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    return format_time(datetime.fromtimestamp(boot + ticks / os.sysconf("SC_CLK_TCK"), UTC))


def _read(pid: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{file}").read_bytes()
    except OSError:
        return b""
