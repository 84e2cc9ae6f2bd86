"""Runs one egress program for as long as the launcher of a plane exists. Standard library only.

Arguments: source path, mark, directory, `egress`, pid of the launcher, then the program's command line.
The program ends with this process, however that ends. A program that ends by itself is started again.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import NoReturn

from manta.localplane.node import libc

_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


def main() -> NoReturn:
    if os.fork():
        os._exit(0)  # the agent that started us waits for this
    launcher, line = int(sys.argv[5]), sys.argv[6:]
    libc.set_process_name("manta-egress")
    try:
        watched = os.pidfd_open(launcher)
    except ProcessLookupError:
        sys.exit(0)
    pause = _PAUSE
    while True:
        began = time.monotonic()
        if _run_until(watched, line):
            sys.exit(0)
        pause = (
            _PAUSE if time.monotonic() - began > _LONGEST_PAUSE else min(pause * 2, _LONGEST_PAUSE)
        )
        if select.select([watched], [], [], pause)[0]:
            sys.exit(0)


def _run_until(watched: int, line: list[str]) -> bool:
    """Run the program. True when the launcher ended, False when the program did."""
    pid = os.fork()
    if pid == 0:
        libc.die_with_parent()
        # Python ignores SIGPIPE, programs inherit that, and pasta (2023) refuses to start with it.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execv(line[0], line)
    program = os.pidfd_open(pid)
    ready = select.select([watched, program], [], [])[0]
    os.close(program)
    ended = watched in ready
    if ended:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return ended


if __name__ == "__main__":
    main()
