"""Reading a container's log: from its end, since a time, following. Lines are those of logpump."""

from __future__ import annotations

from pathlib import Path


def last_lines(path: Path, *, lines: int, limit: int) -> str:
    """The end of a log without times: at most so many lines and bytes."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - 4 * limit, 0))
            tail = file.read().splitlines()[-lines:]
    except FileNotFoundError:
        return ""
    text = b"\n".join(line.split(b" ", 3)[-1] for line in tail)
    return text[-limit:].decode(errors="replace")
