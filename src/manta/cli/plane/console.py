"""The console of `manta up`: a child process that starts with the first visit.

The plane only listens, so a console that nobody opens costs a socket. The port is kept for the next start: tabs
that are open recover by themselves.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from manta.api.usage import UsageError
from manta.cli.console import DEFAULT_PORT
from manta.cli.plane.child import child
from manta.cli.plane.operator import STABLE_SECONDS, pause_after
from manta.cli.plane.process import log_path
from manta.localplane.private_files import write_private_file

_BACKLOG = 128


class ConsoleRecord(msgspec.Struct, frozen=True):
    """The content of `console.json`."""

    port: int
    served: bool
    """Whether the plane that wrote it has a console."""


def record_path(directory: Path) -> Path:
    return directory / "console.json"


def console_log(directory: Path) -> Path:
    return log_path(directory).with_name("console.log")


def read_console_record(directory: Path) -> ConsoleRecord | None:
    try:
        return msgspec.json.decode(record_path(directory).read_bytes(), type=ConsoleRecord)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def listener_of(directory: Path, *, wanted: bool) -> socket.socket | None:
    """A listener on the port of the last start, else on the default one, else on any, and the record of it.

    None, and a record that says so, if no console is wanted; the port stays known.
    """
    if not wanted:
        if (before := read_console_record(directory)) is not None:
            _write(directory, ConsoleRecord(before.port, served=False))
        return None
    listener = _first_free(_ports(directory))
    listener.listen(_BACKLOG)
    listener.setblocking(False)
    _write(directory, ConsoleRecord(listener.getsockname()[1], served=True))
    return listener


def _write(directory: Path, record: ConsoleRecord) -> None:
    write_private_file(record_path(directory), msgspec.json.encode(record).decode())


def _ports(directory: Path) -> Iterator[int]:
    if (before := read_console_record(directory)) is not None:
        yield before.port
    yield DEFAULT_PORT
    yield 0


def _first_free(ports: Iterator[int]) -> socket.socket:
    for port in ports:
        with suppress(OSError):
            return bound(port)
    raise UsageError("the console found no free port on 127.0.0.1; use --no-console")


def bound(port: int) -> socket.socket:
    """A socket on this port of 127.0.0.1. Raises OSError if it is taken."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(("127.0.0.1", port))
    except OSError:
        made.close()
        raise
    return made


async def serve_console(directory: Path, listener: socket.socket) -> None:
    """Start the console when somebody connects, and again after it has ended. Until cancelled."""
    descriptor = listener.fileno()
    command = [sys.executable, "-m", "manta.cli.main", "console"]
    command += ["--dir", str(directory), "--listener", str(descriptor)]
    exits = 0
    with listener:
        while True:
            await _await_connection(descriptor)
            began = time.monotonic()
            log = console_log(directory)
            async with child(command, log, os.environ, pass_fds=(descriptor,)) as process:
                code = await process.wait()
            exits = 1 if time.monotonic() - began > STABLE_SECONDS else exits + 1
            pause = pause_after(exits)
            words = f"the console exited with code {code}; it may start again in {pause:.0f} s: see {log}"
            print(words, file=sys.stderr, flush=True)
            await asyncio.sleep(pause)


async def _await_connection(descriptor: int) -> None:
    loop, there = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, there.set)
    try:
        await there.wait()
    finally:
        loop.remove_reader(descriptor)


def print_console_link(directory: Path, *, opening: bool) -> None:
    """Where the console of the running plane is, on standard error; a browser is opened if asked for."""
    from manta.cli.server.console_link import new_link, open_in_browser

    record = read_console_record(directory)
    if record is None or not record.served:
        if opening:
            words = "the plane runs without a console: `manta down`, then `manta up --open`"
            print(f"manta: warning: --open: {words}", file=sys.stderr)
        return
    link = new_link(directory, record.port)
    print(f"console at {link}", file=sys.stderr)
    if opening and not open_in_browser(directory, link):
        print("manta: warning: --open: no browser could be started here", file=sys.stderr)
