"""The descendants of a process: how a Pod without namespaces is ended.

A mark in the environment is not enough: programs that set their title overwrite what /proc shows of it.
But the init of such a Pod adopts all orphans of the Pod, so every process of the Pod is a descendant of
the init while that runs. Processes that outlive a killed init are found by their cgroup.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

_TRIES = 200
_PAUSE_SECONDS = 0.01


def descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                if fields[0] != "Z":
                    children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    todo = [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def end_descendants(pid: int) -> list[int]:
    """Kill all descendants of `pid`, which adopts orphans, and return their pids. Blocking.

    Repeats until none is left, because a descendant may start more processes meanwhile.
    """
    ended: set[int] = set()
    for _ in range(_TRIES):
        found = descendants(pid)
        if not found:
            break
        ended.update(found)
        kill(found)
        time.sleep(_PAUSE_SECONDS)
    return sorted(ended)


def kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Zombies count as ended: only their parent can remove them."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
