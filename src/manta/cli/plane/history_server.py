"""The history server of `manta up --history`: a child process on loopback, restarted when it ends.

It records its address and a secret in `history.json`, which only the owner of the plane can read. With the
secret a command gets a link for the browser, which can be used once.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import sys
import time
from pathlib import Path

import msgspec

from manta.api.usage import UsageError
from manta.cli.plane.child import child
from manta.cli.plane.operator import STABLE_SECONDS, pause_after
from manta.cli.plane.process import log_path, start_ticks
from manta.localplane.private_files import write_private_file

START_SECONDS = 30.0
_TIMEOUT_SECONDS = 10.0


class ServerRecord(msgspec.Struct, frozen=True):
    """The content of `history.json`."""

    pid: int
    ticks: int
    """Clock ticks from boot to its start: detects a reused pid."""
    port: int
    secret: str


def record_path(directory: Path) -> Path:
    return directory / "history.json"


def server_log(directory: Path) -> Path:
    return log_path(directory).with_name("history.log")


def write_server_record(path: Path, port: int, secret: str) -> None:
    pid = os.getpid()
    record = ServerRecord(pid, start_ticks(pid) or 0, port, secret)
    write_private_file(path, msgspec.json.encode(record).decode())


def read_server_record(directory: Path) -> ServerRecord | None:
    """The record of the running server; None if none runs."""
    try:
        record = msgspec.json.decode(record_path(directory).read_bytes(), type=ServerRecord)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    return record if start_ticks(record.pid) == record.ticks else None


async def serve_history(directory: Path, url: str) -> None:
    """Run the server until cancelled, and restart it whenever it exits."""
    record_path(directory).unlink(missing_ok=True)
    command = [sys.executable, "-m", "manta.cli.main", "history", "serve", "--store", url]
    command += ["--dir", str(directory), "--record", str(record_path(directory))]
    exits = 0
    while True:
        began = time.monotonic()
        async with child(command, server_log(directory), os.environ) as process:
            code = await process.wait()
        exits = 1 if time.monotonic() - began > STABLE_SECONDS else exits + 1
        pause = pause_after(exits)
        words = f"the history server exited with code {code}; restarting it in {pause:.0f} s: see {server_log(directory)}"
        print(words, file=sys.stderr, flush=True)
        await asyncio.sleep(pause)


def new_link(directory: Path) -> str:
    """A link for the browser that can be used once. Raises UsageError if no server runs here."""
    record = read_server_record(directory)
    if record is None:
        raise UsageError(
            f"no history server runs in {directory}: start the plane with `manta up --history`, or run"
            " `manta history serve`"
        )
    connection = http.client.HTTPConnection("127.0.0.1", record.port, timeout=_TIMEOUT_SECONDS)
    try:
        headers = {"Authorization": f"Bearer {record.secret}", "Content-Length": "0"}
        connection.request("POST", "/history/link", headers=headers)
        answer = connection.getresponse()
        body = answer.read(10_000)
    except (OSError, http.client.HTTPException) as error:
        raise UsageError(
            f"the history server does not answer: {error}; see {server_log(directory)}"
        ) from error
    finally:
        connection.close()
    if answer.status != 200:
        raise UsageError(f"the history server gave no link (HTTP {answer.status})")
    path: str = msgspec.json.decode(body)["path"]
    return f"http://127.0.0.1:{record.port}{path}"


def await_link(directory: Path) -> str:
    """`new_link`, once the server of a plane that has just started is there."""
    deadline = time.monotonic() + START_SECONDS
    while read_server_record(directory) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    return new_link(directory)
