"""Leader election: renews the lease, opens and closes the write gate. `lease` has the timing and the rules.

`Election` is a plain coroutine, so that it runs under virtual time too. `ElectionThread` runs it in a thread
with its own event loop and connection: it renews the lease even if the main loop is blocked. If the lease
cannot be renewed, the gate closes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from math import ceil
from random import Random
from typing import Any

from manta.api import coordination
from manta.api.meta import Key, Object
from manta.api.resources import LEASES
from manta.api.times import format_micro_time, parse_optional_time
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, Conflict, MantaError, NotFound
from manta.runtime.clock import Clock
from manta.runtime.gate import WriteGate
from manta.runtime.lease import (
    Lease,
    Memory,
    Timing,
    Watch,
    WriteLease,
    released,
    step,
    write_until,
)
from manta.runtime.process import in_daemon_thread

log = logging.getLogger(__name__)


class Election:
    def __init__(
        self,
        clock: Clock,
        random: Random,
        gate: WriteGate,
        *,
        lease: Key,
        identity: str,
        timing: Timing | None = None,
        on_change: Callable[[bool], None] = lambda _leading: None,
    ) -> None:
        """`on_change` is called with True when this process begins to lead, with False when it stops."""
        self._clock = clock
        self._random = random
        self._gate = gate
        self._key = lease
        self._me = identity
        self._timing = timing or Timing()
        self._on_change = on_change
        self._memory = Memory()
        self._held: Lease | None = None
        self._leading = False
        self._expiry: asyncio.TimerHandle | None = None

    async def run(self, client: Client) -> None:
        """Acquire and renew the lease until cancelled; then release it."""
        try:
            while True:
                pause = await self._try_once(client)
                await asyncio.sleep(pause)
        finally:
            self._stop_leading("it is released", logging.INFO)
            await self._release(client)

    async def _try_once(self, client: Client) -> float:
        """One attempt. Returns the seconds until the next."""
        timing = self._timing
        began = self._clock.monotonic()
        try:
            async with asyncio.timeout(timing.renew_deadline):
                decision = await self._attempt(client, began)
        except (Conflict, AlreadyExists):
            self._stop_leading("another process took the lease")
            return timing.retry
        except (MantaError, TimeoutError) as error:
            log.warning("cannot renew lease %s: %s", self._key, str(error) or "no response")
            return timing.retry / 2
        if isinstance(decision, WriteLease):
            self._lead_until(write_until(began, timing))
            return timing.retry
        self._stop_leading(f"{decision.holder} holds the lease")
        return timing.retry * (1 + 0.2 * self._random.random())

    async def _attempt(self, client: Client, began: float) -> WriteLease | Watch:
        lease = await self._read(client)
        decision, self._memory = step(
            lease,
            self._memory,
            self._me,
            now=self._clock.now(),
            monotonic=began,
            timing=self._timing,
        )
        if isinstance(decision, WriteLease):
            written = await self._write(client, decision.lease)
            self._held = written
            self._memory = Memory(written.version, began)
        return decision

    async def _read(self, client: Client) -> Lease | None:
        try:
            view = await client.get(LEASES, self._key, into=coordination.Lease)
        except NotFound as error:
            if error.of_type:
                raise
            return None
        spec = view.spec
        return Lease(
            holder=spec.holder_identity or "",
            duration=float(spec.lease_duration_seconds or 1),
            acquired=parse_optional_time(spec.acquire_time),
            renewed=parse_optional_time(spec.renew_time),
            transitions=spec.lease_transitions or 0,
            version=view.metadata.resource_version,
        )

    async def _write(self, client: Client, lease: Lease) -> Lease:
        body = _manifest(self._key, lease)
        if lease.version:
            written: Object = await client.replace(LEASES, self._key, body)
        else:
            written = await client.create(LEASES, self._key.namespace, body)
        version = written.metadata.resource_version
        return Lease(
            lease.holder, lease.duration, lease.acquired, lease.renewed, lease.transitions, version
        )

    async def _release(self, client: Client) -> None:
        if self._held is None:
            return
        held, self._held = self._held, None
        try:
            async with asyncio.timeout(2):
                await self._write(client, released(held, self._clock.now()))
        except (MantaError, TimeoutError) as error:
            log.info("lease %s was not released: %s", self._key, error)

    # ── leading ──────────────────────────────────────────────────────────────────────────

    def _lead_until(self, until: float) -> None:
        self._gate.open(until)
        loop = asyncio.get_running_loop()
        if self._expiry:
            self._expiry.cancel()
        left = max(until - self._clock.monotonic(), 0.0)
        self._expiry = loop.call_later(left, self._stop_leading, "it could not be renewed in time")
        if not self._leading:
            self._leading = True
            log.info("holding lease %s as %s", self._key, self._me)
            self._on_change(True)

    def _stop_leading(self, why: str, level: int = logging.WARNING) -> None:
        self._gate.close()
        if self._expiry:
            self._expiry.cancel()
        if self._leading:
            self._leading = False
            log.log(level, "no longer holding lease %s: %s", self._key, why)
            self._on_change(False)


def _manifest(key: Key, lease: Lease) -> dict[str, Any]:
    metadata = {"name": key.name, "namespace": key.namespace, "resourceVersion": lease.version}
    spec: dict[str, Any] = {
        "holderIdentity": lease.holder,
        # The API wants whole seconds, at least one: round up.
        "leaseDurationSeconds": ceil(lease.duration),
        "leaseTransitions": lease.transitions,
    }
    for name, moment in (("acquireTime", lease.acquired), ("renewTime", lease.renewed)):
        if moment is not None:
            spec[name] = format_micro_time(moment)
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {name: value for name, value in metadata.items() if value},
        "spec": spec,
    }


class Leadership:
    """The state of the election in the main loop."""

    def __init__(self) -> None:
        self._gained = asyncio.Event()
        self._lost = asyncio.Event()

    def change(self, leading: bool) -> None:  # noqa: FBT001  the callback's only argument
        if leading:
            self._lost.clear()
            self._gained.set()
        else:
            self._gained.clear()
            self._lost.set()

    async def gained(self) -> None:
        await self._gained.wait()

    async def lost(self) -> None:
        await self._lost.wait()


class ElectionThread:
    """Runs an election in a thread of its own."""

    def __init__(
        self,
        connect: Callable[[], Awaitable[Client]],
        election: Callable[[Callable[[bool], None]], Election],
        leadership: Leadership,
    ) -> None:
        """`connect` and `election` are called in the thread; `election` gets the callback."""
        self._connect = connect
        self._election = election
        self._leadership = leadership
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run the thread until it has released the lease. Raises the error that ended it."""
        main = asyncio.get_running_loop()
        ended = in_daemon_thread(lambda: self._run_thread(main), "election")
        try:
            await asyncio.shield(ended)
        finally:
            if self._loop and self._task and not ended.done():
                self._loop.call_soon_threadsafe(self._task.cancel)
                await asyncio.wait([ended], timeout=3)

    def _run_thread(self, main: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._elect(main))

    async def _elect(self, main: asyncio.AbstractEventLoop) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()

        def notify(leading: bool) -> None:  # noqa: FBT001  the callback's only argument
            if not main.is_closed():
                main.call_soon_threadsafe(self._leadership.change, leading)

        client = await self._connect()
        try:
            await self._election(notify).run(client)
        finally:
            await client.close()
