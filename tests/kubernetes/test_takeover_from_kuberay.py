"""KubeRay makes the objects, Manta takes them over, and KubeRay takes them back.

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
from manta.api.well_known import ANNOTATION_FAKE_SCRIPT as SCRIPT
from support.contract import EXTERNAL
from support.fake_ray import FakeJob
from support.operator_fixture import OperatorFixture, OperatorProcess, empty, until
from support.operator_objects import a_cluster, a_job, a_service, settle
from support.peers import KUBERAY_BINARY, KUBERAY_RELEASES, kuberay_binary
from support.raycluster import group
from support.rayservice_objects import cluster_config
from support.real_kuberay import kuberay
from support.recorded_kuberay import record

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


async def there(operator_fixture: OperatorFixture) -> set[tuple[str, str, str]]:
    """(kind, name, uid) of everything that must neither come nor go."""
    return {
        (resource.kind, one["metadata"]["name"], one["metadata"]["uid"])
        for resource in KEPT
        for one in await operator_fixture.all(resource)
    }


# ── objects made by KubeRay ──────────────────────────────────────────────────────────────


async def clusters(operator_fixture: OperatorFixture) -> None:
    shapes: dict[str, Json] = {
        "plain": {"groups": [group(replicas=2), group("more", 1)]},
        "scaled": {"groups": [group(replicas=2)], "enableInTreeAutoscaling": True},
        "strict": {"upgradeStrategy": {"type": "Recreate"}},
        "token": {"authOptions": {"mode": "token"}},
        "redis": {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}},
        "hosts": {"groups": [group(replicas=2, numOfHosts=2)]},
    }
    for name, shape in shapes.items():
        await operator_fixture.make(RAY_CLUSTERS, a_cluster(operator_fixture, name, **shape))
    for name in shapes:
        await operator_fixture.until(
            RAY_CLUSTERS, name, lambda status: status.get("state") == "ready"
        )


async def services(operator_fixture: OperatorFixture) -> None:
    """One at rest, and one in the middle of an upgrade: its new cluster never says RUNNING."""
    for name in ("rest", "moving"):
        await operator_fixture.make(RAY_SERVICES, a_service(operator_fixture, name))
    for name in ("rest", "moving"):
        await operator_fixture.until(RAY_SERVICES, name, lambda status: bool(active(status)))
        await operator_fixture.until(
            RAY_SERVICES, name, lambda one: one.get("serviceStatus") == "Running"
        )
    operator_fixture.ray.deploy_after = None
    new = settle(operator_fixture, cluster_config(NEXT))
    await operator_fixture.edit(RAY_SERVICES, "moving", {"spec": {"rayClusterConfig": new}})
    found = await operator_fixture.until(
        RAY_SERVICES, "moving", lambda status: bool(pending(status))
    )
    head = operator_fixture.ray.head(
        operator_fixture.namespace, f"{pending(found['status'])}-head-svc"
    )

    async def asked() -> bool:
        return bool(head.puts)

    await until(asked)


def active(status: Json) -> str:
    return str((status.get("activeServiceStatus") or {}).get("rayClusterName") or "")


def pending(status: Json) -> str:
    return str((status.get("pendingServiceStatus") or {}).get("rayClusterName") or "")


async def jobs(operator_fixture: OperatorFixture) -> None:
    for mode in MODES:
        document = a_job(operator_fixture, mode.lower(), submissionMode=mode)
        if mode == "K8sJobMode":  # a submitter waits for the end of its job
            template = document["spec"]["submitterPodTemplate"]
            template["metadata"] = {"annotations": {SCRIPT: "run"}}
        await operator_fixture.make(RAY_JOBS, document)
    for mode in MODES:
        await _running(operator_fixture, mode.lower(), mode)


async def _running(operator_fixture: OperatorFixture, name: str, mode: str) -> None:
    """Ray gets a job by whoever submits it in this mode: KubeRay, a Job of its, or the user."""
    if mode == "InteractiveMode":
        await operator_fixture.until(
            RAY_JOBS, name, lambda status: status.get("jobDeploymentStatus") == "Waiting"
        )
        await operator_fixture.edit(RAY_JOBS, name, {"spec": {"jobId": f"{name}-id"}})
        found = await operator_fixture.until(
            RAY_JOBS, name, lambda status: status.get("rayClusterName")
        )
        job_id = f"{name}-id"
    else:
        found = await operator_fixture.until(RAY_JOBS, name, lambda status: status.get("jobId"))
        job_id = found["status"]["jobId"]
    if mode != "HTTPMode":
        head = operator_fixture.ray.head(
            operator_fixture.namespace, f"{found['status']['rayClusterName']}-head-svc"
        )
        head.jobs[job_id] = FakeJob("python main.py", start_time=1_767_225_600_000)
    await operator_fixture.until(
        RAY_JOBS, name, lambda status: status.get("jobStatus") == "RUNNING"
    )


# ── the story ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Scenario:
    """The objects, the jobs submitted to Ray, and the statuses."""

    objects: set[tuple[str, str, str]]
    executions: list[tuple[str, str]]
    said: Json

    @classmethod
    async def of(cls, operator_fixture: OperatorFixture) -> Scenario:
        return cls(
            await there(operator_fixture),
            list(operator_fixture.ray.executions),
            await reported(operator_fixture),
        )

    async def is_untouched(self, operator_fixture: OperatorFixture) -> None:
        now = await Scenario.of(operator_fixture)
        assert now.objects ^ self.objects == set()
        assert now.executions == self.executions
        assert now.said == self.said


@pytest.mark.parametrize("release", KUBERAY_RELEASES)
async def test_manta_takes_over_from_kuberay_itself_and_gives_back(
    operator_fixture: OperatorFixture, leader: OperatorProcess, release: str
) -> None:
    if kuberay_binary(release) is None:
        pytest.skip(f"KubeRay {release} is not at hand: {KUBERAY_BINARY} names its operator")
    await empty(operator_fixture)  # what an earlier story left may go in the middle of this one
    await leader.stop()
    slowly = operator_fixture.ray.deploy_after
    try:
        async with kuberay(operator_fixture, release):
            await clusters(operator_fixture)
            await services(operator_fixture)
            await jobs(operator_fixture)
            await settled(operator_fixture)
            assert "Refused: a KubeRay operator runs" in await doctor(operator_fixture, code=1)
        if os.environ.get("MANTA_RECORD"):
            await record(operator_fixture.client, operator_fixture.namespace, release)
        found = await Scenario.of(operator_fixture)
        assert NOTHING in await dry_run(operator_fixture)
        await found.is_untouched(operator_fixture)

        await leader.start()
        await leader.until_leading()
        await asyncio.sleep(A_WHILE)
        await found.is_untouched(operator_fixture)
        await leader.stop()

        async with kuberay(operator_fixture, release) as log:
            await asyncio.sleep(A_WHILE)
            await found.is_untouched(operator_fixture)
            assert "panic" not in log.read_text()
        operator_fixture.ray.deploy_after = slowly
        await leader.start()
        await leader.until_leading()
        await brought_to_an_end(operator_fixture)
    finally:
        operator_fixture.ray.deploy_after = slowly
        await leader.stop()  # whatever came between
        await leader.start()
        await leader.until_leading()
        await empty(operator_fixture)


async def doctor(operator_fixture: OperatorFixture, code: int | None = None) -> str:
    """`manta doctor --migrate`, as the admin would call it. `code`: that it must end with."""
    process = await asyncio.create_subprocess_exec(
        *(str(Path(sys.executable).with_name("manta")), "doctor", "--migrate"),
        *("-n", operator_fixture.namespace, "--kubeconfig", os.environ[EXTERNAL]),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert code is None or process.returncode == code, output.decode()
    return output.decode() if code is not None or process.returncode == 0 else ""


async def dry_run(operator_fixture: OperatorFixture) -> str:
    """As soon as the lease that KubeRay held is over."""
    return await until(lambda: doctor(operator_fixture))


async def settled(operator_fixture: OperatorFixture) -> None:
    """Until nothing comes or goes any more."""
    known: object = None

    async def quiet() -> bool:
        nonlocal known
        before, known = known, await there(operator_fixture)
        if before != known:
            await asyncio.sleep(3)
        return before == known

    await until(quiet)


async def reported(operator_fixture: OperatorFixture) -> Json:
    """What the statuses say of what runs; times and counts of conditions aside."""
    fields = {
        RAY_CLUSTERS: ("state", "desiredWorkerReplicas", "readyWorkerReplicas"),
        RAY_JOBS: ("jobStatus", "jobDeploymentStatus", "jobId", "rayClusterName"),
        RAY_SERVICES: ("serviceStatus", "numServeEndpoints"),
    }
    said: Json = {}
    for resource, names in fields.items():
        for one in await operator_fixture.all(resource):
            status = one["status"]
            row = {name: status.get(name) for name in names}
            if resource is RAY_SERVICES:
                row |= {"active": active(status), "pending": pending(status)}
            said[f"{resource.plural}/{one['metadata']['name']}"] = row
    return said


async def brought_to_an_end(operator_fixture: OperatorFixture) -> None:
    """Manta finishes what KubeRay began: an upgrade, and jobs."""
    moving = await operator_fixture.get(RAY_SERVICES, "moving")
    assert moving is not None
    new = pending(moving["status"])
    head = operator_fixture.ray.head(operator_fixture.namespace, f"{new}-head-svc")
    operator_fixture.ray.set_applications(head, None, "RUNNING")
    await operator_fixture.until(RAY_SERVICES, "moving", lambda status: active(status) == new)
    for mode in MODES:
        found = await operator_fixture.get(RAY_JOBS, mode.lower())
        assert found is not None
        status = found["status"]
        head = operator_fixture.ray.head(
            operator_fixture.namespace, f"{status['rayClusterName']}-head-svc"
        )
        operator_fixture.ray.end(head, status["jobId"], "SUCCEEDED")
        await operator_fixture.until(
            RAY_JOBS, mode.lower(), lambda one: one.get("jobDeploymentStatus") == "Complete"
        )
