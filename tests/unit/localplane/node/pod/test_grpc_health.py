"""The health check of gRPC, against a server that speaks the protocol by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from manta.localplane.node.pod.grpc_health import check_health

SETTINGS = b"\0\0\0\4\0\0\0\0\0"
HEADERS = b"\0\0\1\1\4\0\0\0\1\x88"  # :status 200, one byte of the static table
TRAILERS = b"\0\0\0\1\5\0\0\0\1"
GO_AWAY = b"\0\0\x08\7\0\0\0\0\0" + b"\0" * 8


def data(message: bytes, *, padding: int = 0) -> bytes:
    body = b"\0" + len(message).to_bytes(4) + message
    if padding:
        body = bytes([padding]) + body + b"\0" * padding
    return len(body).to_bytes(3) + bytes([0, 8 if padding else 0]) + b"\0\0\0\1" + body


@asynccontextmanager
async def server(*frames: bytes, asked: list[bytes] | None = None) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got = await reader.readuntil(b"Health/Check")
        if asked is not None:
            asked.append(got + await reader.read(1 << 20))
        writer.write(b"".join(frames))
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listening:
        yield listening.sockets[0].getsockname()[1]


async def check(port: int, service: str = "") -> str:
    streams = await asyncio.open_connection("127.0.0.1", port)
    async with asyncio.timeout(10):
        return await check_health(streams, f"127.0.0.1:{port}", service)


@pytest.mark.parametrize(
    ("message", "word"),
    [(b"\x08\x01", "SERVING"), (b"\x08\x02", "NOT_SERVING"), (b"", "UNKNOWN"), (b"\x08\x07", "7")],
)
async def test_the_servers_word_is_read(message: bytes, word: str) -> None:
    async with server(SETTINGS, HEADERS, data(message), TRAILERS) as port:
        assert await check(port) == word


async def test_padding_and_pings_are_no_trouble() -> None:
    ping = b"\0\0\x08\6\0\0\0\0\0" + b"12345678"
    async with server(SETTINGS, ping, HEADERS, data(b"\x08\x01", padding=9), TRAILERS) as port:
        assert await check(port) == "SERVING"


async def test_the_service_is_named_in_the_question() -> None:
    asked: list[bytes] = []
    async with server(SETTINGS, HEADERS, data(b"\x08\x01"), TRAILERS, asked=asked) as port:
        await check(port, "my.Service")
    assert b"\x0a\x0amy.Service" in asked[0]


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ((SETTINGS, TRAILERS), "does not implement the gRPC health protocol"),
        ((SETTINGS, GO_AWAY), "ended the call"),
        ((SETTINGS,), "closed the connection"),
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "not an HTTP/2 server"),
    ],
)
async def test_a_server_that_speaks_otherwise_is_named(
    frames: tuple[bytes, ...], words: str
) -> None:
    async with server(*frames) as port:
        with pytest.raises(OSError, match=words):
            await check(port)


@pytest.mark.parametrize("length", [126, 127, 128, 300, 20_000])
async def test_the_whole_name_of_a_service_is_asked_for(length: int) -> None:
    """P7: it was cut at 127 bytes."""
    name = "s" * length
    asked: list[bytes] = []
    async with server(SETTINGS, HEADERS, data(b"\x08\x01"), TRAILERS, asked=asked) as port:
        streams = await asyncio.open_connection("127.0.0.1", port)
        assert await check_health(streams, f"{name}:80", name) == "SERVING"
    assert message_of(asked[0]) == name


def message_of(sent: bytes) -> str:
    """The name in the request that a client sent, read frame by frame."""
    rest, body = sent.removeprefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), b""
    while rest:
        size, kind = int.from_bytes(rest[:3]), rest[3]
        body += rest[9 : 9 + size] if kind == 0 else b""
        rest = rest[9 + size :]
    length, shift, at = 0, 0, 6  # after five bytes of gRPC and the field's number
    while True:
        length |= (body[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if body[at - 1] < 0x80:
            break
    assert int.from_bytes(body[1:5]) == len(body) - 5
    assert len(body) - at == length
    return body[at:].decode()
