"""A conversation with a helper process: questions with answers, and news in between."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

from manta.localplane.node import wire

News = Callable[[dict[str, Any], list[int]], None]


class Refused(Exception):  # noqa: N818 - a name that reads in `except Refused`
    """The helper understood, and said no."""


class Gone(Exception):  # noqa: N818 - as above
    """The helper is no more."""


class Channel:
    """The agent's end of a SOCK_SEQPACKET socket. Lives on the running event loop."""

    def __init__(self, channel: socket.socket, on_news: News, on_close: Callable[[], None]) -> None:
        channel.setblocking(False)
        self._socket = channel
        self._on_news = on_news
        self._on_close = on_close
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._sequence = 0
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(channel.fileno(), self._read)

    async def ask_for_socket(self, op: str, **fields: Any) -> int:
        """A question whose answer is a file descriptor, which is then the caller's."""
        answer = await self.ask(op, (), **fields)
        fds: list[int] = answer["fds"]
        return fds[0]

    async def ask(self, op: str, fds: Sequence[int] = (), **fields: Any) -> dict[str, Any]:
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
        reply = await answer
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
            self._on_news(message, fds)
        elif (waiting := self._waiting.pop(message["reply"], None)) and not waiting.done():
            waiting.set_result({**message, "fds": fds})

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
