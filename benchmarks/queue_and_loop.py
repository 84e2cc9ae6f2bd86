"""The overhead of the queue and the loop: empty reconciles a second, on one core."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from random import Random
from typing import Any, cast

from manta.api.meta import Key, ObjectMeta
from manta.api.resources import CONFIG_MAPS
from manta.kube.client import Client
from manta.kube.transport import Transport
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.clock import SystemClock
from manta.runtime.controller import Watch
from manta.runtime.manager import Manager
from manta.runtime.queue import Done, Retry

KEYS, ROUNDS = 1000, 60_000


class Empty(Reconciler[Key, Any]):
    name = "bench"
    workers = 8
    reconciles = 0

    def __init__(self, manager: Manager) -> None:
        self.finished = asyncio.Event()
        super().__init__(manager)

    def watches(self) -> Sequence[Watch[Any]]:
        return ()

    async def observe(self, key: Key) -> Key | None:
        return key

    def subject(self, snapshot: Key) -> Subject:
        return Subject(CONFIG_MAPS, ObjectMeta(name=snapshot.name, namespace=snapshot.namespace))

    def plan(self, snapshot: Key) -> Step[Any]:
        return Step()

    async def reconcile(self, key: Key) -> Done | Retry:
        result = await super().reconcile(key)
        self.reconciles += 1
        if self.reconciles == ROUNDS:
            self.finished.set()
        self.controller.enqueue(key)
        return result


async def main() -> None:
    client = Client(cast("Transport", None))  # which nothing is sent to
    empty = Empty(Manager(client, SystemClock(), Random(1)))
    controller = empty.controller
    for number in range(KEYS):
        controller.enqueue(Key("ns", f"n{number}"))
    began = time.perf_counter()
    work = asyncio.create_task(controller.run())
    await empty.finished.wait()
    seconds = time.perf_counter() - began
    work.cancel()
    rate = round(ROUNDS / seconds)
    print(json.dumps({"rounds_per_second": rate, "goal": "at least 20000"}))


if __name__ == "__main__":
    asyncio.run(main())
