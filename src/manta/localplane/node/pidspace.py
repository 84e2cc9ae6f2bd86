"""Which of the processes in /proc are ours to end: those of our own pid namespace.

A plane in a container may have a directory of the very same name; the machine sees its processes too.
What we start ourselves is either in our own namespace (planes, launchers, Pods without namespaces) or
the first process of one made from it (a Pod's init). In a container, only the first process of the
container is that, and it is never a launcher.
"""

from __future__ import annotations

import os
from pathlib import Path

_NUMBERS = "NSpid:"


def is_here(pid: int) -> bool:
    """Does it run in our own pid namespace?"""
    numbers = _numbers(pid)
    if numbers is None:
        own = _namespace("self")
        return own is not None and _namespace(str(pid)) == own
    return len(numbers) == 1


def is_ours(pid: int) -> bool:
    """Does it run here, or is it the first process of a namespace made from ours?"""
    return is_here(pid) or is_first_below(_numbers(pid) or [])


def is_first_below(numbers: list[int]) -> bool:
    """By its number in each namespace, from ours down to its own. Pure."""
    return len(numbers) == 2 and numbers[-1] == 1


def numbers_in(status: str) -> list[int] | None:
    """What the kernel says in /proc/PID/status; None where it says nothing (gVisor). Pure."""
    for line in status.splitlines():
        if line.startswith(_NUMBERS):
            return [int(word) for word in line.removeprefix(_NUMBERS).split()]
    return None


def _numbers(pid: int) -> list[int] | None:
    """None of them if /proc is another namespace's: its numbers mean other processes to us."""
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
