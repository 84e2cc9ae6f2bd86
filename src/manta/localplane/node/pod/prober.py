"""Runs the probes of one Pod and reports their verdicts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from manta.localplane.node.pod.probe_results import ProbeKind, ProbeTally, active_probes, verdict
from manta.localplane.node.pod.probes import ProbeResult
from manta.localplane.node.pod.runtime import PodRuntime
from manta.localplane.node.pod.snapshot import PodSnapshot
from manta.localplane.node.spec.pod_spec import Container, Probe

_EARLY_PERIOD = 0.2
"""Seconds between probes before the first success."""


@dataclass(frozen=True, slots=True)
class ProbeKey:
    container: str
    attempt: int
    kind: ProbeKind


OnVerdict = Callable[[ProbeKey, bool], None]
OnFailure = Callable[[ProbeKey, ProbeResult], None]


class Prober:
    """Calls `on_verdict` when a threshold is reached, and `on_failure` for each failed probe."""

    def __init__(self, runtime: PodRuntime, on_verdict: OnVerdict, on_failure: OnFailure) -> None:
        self._runtime = runtime
        self._on_verdict = on_verdict
        self._on_failure = on_failure
        self._tasks: dict[ProbeKey, asyncio.Task[None]] = {}

    def follow(self, snapshot: PodSnapshot) -> None:
        """Start the probes that the Pod's state needs, end the others."""
        wanted: dict[ProbeKey, tuple[Container, Probe]] = {}
        for container in snapshot.pod.containers():
            facts = snapshot.facts.of(container)
            for kind, probe in active_probes(container, facts).items():
                wanted[ProbeKey(container.name, facts.attempt, kind)] = (container, probe)
        for key in [known for known in self._tasks if known not in wanted]:
            self._tasks.pop(key).cancel()
        for key, (container, probe) in wanted.items():
            if key not in self._tasks:
                delay = self._initial_delay(snapshot, container, probe)
                self._tasks[key] = asyncio.create_task(self._probe(key, container, probe, delay))

    @staticmethod
    def _initial_delay(snapshot: PodSnapshot, container: Container, probe: Probe) -> float:
        """Counted from the start of the container, not of the agent."""
        since = snapshot.now - snapshot.facts.of(container).started
        return max(float(probe.initial_delay_seconds) - since, 0.0)

    async def _probe(self, key: ProbeKey, container: Container, probe: Probe, delay: float) -> None:
        succeeded_early = await self._probe_early(key, container, probe, delay)
        passed = False
        tally = ProbeTally()
        while True:
            result = ProbeResult(success=True)
            if not succeeded_early:
                result = await self._run(key, container, probe)
            tally = tally.after(success=result.success)
            if not result.success:
                self._on_failure(key, result)
            passed = passed or result.success
            outcome = verdict(probe, tally)
            if outcome is not None:
                self._on_verdict(key, outcome)
            period = float(max(probe.period_seconds, 1))
            if passed:
                await asyncio.sleep(period)
                succeeded_early = False
            else:
                succeeded_early = await self._probe_early(key, container, probe, period)

    async def _run(self, key: ProbeKey, container: Container, probe: Probe) -> ProbeResult:
        timeout = max(probe.timeout_seconds, 1)
        return await self._runtime.run_handler(container, key.attempt, probe, timeout)

    async def _probe_early(
        self, key: ProbeKey, container: Container, probe: Probe, pause: float
    ) -> bool:
        """Wait for `pause` seconds, or until the probe succeeds; True if it did.

        Unlike a kubelet, count a success between two regular probes, but not a failure: a container
        that is ready early need not wait. Commands cost too much to be run this often."""
        if key.kind is ProbeKind.LIVENESS or probe.exec or probe.success_threshold > 1:
            await asyncio.sleep(pause)
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                while True:
                    await asyncio.sleep(_EARLY_PERIOD)
                    if (await self._run(key, container, probe)).success:
                        return True
        return False

    def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        self._tasks.clear()
