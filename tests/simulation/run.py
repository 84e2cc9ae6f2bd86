"""Run one story: all its steps, then calm, convergence, and five quiet minutes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from simulation import actions
from simulation.history import ClusterHistory, window_of
from simulation.oracles import ORACLES, is_operator
from simulation.outcome import Outcome, outcome_of
from simulation.plane import Written
from simulation.story import Step, Story
from simulation.transport import Sent
from simulation.world import World, simulate

SETTLE = 1200.0
"""Virtual seconds after the last fault within which the operators must come to rest."""
QUIET = 375.0
"""Seconds without a write that count as rest: longer than the resync, every timeout of the controllers, and the
longest pause after a failure (300 s and a fifth of that)."""
COUNTED = 15.0
"""Seconds that a fault of so many requests has at least."""
ENOUGH = 20
"""Violations of one story that are kept."""


@dataclass
class Result:
    story: Story
    violations: list[str] = field(default_factory=list)
    """`oracle: sentence`."""
    outcome: Outcome | None = None
    digest: str = ""
    lines: list[str] = field(default_factory=list)
    seconds: float = 0.0
    """Virtual."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Event reasons of the operator, with how many Events had them."""
    causes: dict[str, int] = field(default_factory=dict)
    """Causes of the operators' actions, as `raycluster.SCALE_UP`."""
    refused: list[str] = field(default_factory=list)
    objects: list[dict[str, Any]] = field(default_factory=list)
    """Of the user, with their last specs as the server has them."""
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The same as the user asked for them."""
    foreign: list[dict[str, Any]] = field(default_factory=list)
    writes: int = 0
    """Accepted writes of operators."""
    heard: dict[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> list[str]:
        """The names of the oracles that were violated."""
        return list(dict.fromkeys(one.partition(":")[0] for one in self.violations))


Prepare = Callable[[World], None]


def run(story: Story, prepare: Prepare | None = None) -> Result:
    """Run a story. `reference` compares its end with a run without faults."""
    result: Result = simulate(lambda world: _run(world, prepare), story)
    return result


class Quiet:
    """Waits for a stretch of time in which the operators write nothing."""

    def __init__(self, world: World) -> None:
        self.last = 0.0
        self.what = ""
        world.observers.append(self._see)

    def _see(self, written: Written) -> None:
        if is_operator(written.by) and written.resource != "events":
            self.last = written.at
            self.what = f"{written.by} {written.type} {written.resource} {written.name}"

    async def wait(self) -> bool:
        """False: so long after the last fault they still write."""
        loop = asyncio.get_running_loop()
        began = self.last = loop.time()
        while loop.time() < self.last + QUIET:
            if self.last > began + SETTLE:
                return False
            await asyncio.sleep(self.last + QUIET - loop.time())
        return True


class Judge:
    """Shows everything to every oracle, and keeps what they say."""

    def __init__(self, world: World) -> None:
        self.history = ClusterHistory(window_of(world.story))
        self.oracles = [each(world, self.history) for each in ORACLES]
        self.violations: list[str] = []
        world.observers.append(self._written)
        world.senders.append(self._sent)
        self._world = world

    def _written(self, written: Written) -> None:
        for oracle in self.oracles:
            self.add(oracle.name, oracle.written(written))
        self.history.see(written)
        for oracle in self.oracles:
            self.add(oracle.name, oracle.after(written))

    def _sent(self, actor: str, sent: Sent) -> None:
        for oracle in self.oracles:
            self.add(oracle.name, oracle.sent(actor, sent))

    def end(self) -> None:
        for oracle in self.oracles:
            self.add(oracle.name, oracle.ended())

    def add(self, name: str, said: Iterable[str]) -> None:
        now = asyncio.get_running_loop().time()
        for sentence in said:
            if len(self.violations) < ENOUGH:
                self.violations.append(f"{name}: {sentence} (at {now:.1f} s)")


async def _run(world: World, prepare: Prepare | None) -> Result:
    judge, quiet = Judge(world), Quiet(world)
    world.main = asyncio.current_task()
    try:
        outcome = await _live(world, judge, quiet, prepare)
    except asyncio.CancelledError:
        if not world.hot:
            raise
        judge.add("no-hot-loop", [world.hot])
        return _result(world, judge, None)
    return _result(world, judge, outcome)


async def _live(
    world: World, judge: Judge, quiet: Quiet, prepare: Prepare | None
) -> Outcome | None:
    """The outcome; None if the operators never came to rest."""
    if prepare is not None:
        prepare(world)
    await world.begin()
    await play(world)
    actions.calm(world)
    arrived = await quiet.wait()
    if not arrived:
        minutes = SETTLE / 60
        judge.add("quiet", [f"{quiet.what}: a write {minutes:.0f} minutes after the last fault"])
    judge.end()
    return outcome_of(world) if arrived else None


async def play(world: World) -> None:
    """Do every step at its time; then wait until the last timed fault has ended."""
    loop = asyncio.get_running_loop()
    end = 0.0
    for step in sorted(world.story.steps, key=lambda one: one.at):
        if step.at > loop.time():
            await asyncio.sleep(step.at - loop.time())
        found = actions.ACTIONS[step.do].apply(world, **step.args)
        if asyncio.iscoroutine(found):
            await found
        end = max(end, step.at + _lasts(step))
    if end + 1.0 > loop.time():
        await asyncio.sleep(end + 1.0 - loop.time())


def _lasts(step: Step) -> float:
    """How long after the step its effect may still begin to end. A fault that is counted in requests needs time to
    meet them."""
    if "lasts" in step.args:
        return float(step.args["lasts"])
    least = COUNTED if actions.ACTIONS[step.do].area in ("server", "watch") else 0.0
    times = (float(step.args.get(name, 0)) for name in ("seconds", "relist", "down"))
    return max(least, *times)


def _result(world: World, judge: Judge, outcome: Outcome | None) -> Result:
    reasons: dict[str, int] = {}
    for reason, _, _ in world.events():
        reasons[reason] = reasons.get(reason, 0) + 1
    return Result(
        story=world.story,
        violations=[*judge.violations, *(f"simulation: {one}" for one in world.problems)],
        outcome=outcome,
        digest=world.trace.digest,
        lines=world.trace.lines,
        seconds=asyncio.get_running_loop().time(),
        reasons=reasons,
        causes=world.causes,
        refused=world.refused,
        objects=world.final_objects(),
        asked=[one for _, one in sorted(world.objects.items())],
        foreign=world.foreign,
        writes=sum(1 for line in world.trace.lines if is_operator(line.split(" ")[1])),
    )
