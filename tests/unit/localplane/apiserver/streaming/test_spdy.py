"""SPDY sessions without a socket: streams open, carry data, end."""

from __future__ import annotations

import asyncio
import struct
import zlib
from typing import Any

from manta.httpserver.upgrade import UpgradedConnection
from manta.localplane.apiserver.streaming.spdy import DICTIONARY, SpdySession


class Peer:
    """The client's side: writes frames, reads what came back."""

    def __init__(self) -> None:
        self.reader = asyncio.StreamReader()
        self.sent = b""
        self.streams: list[Any] = []
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self.session = SpdySession(
            UpgradedConnection(self.reader, self._take, self._drain, self._abort), self._on
        )

    def _take(self, data) -> None:
        self.sent += data

    async def _drain(self) -> None:
        return

    def _abort(self) -> None:
        return

    async def _on(self, stream) -> None:
        self.streams.append(stream)

    def control(self, kind, body, flags=0) -> None:
        head = struct.pack(">HHB", 0x8003, kind, flags) + len(body).to_bytes(3)
        self.reader.feed_data(head + body)

    def open(self, number, flags=0, **headers) -> None:
        block = struct.pack(">I", len(headers))
        for name, value in headers.items():
            for text in (name, value):
                block += struct.pack(">I", len(text)) + text.encode()
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        self.control(1, struct.pack(">IIBB", number, 0, 0, 0) + packed, flags)

    def data(self, number, payload, *, fin=False) -> None:
        self.reader.feed_data(
            struct.pack(">I", number) + bytes([int(fin)]) + len(payload).to_bytes(3) + payload
        )

    def frames(self):
        """(number or control kind, flags, body) of everything sent so far."""
        found, rest = [], self.sent
        while rest:
            size = int.from_bytes(rest[5:8])
            control = bool(rest[0] & 0x80)
            key = int.from_bytes(rest[2:4]) if control else int.from_bytes(rest[:4])
            found.append(("control" if control else "data", key, rest[4], rest[8 : 8 + size]))
            rest = rest[8 + size :]
        return found

    async def run(self) -> None:
        self.reader.feed_eof()
        await self.session.run()


def test_the_dictionary_is_the_protocols() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


async def test_a_stream_is_opened_with_headers_and_answered() -> None:
    peer = Peer()
    peer.open(1, streamType="stdin")
    peer.open(3, streamType="error")
    await peer.run()
    assert [(one.number, one.headers) for one in peer.streams] == [
        (1, {"streamtype": "stdin"}),
        (3, {"streamtype": "error"}),
    ]
    assert [(kind, key) for kind, key, _, _ in peer.frames()] == [("control", 2)] * 2


async def test_data_is_read_until_the_end() -> None:
    peer = Peer()
    peer.open(1)
    peer.data(1, b"one")
    peer.data(1, b"two", fin=True)
    await peer.run()
    (stream,) = peer.streams
    assert [await stream.read() for _ in range(3)] == [b"one", b"two", b""]
    assert await stream.read() == b""


async def test_data_is_sent_and_finished_once() -> None:
    peer = Peer()
    peer.open(1)
    await peer.run()
    (stream,) = peer.streams
    await stream.write(b"out")
    await stream.finish()
    await stream.finish()
    await stream.write(b"late")
    sent = [frame for frame in peer.frames() if frame[0] == "data"]
    assert sent == [("data", 1, 0, b"out"), ("data", 1, 1, b"")]


async def test_a_session_that_ends_ends_its_streams() -> None:
    peer = Peer()
    peer.open(1)
    peer.control(7, struct.pack(">II", 1, 0))
    peer.data(1, b"after go_away")
    await peer.session.run()
    assert await peer.streams[0].read() == b""


async def test_resets_and_pings_are_understood() -> None:
    peer = Peer()
    peer.open(1)
    peer.control(3, struct.pack(">II", 1, 5))
    peer.control(6, b"\x00\x00\x00\x09")
    await peer.run()
    assert await peer.streams[0].read() == b""
    assert peer.frames()[-1][3] == b"\x00\x00\x00\x09"


async def test_data_for_nobody_is_refused() -> None:
    peer = Peer()
    peer.data(9, b"x")
    await peer.run()
    assert peer.frames() == [("control", 3, 0, struct.pack(">II", 9, 1))]


async def test_nonsense_ends_the_session_quietly() -> None:
    peer = Peer()
    peer.control(1, struct.pack(">IIBB", 1, 0, 0, 0) + b"not deflated")
    await peer.run()
    assert peer.streams == []
