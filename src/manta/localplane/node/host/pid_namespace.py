"""Which processes in /proc belong to planes of our own pid namespace.

A plane inside a container may use the same directory name, and /proc of the machine shows its processes
too. Our own processes are either in our namespace (planes, launchers, Pods without namespaces) or the
first process of a child namespace (a Pod's init).
"""

from __future__ import annotations

import os
from pathlib import Path

_NUMBERS = "NSpid:"


def is_here(pid: int) -> bool:
    """Whether the process runs in our own pid namespace."""
    numbers = _numbers(pid)
    if numbers is None:
        own = _namespace("self")
        return own is not None and _namespace(str(pid)) == own
    return len(numbers) == 1


def is_ours(pid: int) -> bool:
    """Whether the process runs in our namespace, or is the first process of a child namespace."""
    return is_here(pid) or is_first_below(_numbers(pid) or [])


def is_first_below(numbers: list[int]) -> bool:
    """`numbers`: the pid in each namespace, from ours down to the process's own. Pure."""
    return len(numbers) == 2 and numbers[-1] == 1


def numbers_in(status: str) -> list[int] | None:
    """The pids in /proc/PID/status; None if the kernel does not list them (gVisor). Pure."""
    for line in status.splitlines():
        if line.startswith(_NUMBERS):
            return [int(word) for word in line.removeprefix(_NUMBERS).split()]
    return None


def _numbers(pid: int) -> list[int] | None:
    """Empty if /proc belongs to another namespace, whose pids mean other processes to us."""
    try:
        if str(Path("/proc/self").readlink()) != str(os.getpid()):
            return []
        return numbers_in(Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return []


def _namespace(pid: str) -> Path | None:
    try:
        return Path(f"/proc/{pid}/ns/pid").readlink()
    except OSError:
        return None
