"""WebSocket frames, both ways, without a socket."""

from __future__ import annotations

import asyncio
import struct

import pytest

from manta.httpserver.upgrade import UpgradedConnection
from manta.localplane.apiserver.status_errors import StatusError
from manta.localplane.apiserver.streaming.websocket import (
    WebSocket,
    offered_protocols,
)

MASK = b"\x01\x02\x03\x04"
HANDSHAKE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-version": "13",
}


def frame(payload, *, code=2, final=True, bits=0):
    size = len(payload)
    head = bytes([(0x80 if final else 0) | bits | code])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    masked = bytes(byte ^ MASK[at % 4] for at, byte in enumerate(payload))
    return head + MASK + masked


def wired(*frames):
    reader, sent = asyncio.StreamReader(), []
    for one in frames:
        reader.feed_data(one)
    reader.feed_eof()

    async def drain() -> None:
        return

    return WebSocket(UpgradedConnection(reader, sent.append, drain, lambda: None)), sent


async def test_messages_of_every_size_arrive_whole() -> None:
    sizes = (0, 1, 125, 126, 70_000)
    socket, _ = wired(*(frame(b"x" * size) for size in sizes))
    assert [len(message) async for message in socket.messages()] == list(sizes)


async def test_pieces_are_joined_and_pings_answered_between() -> None:
    socket, sent = wired(
        frame(b"a", final=False), frame(b"p", code=9), frame(b"b", code=0), frame(b"", code=8)
    )
    assert [message async for message in socket.messages()] == [b"ab"]
    assert sent == [b"\x8a\x01p", b"\x88\x00"]


@pytest.mark.parametrize(
    ("bad", "code"),
    [
        (b"\x82\x01x", 1002),
        (frame(b"x", bits=0x40), 1002),
        (frame(b"x", bits=0x10), 1002),
        (frame(b"x", code=3), 1002),
        (frame(b"x", code=11), 1002),
        (frame(b"x", code=0), 1002),
        (frame(b"x", final=False) + frame(b"y"), 1002),
        (frame(b"p" * 126, code=9), 1002),
        (frame(b"p", code=9, final=False), 1002),
        (frame(b"\x03", code=8), 1002),
        (frame(struct.pack(">H", 1005), code=8), 1002),
        (frame(b"\xff\xfe", code=1), 1007),
        (b"\x82\xff" + struct.pack(">Q", 1 << 40) + MASK, 1009),
    ],
    ids=[
        "unmasked",
        "first reserved bit",
        "third reserved bit",
        "unknown data frame",
        "unknown control frame",
        "continues nothing",
        "message inside a message",
        "long ping",
        "ping in pieces",
        "short close",
        "close with a reserved code",
        "text that is not UTF-8",
        "too large",
    ],
)
async def test_a_client_that_breaks_the_protocol_gets_a_close_frame(bad, code) -> None:
    """P2."""
    socket, sent = wired(frame(b"good"), bad, frame(b"late"))
    assert [message async for message in socket.messages()] == [b"good"]
    close = sent[-1]
    assert close[0] == 0x88
    assert struct.unpack(">H", close[2:4]) == (code,)


async def test_half_a_frame_is_not_heard() -> None:
    socket, _ = wired(frame(b"good"), b"\x82")
    assert [message async for message in socket.messages()] == [b"good"]


async def test_frames_are_sent_with_the_right_length() -> None:
    socket, sent = wired()
    for size in (5, 200, 70_000):
        await socket.send(b"x" * size)
    assert sent[0] == b"\x82\x05xxxxx"
    assert sent[1][:4] == b"\x82\x7e\x00\xc8"
    assert sent[2][:10] == b"\x82\x7f" + struct.pack(">Q", 70_000)
    await socket.close()
    await socket.send(b"late")
    assert len(sent) == 4


async def test_the_handshake_answers_the_key() -> None:
    socket, sent = wired()
    pipe = socket._connection
    WebSocket.accept(pipe, HANDSHAKE, "v4.channel.k8s.io")
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in sent[0]
    assert b"Sec-WebSocket-Protocol: v4.channel.k8s.io" in sent[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("sec-websocket-key", "short"), ("sec-websocket-version", "8"), ("connection", "close")],
)
async def test_a_request_that_is_no_handshake_is_refused(name, value) -> None:
    """P2."""
    socket, sent = wired()
    with pytest.raises(StatusError) as refused:
        WebSocket.accept(socket._connection, HANDSHAKE | {name: value}, "")
    assert 400 <= refused.value.code < 500
    assert sent == []


async def test_nothing_is_compressed() -> None:
    socket, sent = wired()
    offered = HANDSHAKE | {"sec-websocket-extensions": "permessage-deflate"}
    WebSocket.accept(socket._connection, offered, "")
    assert b"permessage-deflate" not in sent[0]


def test_offered_protocols_are_a_list() -> None:
    assert offered_protocols({"sec-websocket-protocol": "a, b"}, "sec-websocket-protocol") == [
        "a",
        "b",
    ]
    assert offered_protocols({}, "sec-websocket-protocol") == []
