"""Run one history: clients and watches, a server that dies, and what they make of it together."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from random import Random

from histories.clients import PATH, Stop, Unexpected, Watcher, Writer, listed, object_named, request
from histories.fork_server import ForkServer
from histories.server import TORN, Server
from manta.kube.transport import Request, Transport
from support.histories import History

CLIENTS = 8
KEYS = 6
DRAIN_SECONDS = 30.0
MIN_CALLS, LONGEST_LIFE = 60, 20.0
DRIFTING = 2.0
"""The third watch drops its own connection after at most so many seconds."""


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    kills: int = 2
    shortest: float = 1.0
    longest: float = 3.0
    options: tuple[str, ...] = ("--no-controllers",)


@dataclass(frozen=True, slots=True)
class HistoryResult:
    """What came of one history."""

    history: History
    violations: list[str]

    def __str__(self) -> str:
        calls = self.history.calls
        unanswered = sum(call.outcome == "unknown" for call in calls)
        events = sum(
            len(session.events) for watch in self.history.watches for session in watch.sessions
        )
        return (
            f"{len(calls)} calls ({unanswered} unanswered), "
            f"{len(self.history.snapshots)} lists, {events} events, "
            f"{len(self.violations)} violations"
        )


async def run_history(
    directory: Path, plan: Plan, fork_server: ForkServer | None = None
) -> HistoryResult:
    random = Random(plan.seed)
    server = Server(directory / "plane", *plan.options, fork_server=fork_server)
    server.directory.mkdir(parents=True)
    history, stop = History(), Stop()
    try:
        await server.start()
        transport = server.transport()
        try:
            await transport.send(_namespace())
            async with asyncio.TaskGroup() as group:
                _start_clients(group, transport, history, random, stop)
                watchers = _watchers(transport, random)
                tasks = [group.create_task(one.run()) for one in watchers]
                await _live_and_die(server, plan, random, history)
                stop.clients = True
                stuck = await _drained(watchers, await _last_word(transport, history))
                for task in tasks:
                    task.cancel()
        finally:
            await transport.close()
    finally:
        await server.kill()
    history.watches += [watcher.observed for watcher in watchers]
    return HistoryResult(history, [*stuck, *history.violations()])


def _namespace() -> Request:
    body = {"metadata": {"name": "histories"}}
    return request("POST", "/api/v1/namespaces", body)


def _start_clients(
    group: asyncio.TaskGroup, transport: Transport, history: History, random: Random, stop: Stop
) -> None:
    for number in range(CLIENTS):
        own = Random(random.random())
        group.create_task(Writer(number, transport, history, own, KEYS).run(stop))


def _watchers(transport: Transport, random: Random) -> list[Watcher]:
    return [
        Watcher("faithful", transport, random),
        Watcher("streaming", transport, random, streaming=True),
        Watcher("drifting", transport, random, patience=DRIFTING),
    ]


async def _live_and_die(server: Server, plan: Plan, random: Random, history: History) -> None:
    for _ in range(plan.kills):
        await _live(plan, random, history)
        tear = random.randbytes(random.randrange(1, TORN)) if random.random() < 0.5 else b""
        await server.kill(tear)
        await server.start()
    await _live(plan, random, history)


async def _live(plan: Plan, random: Random, history: History) -> None:
    """A while, and on a busy machine a while longer: a life without calls tells nothing."""
    before = len(history.calls)
    await asyncio.sleep(random.uniform(plan.shortest, plan.longest))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_LIFE):
            while len(history.calls) - before < MIN_CALLS:
                await asyncio.sleep(0.02)


async def _last_word(transport: Transport, history: History) -> int:
    """After everything: a list that all must agree with, and a write that all watches must see."""
    history.snapshots.append(await listed(transport))
    answer = await transport.send(request("POST", PATH, object_named("last", "last")))
    if answer.status != 201:
        raise Unexpected(f"last write: {answer.status}")
    return int(json.loads(answer.body)["metadata"]["resourceVersion"])


async def _drained(watchers: list[Watcher], last: int) -> list[str]:
    """Waits until every watch has seen the last write; names those that do not come to it."""
    loop = asyncio.get_running_loop()
    end = loop.time() + DRAIN_SECONDS
    while behind := [one for one in watchers if one.position < last]:
        if loop.time() > end:
            return [f"{one.observed.name}: stands at {one.position} for ever" for one in behind]
        await asyncio.sleep(0.05)
    return []
