"""Connect the terminal of this process to a remote command.

On Windows, which has no termios and no SIGWINCH, input is sent line by line, and the size once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager


@contextmanager
def raw_terminal() -> Iterator[None]:
    """Send every key to the remote side, also Ctrl-C; restore the terminal at the end."""
    try:
        import termios
        import tty
    except ModuleNotFoundError:  # Windows
        yield
        return
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
            task.exception()  # the reader of the output reports a lost connection

    def changed() -> None:
        size = os.get_terminal_size(sys.stdin.fileno())
        task = asyncio.ensure_future(send(size.columns, size.lines))
        sending.add(task)
        task.add_done_callback(sent)

    resized = getattr(signal, "SIGWINCH", None)
    if resized is not None:
        loop.add_signal_handler(resized, changed)
    changed()
    try:
        yield
    finally:
        if resized is not None:
            loop.remove_signal_handler(resized)
        for task in sending:
            task.cancel()


def feed_stdin(
    write: Callable[[bytes], Awaitable[None]], close: Callable[[], Awaitable[None]]
) -> None:
    """Forward standard input in the background, until it ends or this process does.

    In a daemon thread, since a read from a terminal ends only with the next key. The reader of the
    output reports a lost connection.
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
