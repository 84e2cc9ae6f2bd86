"""Descriptors that a helper sends belong to somebody, also when nobody waits for them any more."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from manta.localplane.node.host import wire
from manta.localplane.node.sandbox.channel import Channel


@asynccontextmanager
async def channel_to_helper() -> AsyncIterator[tuple[Channel, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    channel = Channel(ours, lambda *_: None, lambda: None)
    with theirs:
        yield channel, theirs
        channel.close()


def reply_with_pipe(helper: socket.socket, sequence: int) -> int:
    """Reply with the writing end of a pipe; return the other end, which ends when that one is closed."""
    reading, writing = os.pipe()
    wire.send(helper, {"reply": sequence}, [writing])
    os.close(writing)
    os.set_blocking(reading, False)
    return reading


async def ended(reading: int) -> bool:
    for _ in range(50):
        await asyncio.sleep(0.01)
        with suppress(BlockingIOError):
            return os.read(reading, 1) == b""
    return False


@pytest.mark.parametrize("early", [True, False], ids=["before-the-reply", "with-the-reply"])
async def test_a_descriptor_for_a_cancelled_request_is_closed(early: bool) -> None:
    async with channel_to_helper() as (channel, helper):
        asking = asyncio.create_task(channel.request_socket("socket"))
        await asyncio.sleep(0)
        if early:
            asking.cancel()
        reading = reply_with_pipe(helper, 1)
        if not early:  # the reply is read in the same turn of the loop, before the task runs again
            channel._read()
            asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking
        assert await ended(reading)
        os.close(reading)


async def test_a_descriptor_that_was_waited_for_stays_open() -> None:
    async with channel_to_helper() as (channel, helper):
        asking = asyncio.create_task(channel.request_socket("socket"))
        await asyncio.sleep(0)
        reading = reply_with_pipe(helper, 1)
        received = await asking
        with pytest.raises(BlockingIOError):
            os.read(reading, 1)
        os.close(received)
        os.close(reading)
