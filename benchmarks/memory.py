"""How much memory a process holds."""

from __future__ import annotations

import ctypes
import gc
from pathlib import Path


def rss_mib(pid: int | str = "self") -> float:
    """Resident memory after everything that can be given back was given back."""
    if pid == "self":
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
    return _line("VmRSS", pid)


def peak_mib(pid: int) -> float:
    """The most that was ever resident."""
    return _line("VmHWM", pid)


def _line(name: str, pid: int | str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"/proc/{pid}/status has no {name}")


def own_mib(pid: int) -> float:
    """Resident memory that no other process shares: what its end gives back. The programs and libraries that
    another process of the same Python has loaded are not in it."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    lines = (line.split() for line in text.splitlines())
    return sum(int(words[1]) for words in lines if words[0].startswith("Private_")) / 1024


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
