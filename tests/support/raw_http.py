"""HTTP spoken by hand over TLS, to a plane in this process: for clients that no library would be."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from manta.httpserver.limits import Limits
from manta.localplane.plane import Plane, PlaneOptions


@dataclass(frozen=True, slots=True)
class Line:
    """One TLS connection, spoken by hand."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        async with asyncio.timeout(20):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines)
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return int(first.split(" ")[1]), headers, body

    async def chunked(self) -> bytes:
        """The body of an answer that comes in chunks, after its head."""
        body = b""
        async with asyncio.timeout(20):
            while size := int(await self.reader.readuntil(b"\r\n"), 16):
                body += (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readexactly(2)
        return body

    async def ended(self) -> bool:
        async with asyncio.timeout(20):
            try:
                return await self.reader.read(1) == b""
            except ConnectionError:
                return True


@dataclass(slots=True)
class RawServer:
    plane: Plane
    token: str
    lines: list[Line] = field(default_factory=list)

    async def connect(self, certificate: tuple[Path, Path] | None = None) -> Line:
        context = ssl.create_default_context(cadata=self.plane.authority.certificate)
        if certificate is not None:
            context.load_cert_chain(*certificate)
        line = Line(*await asyncio.open_connection("127.0.0.1", self.plane.port, ssl=context))
        self.lines.append(line)
        return line

    async def hang_up(self) -> None:
        for line in self.lines:
            line.writer.close()
        await asyncio.gather(
            *(line.writer.wait_closed() for line in self.lines), return_exceptions=True
        )

    def request(
        self, method: str, path: str, body: bytes = b"", *extra: str, token: str | None = None
    ) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *extra]
        lines.append(f"Authorization: Bearer {self.token if token is None else token}")
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@asynccontextmanager
async def raw_server(directory: Path, limits: Limits | None = None) -> AsyncIterator[RawServer]:
    options = PlaneOptions(directory, memory=True, controllers=False, limits=limits or Limits())
    async with Plane(options) as plane:
        served = RawServer(plane, (options.dir / "pki" / "admin.token").read_text())
        yield served
        await served.hang_up()
