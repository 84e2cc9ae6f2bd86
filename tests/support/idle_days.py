"""Days of one RayCluster with generated activity, on the pure phases of the idle controller and a virtual clock.

The truth is in `Life`: what runs when. The controller sees it only through Ray's answers. Checked are both sides:
nothing is suspended that was used within the limit, and whatever was idle long enough is suspended in time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from manta.api.core import Container, ContainerStatus, Pod, PodSpec, PodStatus
from manta.api.meta import ObjectMeta, Uid
from manta.api.ray.cluster import RayCluster, RayClusterSpec
from manta.controllers.idlesuspend.facts import query_is_due
from manta.controllers.idlesuspend.plan import plan
from manta.controllers.idlesuspend.snapshot import Answer, Held, IdleSnapshot
from manta.ray.activity import InUse, NotInUse, read_activity
from manta.ray.dashboard import Dashboard
from manta.ray.models import Target, Unreachable
from manta.reconcile.actions import Patch
from manta.rules.idle import IdleLimit
from manta.rules.usage import Usage
from support.activity import FakeActivities, FakeUse

START = datetime(2026, 1, 1, tzinfo=UTC)
TARGET = Target("default", "demo-head-svc", "demo")
USAGE = "manta.ray.io/usage"
LATENESS = 1.05
"""A cluster that is idle is suspended within this multiple of its limit."""
KINDS = ("driver", "actor", "job", "group", "serve", "blip")
FAULTS = ("hang", "500", "nonsense", "refuse", "partial", "error", "shape", "429")


@dataclass
class Report:
    days: float = 0.0
    suspended: int = 0
    uses: int = 0
    wrong: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    questions: int = 0
    writes: int = 0
    idle_hours: float = 0.0
    """The truth, for one GPU."""
    used_hours: float = 0.0
    counted_hours: float = 0.0


@dataclass
class Happening:
    at: float
    what: str
    """`begin KIND`, `end KIND`, `fault NAME`, `clear`, `restart` (of the operator) or `head`."""


@dataclass
class Life:
    """One cluster, seconds after START."""

    random: Random
    limit: IdleLimit
    report: Report
    now: float = 0.0
    use: FakeUse = field(default_factory=FakeUse)
    running: list[str] = field(default_factory=list)
    fault: str = ""
    disturbed_at: float = 0.0
    """When Ray last failed to answer, or the head or the operator started: lateness counts from then."""
    used_at: float = 0.0
    head: int = 1
    asleep_since: float | None = None
    marks: dict[str, str] = field(default_factory=dict)
    answer: Answer | None = None

    # ── what happens ─────────────────────────────────────────────────────────────────────

    def pass_until(self, then: float) -> None:
        if self.running:
            self.report.used_hours += (then - self.now) / 3600
        elif self.asleep_since is None:
            self.report.idle_hours += (then - self.now) / 3600
        self.now = then

    def happen(self, what: str) -> None:
        verb, _, kind = what.partition(" ")
        match verb:
            case "begin":
                self.report.uses += 1
                self._begin(kind)
            case "end" if kind in self.running:
                self._end(kind)
            case "fault":
                self.fault, self.disturbed_at = kind, self.now
            case "clear":
                self.fault, self.disturbed_at = "", self.now
            case "restart":
                self.answer, self.disturbed_at = None, self.now
            case "head":
                self._new_head()
            case _:
                pass

    def _new_head(self) -> None:
        """The head and all that ran in it is gone; Ray counts from zero."""
        self.head += 1
        self.use, self.running = FakeUse(), []
        self.used_at = self.disturbed_at = self.now

    def _begin(self, kind: str) -> None:
        if self.asleep_since is not None:  # the use wakes the cluster
            self.asleep_since = None
            self.marks = {USAGE: self.marks[USAGE]}
            self._new_head()
        if kind == "blip":  # a driver between two questions, and gone
            self.use.start_driver()
            self.use.end_driver(self.now)
            self.used_at = self.now
            return
        self.running.append(kind)
        match kind:
            case "driver":
                self.use.start_driver()
            case "actor":
                self.use.start_actor(state=self.random.choice(("ALIVE", "RESTARTING")))
            case "job":
                self.use.start_actor("JobSupervisor", state="PENDING_CREATION")
            case "group":
                self.use.groups.append("gang")
            case _:  # without replicas: an application that is scaled to zero
                self.use.applications[f"app-{self.report.uses}"] = {}
                self.use.start_actor("ServeController", "serve")

    def _end(self, kind: str) -> None:
        self.running.remove(kind)
        self.used_at = self.now
        match kind:
            case "driver":
                self.use.end_driver(self.now)
            case "actor":
                self.use.end_actor()
            case "job":
                self.use.end_actor("JobSupervisor")
            case "group":
                self.use.groups.pop()
                self.use.removed_groups += 1
            case _:
                self.use.applications.popitem()  # its controller stays, as Serve's does

    # ── the controller ───────────────────────────────────────────────────────────────────

    def cluster(self) -> RayCluster:
        meta = ObjectMeta(name="demo", namespace="default", uid=Uid("u"), annotations=self.marks)
        return RayCluster(metadata=meta, spec=RayClusterSpec())

    def snapshot(self) -> IdleSnapshot:
        status = ContainerStatus(name="ray", ready=True)
        pod = Pod(
            metadata=ObjectMeta(uid=Uid(f"head-{self.head}")),
            spec=PodSpec(containers=(Container(name="ray"),)),
            status=PodStatus(container_statuses=(status,)),
        )
        return IdleSnapshot(self.cluster(), self.limit, self.moment, pod, self.answer, Held(4, 1))

    @property
    def moment(self) -> datetime:
        return START + timedelta(seconds=self.now)

    async def reconcile(self) -> float:
        """Reconcile until nothing is left to write; returns when to do so again."""
        while True:
            snapshot = self.snapshot()
            if query_is_due(snapshot):
                before = self.answer
                self.answer = await self._ask(snapshot)
                if before is not None and before.is_known and before.head == snapshot.head:
                    self.answer = replace(self.answer, previous_at=before.at)
                snapshot = replace(snapshot, answer=self.answer)
            step = plan(snapshot)
            if not step.plan.actions:
                assert step.wakeup is not None
                return self.now + max(step.wakeup.total_seconds(), 0.001)
            for action in step.plan.actions:
                assert isinstance(action, Patch)
                self._write(action.patch)
            if self.asleep_since is not None:
                return float("inf")

    async def _ask(self, snapshot: IdleSnapshot) -> Answer:
        self.report.questions += 1
        ray = FakeActivities({TARGET.service: self.use}, lambda *_: self._weather())
        match await read_activity(Dashboard(ray), TARGET):
            case InUse(use=use, what=what):
                return Answer(self.moment, snapshot.head, in_use=True, reason=use, message=what)
            case NotInUse(evidence=evidence):
                return Answer(self.moment, snapshot.head, evidence=evidence)
            case Unreachable(why=why):
                return Answer(self.moment, snapshot.head, reason="Unreachable", message=why)

    def _weather(self) -> str:
        return "refuse" if self.fault == "hang" else self.fault  # no time passes here

    def _write(self, patch: dict[str, Any]) -> None:
        self.report.writes += 1
        for name, value in patch["metadata"]["annotations"].items():
            if value is None:
                self.marks.pop(name, None)
            else:
                self.marks[name] = value
        if (patch.get("spec") or {}).get("suspend"):
            self._judge()
            self.report.suspended += 1
            self.asleep_since = self.now

    # ── the judgement ────────────────────────────────────────────────────────────────────

    def _judge(self) -> None:
        idle = self.now - self.used_at
        if self.running or idle < self.limit.after.total_seconds():
            self.report.wrong.append(f"at {self.now:.0f} s, running {self.running}, idle {idle} s")

    def check_in_time(self) -> None:
        """Called before anything happens: is it awake although it should have been suspended long ago?"""
        if self.running or self.fault or self.asleep_since is not None:
            return
        began = max(self.used_at, self.disturbed_at)
        allowed = (
            self.limit.after.total_seconds() * LATENESS
            + self.limit.warning.total_seconds()
            * (
                self.disturbed_at > self.used_at  # after a disturbance the warning comes first
            )
        )
        if self.now - began > allowed + 2:
            self.report.late.append(f"at {self.now:.0f} s, idle since {self.used_at:.0f} s")


def happenings(random: Random, seconds: float, limit: float, *, faults: bool) -> list[Happening]:
    """Uses of all kinds, bursts and long pauses, failures of the dashboard, restarts of operator and head."""
    found: list[Happening] = []
    at = 0.0
    while at < seconds:
        at += (
            random.choice((1.0, limit / 20, limit * 0.96, limit * 1.2, limit * 4)) * random.random()
        )
        kind = random.choice(KINDS)
        found.append(Happening(at, f"begin {kind}"))
        length = random.choice((0.5, limit / 30, limit / 2, limit * 3)) * random.random()
        found.append(Happening(at + length, f"end {kind}"))
        if random.random() < 0.3:
            at += length
        dice = random.random() if faults else 1.0
        if dice < 0.1:
            found.append(Happening(at, f"fault {random.choice(FAULTS)}"))
            found.append(Happening(at + random.random() * limit * 2, "clear"))
        elif dice < 0.2:
            found.append(Happening(at + random.random() * limit, "restart"))
        elif dice < 0.23:
            found.append(Happening(at + random.random() * limit, "head"))
    return sorted(found, key=lambda one: one.at)


def simulate(seed: int, limits: float, *, faults: bool = True) -> Report:
    """A life as long as so many limits of the cluster, which depends on the seed."""
    random = Random(seed)
    after = random.choice((20.0, 300.0, 1800.0, 7200.0, 43200.0))
    seconds = limits * after
    report = Report(days=seconds / 86400)
    warning = min(after, random.choice((0.0, 60.0, 600.0)))
    limit = IdleLimit(timedelta(seconds=after), timedelta(seconds=warning))
    life = Life(random, limit, report)
    asyncio.run(live(life, happenings(random, seconds, after, faults=faults)))
    usage = Usage.parse(life.marks[USAGE])
    assert usage is not None
    report.counted_hours = usage.until(life.moment).total.idle_gpu
    return report


async def live(life: Life, coming: list[Happening]) -> None:
    wakeup = await life.reconcile()
    for one in coming:
        while wakeup <= one.at:
            life.pass_until(wakeup)
            life.check_in_time()
            wakeup = await life.reconcile()
        life.pass_until(one.at)
        life.check_in_time()
        life.happen(one.what)
        if life.asleep_since is None and (
            wakeup == float("inf") or one.what in ("restart", "head")
        ):
            wakeup = await life.reconcile()
