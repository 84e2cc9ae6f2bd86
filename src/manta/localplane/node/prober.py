"""Keeps the probes of one Pod running, and tells of every change of mind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from manta.localplane.node.podruntime import PodRuntime
from manta.localplane.node.podspec import Container, Probe
from manta.localplane.node.probes import Answer
from manta.localplane.node.probing import ProbeKind, Tally, verdict, wanted_probes
from manta.localplane.node.snapshot import PodSnapshot

_EARLY = 0.2
"""Seconds between looks before the first success of a probe."""


@dataclass(frozen=True, slots=True)
class Watching:
    container: str
    attempt: int
    kind: ProbeKind


Judged = Callable[[Watching, bool], None]
Failed = Callable[[Watching, Answer], None]


class Prober:
    def __init__(self, runtime: PodRuntime, judged: Judged, failed: Failed) -> None:
        self._runtime = runtime
        self._judged = judged
        self._failed = failed
        self._tasks: dict[Watching, asyncio.Task[None]] = {}

    def follow(self, seen: PodSnapshot) -> None:
        """Start the probes that the Pod's state calls for, end the others."""
        wanted: dict[Watching, tuple[Container, Probe]] = {}
        for container in seen.pod.containers():
            facts = seen.facts.of(container)
            for kind, probe in wanted_probes(container, facts).items():
                wanted[Watching(container.name, facts.attempt, kind)] = (container, probe)
        for watching in [known for known in self._tasks if known not in wanted]:
            self._tasks.pop(watching).cancel()
        for watching, (container, probe) in wanted.items():
            if watching not in self._tasks:
                delay = self._delay(seen, container, probe)
                self._tasks[watching] = asyncio.create_task(
                    self._probe(watching, container, probe, delay)
                )

    @staticmethod
    def _delay(seen: PodSnapshot, container: Container, probe: Probe) -> float:
        """The initial delay counts from the container's start, not from ours."""
        since = seen.now - seen.facts.of(container).started
        return max(float(probe.initial_delay_seconds) - since, 0.0)

    async def _probe(
        self, watching: Watching, container: Container, probe: Probe, delay: float
    ) -> None:
        seen_well = await self._look_early(watching, container, probe, delay)
        passed = False
        tally = Tally()
        while True:
            answer = (
                Answer(success=True) if seen_well else await self._ask(watching, container, probe)
            )
            tally = tally.after(success=answer.success)
            if not answer.success:
                self._failed(watching, answer)
            passed = passed or answer.success
            judgement = verdict(probe, tally)
            if judgement is not None:
                self._judged(watching, judgement)
            pause = float(max(probe.period_seconds, 1))
            if passed:
                await asyncio.sleep(pause)
                seen_well = False
            else:
                seen_well = await self._look_early(watching, container, probe, pause)

    async def _ask(self, watching: Watching, container: Container, probe: Probe) -> Answer:
        timeout = max(probe.timeout_seconds, 1)
        return await self._runtime.ask(container, watching.attempt, probe, timeout)

    async def _look_early(
        self, watching: Watching, container: Container, probe: Probe, pause: float
    ) -> bool:
        """Before the first success nobody has a reason to wait for the next official look: here,
        unlike with a kubelet, a success in between counts at once, and a failure does not. Commands
        cost more than a connection, and are not run so often."""
        if watching.kind is ProbeKind.LIVENESS or probe.exec or probe.success_threshold > 1:
            await asyncio.sleep(pause)
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                while True:
                    await asyncio.sleep(_EARLY)
                    if (await self._ask(watching, container, probe)).success:
                        return True
        return False

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
