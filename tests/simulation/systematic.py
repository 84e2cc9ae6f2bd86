"""Systematic plans, as in Sieve (OSDI 2022): twelve workloads; a crash after every write that the operator makes;
every watch event of every kind lost once, and late once.

The plans follow from a run without faults: it says how many writes there are, and how many events of each kind the
operator hears.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from simulation.operators import Life
from simulation.reference import run_checked
from simulation.run import Result, run
from simulation.story import Step, Story
from simulation.world import World
from support.raycluster import group, ray_cluster
from support.rayjob import ray_job
from support.rayservice_objects import CONFIG, cluster_config, ray_service

LATE = 20.0
"""Seconds by which a late event comes too late."""
RELIST = 30.0
"""Seconds after which a watch with a lost event breaks and is listed again."""
KINDS = (
    "pods",
    "rayclusters",
    "rayjobs",
    "rayservices",
    "raycronjobs",
    "services",
    "jobs",
    "secrets",
)


def _story(*steps: Step, **fields: Any) -> Story:
    return Story(seed=1, profile="systematic", steps=steps, **fields)


def _create(found: dict[str, Any], at: float = 2.0) -> Step:
    return Step(at=at, do="create", args={"object": found})


def _edit(kind: str, at: float, **spec: Any) -> Step:
    return Step(at=at, do="edit", args={"kind": kind, "name": "demo", "spec": spec})


def _delete(kind: str, at: float) -> Step:
    return Step(at=at, do="delete", args={"kind": kind, "name": "demo"})


_FT: dict[str, Any] = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}
_CRON = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCronJob",
    "metadata": {"name": "demo", "namespace": "default"},
    "spec": {
        "schedule": "* * * * *",
        "jobTemplate": ray_job(submissionMode="HTTPMode", shutdownAfterJobFinishes=True)["spec"],
    },
}

WORKLOADS: dict[str, Story] = {
    "cluster created": _story(_create(ray_cluster(groups=[group(replicas=2)]))),
    "cluster scaled": _story(
        _create(ray_cluster(groups=[group(replicas=1)])),
        _edit("RayCluster", 12.0, workerGroupSpecs=[group(replicas=4)]),
        _edit("RayCluster", 24.0, workerGroupSpecs=[group(replicas=1)]),
    ),
    "cluster suspended and resumed": _story(
        _create(ray_cluster()),
        _edit("RayCluster", 12.0, suspend=True),
        _edit("RayCluster", 24.0, suspend=False),
    ),
    "cluster recreated for a new spec": _story(
        _create(ray_cluster(upgradeStrategy={"type": "Recreate"})),
        _edit("RayCluster", 12.0, rayVersion="2.61.0"),
    ),
    "cluster with fault tolerance deleted": _story(
        _create(ray_cluster(**_FT)), _delete("RayCluster", 12.0)
    ),
    "job with a submitter": _story(_create(ray_job(shutdownAfterJobFinishes=True))),
    "job over HTTP": _story(
        _create(ray_job(submissionMode="HTTPMode", shutdownAfterJobFinishes=True))
    ),
    "job with a sidecar": _story(
        _create(ray_job(submissionMode="SidecarMode", shutdownAfterJobFinishes=True))
    ),
    "job that fails and is retried": _story(
        _create(ray_job(submissionMode="HTTPMode", backoffLimit=1)), job_status="FAILED"
    ),
    "service upgraded": _story(
        _create(ray_service()),
        _edit("RayService", 30.0, rayClusterConfig=cluster_config("rayproject/ray:2.61.0")),
    ),
    "service with a new config, suspended and resumed": _story(
        _create(ray_service()),
        _edit("RayService", 25.0, serveConfigV2=CONFIG.replace("demo.app", "demo.next")),
        _edit("RayService", 45.0, suspend=True),
        _edit("RayService", 60.0, suspend=False),
    ),
    "schedule": _story(
        _create(_CRON),
        Step(
            at=75.0,
            do="edit",
            args={"kind": "RayCronJob", "name": "demo", "spec": {"suspend": True}},
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Plan:
    workload: str
    fault: str
    """`crash`, `drop` or `delay`."""
    number: int
    """Of the write, or of the event."""
    plural: str = ""

    def __str__(self) -> str:
        if self.fault == "crash":
            return f"{self.workload}: crash after write {self.number}"
        return f"{self.workload}: {self.fault} event {self.number} of {self.plural}"


class _Ears:
    """Counts the events that the operator hears; may lose or delay one."""

    def __init__(self, plan: Plan | None = None) -> None:
        self.heard: dict[str, int] = {}
        self._plan = plan

    def attach(self, world: World) -> None:
        for replica in world.replicas:
            replica.on_start.append(self._attach)

    def _attach(self, life: Life) -> None:
        def hear(plural: str, line: str) -> str:
            if plural not in KINDS:
                return ""
            number = self.heard[plural] = self.heard.get(plural, 0) + 1
            plan = self._plan
            if plan is None or (plural, number) != (plan.plural, plan.number):
                return ""
            if plan.fault == "delay":
                return str(LATE)
            _relist_later(life, plural)
            return "drop"

        life.transport.heard = hear


def _relist_later(life: Life, plural: str) -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    loop.call_later(RELIST, lambda: life.transport.cut_watches(plural, expire=True))


def plans(workload: str) -> Iterator[Plan]:
    """All plans of a workload, from a run of it without faults."""
    ears = _Ears()
    result = run(WORKLOADS[workload], ears.attach)
    assert not result.violations, (workload, result.violations)
    for number in range(1, result.writes + 1):
        yield Plan(workload, "crash", number)
    for plural, count in sorted(ears.heard.items()):
        for fault in ("drop", "delay"):
            for number in range(1, count + 1):
                yield Plan(workload, fault, number, plural)


def run_plan(plan: Plan) -> Result:
    story = WORKLOADS[plan.workload]
    prepare: Callable[[World], None]
    if plan.fault == "crash":
        crash = Step(at=1.5, do="crash", args={"replica": 0, "writes": plan.number})
        story, prepare = story.with_steps((crash, *story.steps)), lambda _world: None
    else:
        prepare = _Ears(plan).attach
    return run_checked(story, prepare)
