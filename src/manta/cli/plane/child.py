"""A child process of a plane: its output goes to a log file, and it ends together with the plane."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from manta.localplane.node.host.libc import end_with_parent

END_SECONDS = 10.0


@asynccontextmanager
async def child(
    command: Sequence[str], log: Path, environment: Mapping[str, str], pass_fds: Sequence[int] = ()
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The running process; at the end of the context it is stopped, by force after 10 seconds."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env=dict(environment),
            pass_fds=pass_fds,
            preexec_fn=end_with_parent,  # ends together with a killed plane
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()
