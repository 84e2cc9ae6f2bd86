"""The people who use the console: each with a client and watches of their own rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from manta.api.usage import UsageError
from manta.console.live_queries import LiveQueries
from manta.console.object_watch import ObjectWatch
from manta.console.operators import LocalMetrics, Operators
from manta.console.rights import Rights, ask_rights, user_name
from manta.console.samples import Samples
from manta.console.sessions import Session
from manta.console.views import SharedObjects
from manta.kube.client import Client
from manta.kube.errors import Unauthorized
from manta.runtime.clock import Clock

Connect = Callable[[Session], Client]
"""A client with the rights of this session."""
IDLE_SECONDS: Final = 900.0
SPARED_SECONDS: Final = 60.0
"""A visitor who was here so lately does not make room for another."""
RIGHTS_SECONDS: Final = 30.0
CHECK_SECONDS: Final = 60.0
"""How long a token that was revoked or is over still shows what was read with it."""
MAX_VISITORS: Final = 64


class Visitor:
    def __init__(self, client: Client, watch: ObjectWatch, clock: Clock, token: str = "") -> None:
        """`token`: the visitor's own, for the history server; empty: the kubeconfig's user, or impersonated."""
        self.client = client
        self.token = token
        self.watch = watch
        self.queries = LiveQueries(client, clock, watch.notify)
        self.operators: Operators | None = None
        """Made by the first look at the page of the operator."""
        self.streams = 0
        self._clock = clock
        self._seen = clock.monotonic()
        self._checked = clock.monotonic()
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

    def metrics_reader(self, local: LocalMetrics | None) -> Operators:
        return Operators(self.client, self._clock, local)

    async def check(self) -> None:
        """Ask from time to time whether Kubernetes still accepts the credentials: a watch that is open does
        not say so. Raises Unauthorized, and the client's errors."""
        now = self._clock.monotonic()
        if now - self._checked > CHECK_SECONDS:
            before, self._checked = self._checked, now
            try:
                await user_name(self.client)
            except BaseException:
                self._checked = before
                raise

    async def close(self) -> None:
        await self.queries.close()
        await self.watch.close()
        await self.client.close()


class Visitors:
    def __init__(self, connect: Connect, clock: Clock, namespaces: tuple[str, ...] = ()) -> None:
        self._connect = connect
        self._clock = clock
        self._namespaces = namespaces
        self._known: dict[str, asyncio.Task[Visitor]] = {}
        self._objects = SharedObjects()
        self._samples = Samples()

    async def of(self, session: Session) -> Visitor:
        """The visitor of a session. Raises UsageError if there are too many, and the client's errors.

        People do not wait for each other: each first visit lists with the rights of its own user.
        """
        name = session.identity()
        if name not in self._known:
            await self._make_room()
        if (arriving := self._known.get(name)) is None:
            arriving = self._known[name] = asyncio.create_task(self._welcome(session))
        try:
            found = await asyncio.shield(arriving)
            await found.check()
        except Exception as error:
            if arriving.done() and self._known.get(name) is arriving:
                await self._after(error, name)
            raise
        found.visit()
        return found

    async def close(self) -> None:
        for name in tuple(self._known):
            await self._forget(name)

    async def _welcome(self, session: Session) -> Visitor:
        client = self._connect(session)
        namespaces = session.namespaces or self._namespaces
        watch = ObjectWatch(client, self._clock, namespaces, self._objects.share, self._samples)
        try:
            await watch.start()
        except BaseException:
            await watch.close()
            await client.close()
            raise
        return Visitor(client, watch, self._clock, session.token)

    async def _after(self, error: Exception, name: str) -> None:
        """A first visit that failed, and a token that is over, leave nothing."""
        if isinstance(error, Unauthorized) or self._known[name].exception() is not None:
            await self._forget(name)

    async def _make_room(self) -> None:
        arrived = {
            name: one.result()
            for name, one in self._known.items()
            if one.done() and not one.cancelled() and one.exception() is None
        }
        for name, one in arrived.items():
            if one.idle() > IDLE_SECONDS:
                await self._forget(name)
        if len(self._known) < MAX_VISITORS:
            return
        idle = {name: one.idle() for name, one in arrived.items() if name in self._known}
        name = max(idle, key=lambda one: idle[one], default="")
        if idle.get(name, 0.0) < SPARED_SECONDS:
            raise UsageError(f"{MAX_VISITORS} users are logged in; try again later")
        await self._forget(name)

    async def _forget(self, name: str) -> None:
        arriving = self._known.pop(name)
        if not arriving.done():
            arriving.cancel()
        [found] = await asyncio.gather(arriving, return_exceptions=True)
        if isinstance(found, Visitor):
            await found.close()
