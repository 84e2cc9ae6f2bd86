"""The people who use the console: each with a client and watches of their own rights."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import Final

from manta.api.usage import UsageError
from manta.console.rights import Rights, ask_rights
from manta.console.sessions import Session
from manta.console.watching import Watching
from manta.kube.client import Client
from manta.runtime.clock import Clock

Connect = Callable[[str], Client]
"""A client with this bearer token; with none, of the user of the kubeconfig."""
IDLE_SECONDS: Final = 900.0
RIGHTS_SECONDS: Final = 30.0
MOST: Final = 64


class Visitor:
    def __init__(self, client: Client, watching: Watching, clock: Clock) -> None:
        self.client = client
        self.watching = watching
        self.streams = 0
        self._clock = clock
        self._seen = clock.monotonic()
        self._rights: dict[str, tuple[float, Rights]] = {}

    def idle(self) -> float:
        """Seconds since the last request; 0 while a stream is open."""
        return 0.0 if self.streams else self._clock.monotonic() - self._seen

    def visit(self) -> None:
        self._seen = self._clock.monotonic()

    async def rights(self, namespace: str) -> Rights:
        """What this user may do in a namespace, at most `RIGHTS_SECONDS` old."""
        at, found = self._rights.get(namespace, (float("-inf"), Rights()))
        if self._clock.monotonic() - at > RIGHTS_SECONDS:
            found = await ask_rights(self.client, namespace)
            self._rights[namespace] = (self._clock.monotonic(), found)
        return found

    async def close(self) -> None:
        await self.watching.close()
        await self.client.close()


class Visitors:
    def __init__(self, connect: Connect, clock: Clock, namespaces: tuple[str, ...] = ()) -> None:
        self._connect = connect
        self._clock = clock
        self._namespaces = namespaces
        self._known: dict[str, Visitor] = {}
        self._turn = asyncio.Lock()

    async def of(self, session: Session) -> Visitor:
        """The visitor of a session. Raises UsageError if there are too many, and the client's errors."""
        name = hashlib.sha256(msg_of(session)).hexdigest()
        async with self._turn:
            found = self._known.get(name)
            if found is None:
                await self._forget_idle()
                if len(self._known) >= MOST:
                    raise UsageError(f"{MOST} users are logged in; try again later")
                found = self._known[name] = await self._welcome(session)
        found.visit()
        return found

    async def close(self) -> None:
        await asyncio.gather(*(one.close() for one in self._known.values()))
        self._known.clear()

    async def _welcome(self, session: Session) -> Visitor:
        client = self._connect(session.token)
        watching = Watching(client, self._clock, session.namespaces or self._namespaces)
        try:
            await watching.start()
        except BaseException:
            await watching.close()
            await client.close()
            raise
        return Visitor(client, watching, self._clock)

    async def _forget_idle(self) -> None:
        for name, one in list(self._known.items()):
            if one.idle() > IDLE_SECONDS:
                del self._known[name]
                await one.close()


def msg_of(session: Session) -> bytes:
    return "\0".join((session.token, *session.namespaces)).encode()
