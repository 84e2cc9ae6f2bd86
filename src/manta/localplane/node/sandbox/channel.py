"""Requests to a helper process, with replies, and the events that it sends in between."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from typing import Any

from manta.localplane.node.host import wire

OnEvent = Callable[[dict[str, Any], list[int]], None]


class Refused(Exception):  # noqa: N818 - a name that reads in `except Refused`
    """The helper replied with an error."""


class Gone(Exception):  # noqa: N818 - as above
    """The helper process has ended."""


class Channel:
    """The agent's end of a SOCK_SEQPACKET socket, on the running event loop."""

    def __init__(
        self, channel: socket.socket, on_event: OnEvent, on_close: Callable[[], None]
    ) -> None:
        channel.setblocking(False)
        self._socket = channel
        self._on_event = on_event
        self._on_close = on_close
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._sequence = 0
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(channel.fileno(), self._read)

    async def request_socket(self, op: str, **fields: Any) -> int:
        """A request whose reply is a file descriptor, which the caller must close."""
        reply = await self.request(op, (), **fields)
        fds: list[int] = reply["fds"]
        return fds[0]

    async def request(self, op: str, fds: Sequence[int] = (), **fields: Any) -> dict[str, Any]:
        """The reply. Raises Refused or Gone."""
        if self._closed:
            raise Gone(op)
        self._sequence += 1
        answer: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._waiting[self._sequence] = answer
        try:
            wire.send(self._socket, {"op": op, "seq": self._sequence, **fields}, fds)
        except OSError as error:
            self._waiting.pop(self._sequence, None)
            self.close()
            raise Gone(op) from error
        try:
            reply = await answer
        except asyncio.CancelledError:
            if answer.done() and not answer.cancelled() and answer.exception() is None:
                _close(answer.result()["fds"])
            raise
        if "error" in reply:
            raise Refused(reply["error"])
        return reply

    def _read(self) -> None:
        try:
            received = wire.receive(self._socket)
        except BlockingIOError:
            return
        except OSError:
            received = None
        if received is None:
            self.close()
            return
        message, fds = received
        if "reply" not in message:
            self._on_event(message, fds)
        elif (waiting := self._waiting.pop(message["reply"], None)) and not waiting.done():
            waiting.set_result({**message, "fds": fds})
        else:  # whoever sent the request was cancelled
            _close(fds)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Gone())
        self._waiting.clear()
        self._on_close()


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        os.close(fd)
