"""Starts API servers quickly: one process has imported everything, and forks.

What is forked is `manta apiserver` like any other: its own process and session, killed with -9.
Only its imports were paid for once. `python -m histories.fork_server` is the side that forks: a line
of JSON on its input is a server to start, a line on its output the new process's id; the first line
of its output says that it is ready.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

LOADED = (
    "cryptography.hazmat.primitives.asymmetric.ec",
    "cryptography.x509",
    "manta.cli.apiserver",
    "manta.localplane.controllers",
    "manta.localplane.plane",
    "uvloop",
)


class ForkServer:
    """The side that asks for servers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._turn = asyncio.Lock()

    async def start(self, arguments: list[str], log: Path) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        async with self._turn:
            wanted = {"arguments": arguments, "log": str(log)}
            self._process.stdin.write(json.dumps(wanted).encode() + b"\n")
            return int(await self._process.stdout.readline())


@asynccontextmanager
async def a_fork_server() -> AsyncIterator[ForkServer]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "histories.fork_server",
        stdin=pipe,
        stdout=pipe,
        cwd=Path(__file__).parents[1],
    )
    assert process.stdin is not None
    assert process.stdout is not None
    await process.stdout.readline()  # everything is loaded
    try:
        yield ForkServer(process)
    finally:
        process.stdin.close()
        await process.wait()


def main() -> None:
    for name in LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    # Whoever kills a server sees it gone, not a zombie that waits for us.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        wanted = json.loads(line)
        pid = os.fork()
        if not pid:
            serve(wanted["arguments"], wanted["log"])
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def serve(arguments: list[str], log: str) -> None:
    from manta.cli.main import main as manta

    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for number in (1, 2):
            os.dup2(file, number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = manta(arguments)
    finally:
        os._exit(code)


if __name__ == "__main__":
    main()
