"""KubeRay itself makes a world, Manta takes it over, and KubeRay takes it back.

Nothing is played here but Ray: KubeRay's own operator of every release works on a real control plane, is stopped in the
middle of its work, and started again on what Manta has kept for it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import JOBS, PODS, SECRETS, SERVICES
from manta.localplane.fakenodes.script import ANNOTATION as SCRIPT
from support.contract import EXTERNAL
from support.fake_ray import FakeJob
from support.peers import KUBERAY_BINARY, KUBERAY_RELEASES, kuberay_binary
from support.raycluster import group
from support.rayservice_objects import cluster_config
from support.real_kuberay import kuberay
from support.recorded_kuberay import record
from support.stage import OperatorProcess, Stage, empty, until
from support.stage_objects import a_cluster, a_job, a_service, settle

Json = dict[str, Any]
KEPT = (PODS, RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES, JOBS, SECRETS, SERVICES)
MODES = ("HTTPMode", "K8sJobMode", "SidecarMode", "InteractiveMode")
NEXT = "rayproject/ray:2.61.0"
NOTHING = "0 Pods deleted, 0 created; 0 new clusters; 0 jobs submitted."
A_WHILE = 20.0
"""Seconds for which an operator may do what it must not: KubeRay looks every 2 to 3 of them."""

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not os.environ.get(EXTERNAL), reason="KubeRay wants a real control plane"),
]


async def there(stage: Stage) -> set[tuple[str, str, str]]:
    """(kind, name, uid) of everything that must neither come nor go."""
    return {
        (resource.kind, one["metadata"]["name"], one["metadata"]["uid"])
        for resource in KEPT
        for one in await stage.all(resource)
    }


# ── a world, by KubeRay ──────────────────────────────────────────────────────────────────


async def clusters(stage: Stage) -> None:
    shapes: dict[str, Json] = {
        "plain": {"groups": [group(replicas=2), group("more", 1)]},
        "scaled": {"groups": [group(replicas=2)], "enableInTreeAutoscaling": True},
        "strict": {"upgradeStrategy": {"type": "Recreate"}},
        "token": {"authOptions": {"mode": "token"}},
        "redis": {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}},
        "hosts": {"groups": [group(replicas=2, numOfHosts=2)]},
    }
    for name, shape in shapes.items():
        await stage.make(RAY_CLUSTERS, a_cluster(stage, name, **shape))
    for name in shapes:
        await stage.until(RAY_CLUSTERS, name, lambda status: status.get("state") == "ready")


async def services(stage: Stage) -> None:
    """One at rest, and one in the middle of an upgrade: its new cluster never says RUNNING."""
    for name in ("rest", "moving"):
        await stage.make(RAY_SERVICES, a_service(stage, name))
    for name in ("rest", "moving"):
        await stage.until(RAY_SERVICES, name, lambda status: bool(active(status)))
        await stage.until(RAY_SERVICES, name, lambda one: one.get("serviceStatus") == "Running")
    stage.ray.deploy_after = None
    new = settle(stage, cluster_config(NEXT))
    await stage.edit(RAY_SERVICES, "moving", {"spec": {"rayClusterConfig": new}})
    found = await stage.until(RAY_SERVICES, "moving", lambda status: bool(pending(status)))
    head = stage.ray.head(stage.namespace, f"{pending(found['status'])}-head-svc")

    async def asked() -> bool:
        return bool(head.puts)

    await until(asked)


def active(status: Json) -> str:
    return str((status.get("activeServiceStatus") or {}).get("rayClusterName") or "")


def pending(status: Json) -> str:
    return str((status.get("pendingServiceStatus") or {}).get("rayClusterName") or "")


async def jobs(stage: Stage) -> None:
    for mode in MODES:
        document = a_job(stage, mode.lower(), submissionMode=mode)
        if mode == "K8sJobMode":  # a submitter waits for the end of its job
            template = document["spec"]["submitterPodTemplate"]
            template["metadata"] = {"annotations": {SCRIPT: "run"}}
        await stage.make(RAY_JOBS, document)
    for mode in MODES:
        await _running(stage, mode.lower(), mode)


async def _running(stage: Stage, name: str, mode: str) -> None:
    """Ray gets a job by whoever submits it in this mode: KubeRay, a Job of its, or the user."""
    if mode == "InteractiveMode":
        await stage.until(
            RAY_JOBS, name, lambda status: status.get("jobDeploymentStatus") == "Waiting"
        )
        await stage.edit(RAY_JOBS, name, {"spec": {"jobId": f"{name}-id"}})
        found = await stage.until(RAY_JOBS, name, lambda status: status.get("rayClusterName"))
        job_id = f"{name}-id"
    else:
        found = await stage.until(RAY_JOBS, name, lambda status: status.get("jobId"))
        job_id = found["status"]["jobId"]
    if mode != "HTTPMode":
        head = stage.ray.head(stage.namespace, f"{found['status']['rayClusterName']}-head-svc")
        head.jobs[job_id] = FakeJob("python main.py", start_time=1_767_225_600_000)
    await stage.until(RAY_JOBS, name, lambda status: status.get("jobStatus") == "RUNNING")


# ── the story ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class World:
    """What there is, what Ray has been told to run, and what the statuses say."""

    objects: set[tuple[str, str, str]]
    executions: list[tuple[str, str]]
    said: Json

    @classmethod
    async def of(cls, stage: Stage) -> World:
        return cls(await there(stage), list(stage.ray.executions), await told(stage))

    async def is_untouched(self, stage: Stage) -> None:
        now = await World.of(stage)
        assert now.objects ^ self.objects == set()
        assert now.executions == self.executions
        assert now.said == self.said


@pytest.mark.parametrize("release", KUBERAY_RELEASES)
async def test_manta_takes_over_from_kuberay_itself_and_gives_back(
    stage: Stage, leader: OperatorProcess, release: str
) -> None:
    if kuberay_binary(release) is None:
        pytest.skip(f"KubeRay {release} is not at hand: {KUBERAY_BINARY} names its operator")
    await empty(stage)  # what an earlier story left may go in the middle of this one
    await leader.stop()
    slowly = stage.ray.deploy_after
    try:
        async with kuberay(stage, release):
            await clusters(stage)
            await services(stage)
            await jobs(stage)
            await settled(stage)
            assert "Refused: KubeRay runs" in await doctor(stage, code=1)
        if os.environ.get("MANTA_RECORD"):
            await record(stage.client, stage.namespace, release)
        found = await World.of(stage)
        assert NOTHING in await rehearsal(stage)
        await found.is_untouched(stage)

        await leader.start()
        await leader.until_leading()
        await asyncio.sleep(A_WHILE)
        await found.is_untouched(stage)
        await leader.stop()

        async with kuberay(stage, release) as log:
            await asyncio.sleep(A_WHILE)
            await found.is_untouched(stage)
            assert "panic" not in log.read_text()
        stage.ray.deploy_after = slowly
        await leader.start()
        await leader.until_leading()
        await brought_to_an_end(stage)
    finally:
        stage.ray.deploy_after = slowly
        await leader.stop()  # whatever came between
        await leader.start()
        await leader.until_leading()
        await empty(stage)


async def doctor(stage: Stage, code: int | None = None) -> str:
    """`manta doctor --migrate`, as the admin would call it. `code`: that it must end with."""
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("manta")), "doctor", "--migrate"),
        *("-n", stage.namespace, "--kubeconfig", os.environ[EXTERNAL]),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert code is None or process.returncode == code, output.decode()
    return output.decode() if code is not None or process.returncode == 0 else ""


async def rehearsal(stage: Stage) -> str:
    """As soon as the lease that KubeRay held is over."""
    return await until(lambda: doctor(stage))


async def settled(stage: Stage) -> None:
    """Until nothing comes or goes any more."""
    known: object = None

    async def quiet() -> bool:
        nonlocal known
        before, known = known, await there(stage)
        if before != known:
            await asyncio.sleep(3)
        return before == known

    await until(quiet)


async def told(stage: Stage) -> Json:
    """What the statuses say of what runs; times and counts of conditions aside."""
    fields = {
        RAY_CLUSTERS: ("state", "desiredWorkerReplicas", "readyWorkerReplicas"),
        RAY_JOBS: ("jobStatus", "jobDeploymentStatus", "jobId", "rayClusterName"),
        RAY_SERVICES: ("serviceStatus", "numServeEndpoints"),
    }
    said: Json = {}
    for resource, names in fields.items():
        for one in await stage.all(resource):
            status = one["status"]
            row = {name: status.get(name) for name in names}
            if resource is RAY_SERVICES:
                row |= {"active": active(status), "pending": pending(status)}
            said[f"{resource.plural}/{one['metadata']['name']}"] = row
    return said


async def brought_to_an_end(stage: Stage) -> None:
    """Manta finishes what KubeRay began: an upgrade, and jobs."""
    moving = await stage.get(RAY_SERVICES, "moving")
    assert moving is not None
    new = pending(moving["status"])
    head = stage.ray.head(stage.namespace, f"{new}-head-svc")
    stage.ray.set_applications(head, None, "RUNNING")
    await stage.until(RAY_SERVICES, "moving", lambda status: active(status) == new)
    for mode in MODES:
        found = await stage.get(RAY_JOBS, mode.lower())
        assert found is not None
        status = found["status"]
        head = stage.ray.head(stage.namespace, f"{status['rayClusterName']}-head-svc")
        stage.ray.end(head, status["jobId"], "SUCCEEDED")
        await stage.until(
            RAY_JOBS, mode.lower(), lambda one: one.get("jobDeploymentStatus") == "Complete"
        )
