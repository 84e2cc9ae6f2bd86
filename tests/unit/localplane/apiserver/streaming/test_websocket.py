"""WebSocket frames, both ways, without a socket."""

from __future__ import annotations

import asyncio
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.localplane.apiserver.streaming.pipe import Pipe
from manta.localplane.apiserver.streaming.websocket import (
    WebSocket,
    offered_protocols,
    unmasked,
)

MASK = b"\x01\x02\x03\x04"


def frame(payload, *, code=2, final=True):
    size = len(payload)
    head = bytes([(0x80 if final else 0) | code])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 65536:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    return head + MASK + unmasked(payload, MASK)


def wired(*frames):
    reader, sent = asyncio.StreamReader(), []
    for one in frames:
        reader.feed_data(one)
    reader.feed_eof()

    async def drain():
        return

    return WebSocket(Pipe(reader, sent.append, drain, lambda: None)), sent


@given(st.binary(max_size=300))
def test_a_mask_undoes_itself(payload):
    assert unmasked(unmasked(payload, MASK), MASK) == payload


async def test_messages_of_every_size_arrive_whole():
    sizes = (0, 1, 125, 126, 70_000)
    socket, _ = wired(*(frame(b"x" * size) for size in sizes))
    assert [len(message) async for message in socket.messages()] == list(sizes)


async def test_pieces_are_joined_and_pings_answered_between():
    socket, sent = wired(
        frame(b"a", final=False), frame(b"p", code=9), frame(b"b", code=0), frame(b"", code=8)
    )
    assert [message async for message in socket.messages()] == [b"ab"]
    assert sent == [b"\x8a\x01p", b"\x88\x02\x03\xe8"]


@pytest.mark.parametrize(
    "bad", [b"\x82\x01x", b"\x82\xff" + struct.pack(">Q", 1 << 40) + MASK, b"\x82"]
)
async def test_a_client_that_breaks_the_protocol_is_not_heard(bad):
    socket, _ = wired(frame(b"good"), bad)
    assert [message async for message in socket.messages()] == [b"good"]


async def test_frames_are_sent_with_the_right_length():
    socket, sent = wired()
    for size in (5, 200, 70_000):
        await socket.send(b"x" * size)
    assert sent[0] == b"\x82\x05xxxxx"
    assert sent[1][:4] == b"\x82\x7e\x00\xc8"
    assert sent[2][:10] == b"\x82\x7f" + struct.pack(">Q", 70_000)
    await socket.close()
    await socket.send(b"late")
    assert len(sent) == 4


async def test_the_handshake_answers_the_key():
    socket, sent = wired()
    pipe = socket._pipe
    WebSocket.accept(pipe, {"sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}, "v4.channel.k8s.io")
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in sent[0]
    assert b"Sec-WebSocket-Protocol: v4.channel.k8s.io" in sent[0]


def test_offered_protocols_are_a_list():
    assert offered_protocols({"sec-websocket-protocol": "a, b"}) == ["a", "b"]
    assert offered_protocols({}) == []
