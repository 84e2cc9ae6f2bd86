"""Runs one egress program while the launcher of a plane runs. Standard library only.

Arguments: source path, mark, directory, `egress`, pid of the launcher, then the program's command line.
The program ends with this process. If the program ends by itself, it is started again.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import suppress
from typing import NoReturn

from manta.localplane.node.host import libc

_PAUSE, _MAX_PAUSE = 0.5, 30.0


def main() -> NoReturn:
    if os.fork():
        os._exit(0)  # the agent waits for the parent
    launcher, command = int(sys.argv[5]), sys.argv[6:]
    libc.set_process_name("manta-egress")
    try:
        launcher_fd = os.pidfd_open(launcher)
    except ProcessLookupError:
        sys.exit(0)
    pause = _PAUSE
    while True:
        began = time.monotonic()
        if _run_until(launcher_fd, command):
            sys.exit(0)
        pause = _PAUSE if time.monotonic() - began > _MAX_PAUSE else min(pause * 2, _MAX_PAUSE)
        if select.select([launcher_fd], [], [], pause)[0]:
            sys.exit(0)


def _run_until(launcher_fd: int, command: list[str]) -> bool:
    """Run the program. Returns True if the launcher ended, False if the program did."""
    pid = os.fork()
    if pid == 0:
        libc.die_with_parent()
        # Python ignores SIGPIPE and programs inherit that; pasta (2023) then refuses to start.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.execv(command[0], command)
    program = os.pidfd_open(pid)
    ready = select.select([launcher_fd, program], [], [])[0]
    os.close(program)
    launcher_ended = launcher_fd in ready
    if launcher_ended:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return launcher_ended


if __name__ == "__main__":
    main()
