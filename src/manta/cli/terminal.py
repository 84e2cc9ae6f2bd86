"""The terminal of this process, lent to a command that runs elsewhere."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Every key goes to the other side, Ctrl-C too; the terminal is as before afterwards."""
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    tty.setraw(fd)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


@contextmanager
def window_sizes(send: Callable[[int, int], Awaitable[None]]) -> Iterator[None]:
    """Send the size of the terminal (columns, rows) now, and whenever it changes."""
    loop = asyncio.get_running_loop()
    sending: set[asyncio.Future[None]] = set()

    def sent(task: asyncio.Future[None]) -> None:
        sending.discard(task)
        if not task.cancelled():
            task.exception()  # whoever reads the output reports a lost connection

    def changed() -> None:
        size = os.get_terminal_size(sys.stdin.fileno())
        task = asyncio.ensure_future(send(size.columns, size.lines))
        sending.add(task)
        task.add_done_callback(sent)

    loop.add_signal_handler(signal.SIGWINCH, changed)
    changed()
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        for task in sending:
            task.cancel()


def feed_stdin(
    write: Callable[[bytes], Awaitable[None]], close: Callable[[], Awaitable[None]]
) -> None:
    """Pass standard input on in the background, until it ends or this process does.

    A daemon thread: a read of a terminal ends only with the next key, and nothing may wait for it.
    Files, pipes and terminals are all read in this way. When the connection is lost, whoever reads the
    output reports it.
    """
    loop = asyncio.get_running_loop()

    def wait_for(sent: Awaitable[None]) -> bool:
        async def wrapped() -> None:
            await sent

        try:
            asyncio.run_coroutine_threadsafe(wrapped(), loop).result()
        except Exception:  # noqa: BLE001  # the reader of the output reports the lost connection
            return False
        return True

    def copy() -> None:
        while data := os.read(sys.stdin.fileno(), 65536):
            if not wait_for(write(data)):
                return
        wait_for(close())

    threading.Thread(target=copy, name="stdin", daemon=True).start()
