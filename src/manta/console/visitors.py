"""The people who use the console: each with a client and watches of their own rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from manta.api.usage import UsageError
from manta.console.live_queries import LiveQueries
from manta.console.object_watch import ObjectWatch
from manta.console.operators import LocalMetrics, Operators
from manta.console.rights import Rights, ask_rights, user_name
from manta.console.samples import Samples
from manta.console.sessions import EndedLogins, Session
from manta.console.views import SharedObjects
from manta.kube.client import Client
from manta.kube.errors import MantaError, Unauthorized
from manta.runtime.clock import Clock

Connect = Callable[[Session], Client]
"""A client with the rights of this session."""
IDLE_SECONDS: Final = 900.0
SPARED_SECONDS: Final = 60.0
"""A visitor who was here so lately does not make room for another."""
SWEEP_SECONDS: Final = 60.0
"""How often those who left are looked for."""
RIGHTS_SECONDS: Final = 30.0
CHECK_SECONDS: Final = 60.0
"""How long a token that was revoked or is over, and a right that was taken away, still show what was read with it."""
MAX_VISITORS: Final = 64
MAX_OF_A_USER: Final = 8
"""Visitors of one user: each has a token or a list of namespaces of its own."""


_OWNER: Final = Session(expires=0.0).identity()
"""The kubeconfig's user, who has no token and stays: nobody else comes."""


class ClosedError(MantaError):
    """This visitor has left. The next request of the same session makes a new one."""


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
        self._checking: asyncio.Task[None] | None = None
        self._closed = False
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

    async def check(self, *, at_once: bool = False) -> None:
        """Ask from time to time whether Kubernetes still accepts the credentials, and what they may see: a watch that
        is open says neither. Raises Unauthorized, ClosedError, and the client's errors."""
        if self._closed:
            raise ClosedError("this visitor has left")
        if at_once or self._clock.monotonic() - self._checked > CHECK_SECONDS:
            if self._checking is None:
                self._checking = asyncio.create_task(self._check(), name="check a visitor")
            await asyncio.shield(self._checking)

    async def _check(self) -> None:
        try:
            await user_name(self.client)
            await self.watch.review()
            self._checked = self._clock.monotonic()
            self._rights.clear()
        finally:
            self._checking = None

    async def close(self) -> None:
        """Streams of other windows end, and come back as a new visitor."""
        self._closed = True
        self.watch.notify()
        await self.queries.close()
        await self.watch.close()
        await self.client.close()


