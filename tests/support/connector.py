"""A node connector for tests: every container is this machine, every port is a local one."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE, STDOUT, Process
from collections.abc import AsyncIterator, Sequence
from typing import Any

from manta.localplane.apiserver.streaming.connector import (
    ByteReader,
    ByteWriter,
    ContainerUnavailable,
    LogOptions,
)

LINES = tuple(f"line {number}\n".encode() for number in range(5))


class LocalSession:
    def __init__(self, process: Process) -> None:
        self._process = process
        self.sizes: list[tuple[int, int]] = []

    @property
    def stdin(self) -> ByteWriter | None:
        return self._process.stdin

    @property
    def stdout(self) -> ByteReader:
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def stderr(self) -> ByteReader | None:
        return self._process.stderr

    def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    async def wait(self) -> int:
        return await self._process.wait()

    async def close(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()


class LocalConnector:
    def __init__(self) -> None:
        self.sessions: list[LocalSession] = []
        self.ports: dict[int, int] = {}
        """Which local port stands for which port of a Pod."""

    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        if options.previous:
            raise ContainerUnavailable(f'previous terminated container "{container}" not found')
        lines = LINES[-options.tail_lines :] if options.tail_lines is not None else LINES
        return self._lines(lines)

    @staticmethod
    async def _lines(lines: Sequence[bytes]) -> AsyncIterator[bytes]:
        for line in lines:
            yield line

    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        *,
        stdin: bool,
        tty: bool,
    ) -> LocalSession:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=STDOUT if tty else PIPE
        )
        session = LocalSession(process)
        self.sessions.append(session)
        return session

    async def attach(
        self, namespace: str, pod: str, container: str, *, stdin: bool, tty: bool
    ) -> LocalSession:
        command = ("sh", "-c", "echo attached; exec cat" if stdin else "echo attached")
        return await self.exec(namespace, pod, container, command, stdin=stdin, tty=tty)

    async def node_document(self, node: str, path: str) -> Any:
        return {"node": node} if path == "about" else None

    async def dial(
        self, namespace: str, pod: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.ports[port])
