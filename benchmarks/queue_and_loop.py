"""The overhead of the queue and the loop: empty rounds a second, on one core."""

from __future__ import annotations

import asyncio
import json
import time
from datetime import timedelta
from random import Random

from manta.api.meta import Key
from manta.reconcile.loop import reconcile
from manta.reconcile.outcome import UNTRIED, Outcome
from manta.reconcile.plan import NOTHING, Plan
from manta.runtime.controller import Controller
from manta.runtime.freshness import Freshness
from manta.runtime.metrics import Registry, RuntimeMetrics
from manta.runtime.queue import Done, Retry

KEYS, ROUNDS = 1000, 60_000


class EmptyRooms:
    def __init__(self) -> None:
        self.rounds = 0
        self.finished = asyncio.Event()

    async def observe(self, key: Key) -> Key | None:
        return key

    def plan(self, seen: Key) -> Plan:
        return NOTHING

    async def apply(self, seen: Key, plan: Plan) -> Outcome:
        return UNTRIED

    async def report(self, seen: Key, plan: Plan, outcome: Outcome) -> bool:
        return False

    def idle_delay(self, seen: Key) -> timedelta | None:
        return None


async def main() -> None:
    rooms, random = EmptyRooms(), Random(1)

    async def round_of(key: Key) -> Done | Retry:
        result = await reconcile(rooms, key)
        rooms.rounds += 1
        if rooms.rounds == ROUNDS:
            rooms.finished.set()
        controller.enqueue(key)
        return result

    controller = Controller("bench", round_of, ())
    controller.attach(random, Freshness(random), RuntimeMetrics(Registry()).of("bench"))
    for number in range(KEYS):
        controller.enqueue(Key("ns", f"n{number}"))
    began = time.perf_counter()
    work = asyncio.create_task(controller.run())
    await rooms.finished.wait()
    seconds = time.perf_counter() - began
    work.cancel()
    rate = round(ROUNDS / seconds)
    print(json.dumps({"rounds_per_second": rate, "goal": "at least 20000"}))


if __name__ == "__main__":
    asyncio.run(main())