class Visitors:
    def __init__(self, connect: Connect, clock: Clock, namespaces: tuple[str, ...] = ()) -> None:
        self._connect = connect
        self._clock = clock
        self._namespaces = namespaces
        self._known: dict[str, asyncio.Task[Visitor]] = {}
        """By the identity of their sessions."""
        self._users: dict[str, str] = {}
        """Who each is, of those whom Kubernetes knows and for whom there is room."""
        self._ended = EndedLogins()
        self._objects = SharedObjects()
        self._samples = Samples()
        self._sweeping: asyncio.Task[None] | None = None

    async def of(self, session: Session, *, login: bool = False) -> Visitor:
        """The visitor of a session. Raises UsageError if there are too many, and the client's errors.

        People do not wait for each other: each first visit lists with the rights of its own user. `login`: what they
        may see is asked again.
        """
        name = session.identity()
        if self._sweeping is None:
            self._sweeping = asyncio.create_task(self._sweep(), name="close idle visitors")
        while True:
            if fresh := name not in self._known:
                self._known[name] = asyncio.create_task(self._welcome(name, session))
                self._known[name].add_done_callback(partial(self._arrived_or_not, name))
            arriving = self._known[name]
            try:
                found = await asyncio.shield(arriving)
                await found.check(at_once=login and not fresh)
            except ClosedError:
                continue
            except Unauthorized:
                if arriving.done() and self._known.get(name) is arriving:
                    await self._forget(name)
                raise
            found.visit()
            return found

    async def log_out(self, session: Session) -> None:
        """End this login in all its windows and dashboards. Others of the same user go on: they come back by
        themselves."""
        if session.login:
            self._ended.add(session)
        name = session.identity()
        if name in self._arrived():
            await self._forget(name)

    def has_left(self, session: Session) -> bool:
        """Whether this login was ended."""
        return session in self._ended

    async def close(self) -> None:
        if self._sweeping is not None:
            self._sweeping.cancel()
            await asyncio.gather(self._sweeping, return_exceptions=True)
        while self._known:
            await self._forget(next(iter(self._known)))

    async def _welcome(self, name: str, session: Session) -> Visitor:
        client = self._connect(session)
        try:
            user = await user_name(client)
            await self._admit(name, user or session.user or session.token)
            namespaces = session.namespaces or self._namespaces
            share, samples = self._objects.share, self._samples
            watch = ObjectWatch(client, self._clock, namespaces, share, samples, user=user)
            try:
                await watch.start()
            except BaseException:
                await watch.close()
                raise
        except BaseException:
            self._users.pop(name, None)
            await client.close()
            raise
        return Visitor(client, watch, self._clock, session.token)

    def _arrived_or_not(self, name: str, arriving: asyncio.Task[Visitor]) -> None:
        """A first visit that failed leaves nothing, also if nobody waits for it any longer."""
        failed = arriving.cancelled() or arriving.exception() is not None
        if failed and self._known.get(name) is arriving:
            del self._known[name]
            self._users.pop(name, None)

    def _arrived(self) -> dict[str, Visitor]:
        return {
            name: one.result()
            for name, one in self._known.items()
            if one.done() and not one.cancelled() and one.exception() is None
        }

    async def _sweep(self) -> None:
        """Close those who left without a logout: their watches would go on, also with a token that is over."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            for name, visitor in self._arrived().items():
                is_here = self._arrived().get(name) is visitor  # while others were closed
                if name != _OWNER and is_here and visitor.idle() > IDLE_SECONDS:
                    await self._forget(name)

    async def _admit(self, name: str, user: str) -> None:
        """Make room for a visitor. Raises UsageError if nobody leaves for them."""
        idle = {one: visitor.idle() for one, visitor in self._arrived().items()}
        leaving = {one for one, seconds in idle.items() if seconds > IDLE_SECONDS}
        staying = [one for one in self._users if one not in leaving]
        own = [one for one in staying if self._users[one] == user]
        if len(own) >= MAX_OF_A_USER:
            why = f"you are logged in {MAX_OF_A_USER} times, with other tokens or namespaces; log out somewhere"
            leaving.add(_longest(idle, own, 0.0, why))
        elif len(staying) >= MAX_VISITORS:
            why = f"{MAX_VISITORS} users are logged in; try again later"
            leaving.add(_longest(idle, staying, SPARED_SECONDS, why))
        self._users[name] = user
        for one in [self._leaves(one) for one in leaving]:  # at once: others may arrive meanwhile
            await self._close(one)

    async def _forget(self, name: str) -> None:
        await self._close(self._leaves(name))

    def _leaves(self, name: str) -> asyncio.Task[Visitor]:
        self._users.pop(name, None)
        return self._known.pop(name)

    @staticmethod
    async def _close(arriving: asyncio.Task[Visitor]) -> None:
        if not arriving.done():
            arriving.cancel()
        [found] = await asyncio.gather(arriving, return_exceptions=True)
        if isinstance(found, Visitor):
            await found.close()


def _longest(idle: Mapping[str, float], among: Sequence[str], least: float, why: str) -> str:
    """Who of these was not here for the longest time. Raises UsageError, which says why, if nobody was away."""
    name = max(among, key=lambda one: idle.get(one, 0.0))
    if idle.get(name, 0.0) <= least:
        raise UsageError(why)
    return name
