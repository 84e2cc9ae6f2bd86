"""RayJobs for tests: builders of objects and snapshots."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from manta.api.batch import Job, JobStatus
from manta.api.core import Pod, PodCondition
from manta.api.meta import ObjectMeta, Uid
from manta.api.ray.cluster import RayCluster, RayClusterStatus
from manta.api.ray.job import RayJob, RayJobSpec, RayJobStatus
from manta.api.ray.names import FINALIZER_RAY_JOB
from manta.api.times import format_time
from manta.controllers.rayjob.plan import plan
from manta.controllers.rayjob.snapshot import SUBMITTED_TO, JobSnapshot
from manta.controllers.rayjob.status import next_status
from manta.manifests.head_pod import build_head_pod
from manta.reconcile.outcome import UNTRIED, Outcome
from manta.reconcile.plan import Plan
from manta.rules.settings import Settings
from support.raycluster import NAMESPACE, ray_cluster

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def ray_job(name: str = "demo", **spec: Any) -> dict[str, Any]:
    body = {"entrypoint": "python main.py", "rayClusterSpec": ray_cluster()["spec"], **spec}
    wanted = {key: value for key, value in body.items() if value is not None}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": wanted,
    }


def a_job(status: dict[str, Any] | None = None, **spec: Any) -> RayJob:
    document = ray_job(**spec)
    return RayJob(
        metadata=ObjectMeta(
            name="demo", namespace=NAMESPACE, uid=Uid("job-uid"), finalizers=(FINALIZER_RAY_JOB,)
        ),
        spec=msgspec.convert(document["spec"], RayJobSpec),
        status=msgspec.convert(status or {}, RayJobStatus),
    )


def a_cluster(state: str = "ready") -> RayCluster:
    document = ray_cluster("demo-abcde")
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "demo", "uid": "job-uid"}
    owners = [{**owner, "controller": True}]
    meta = {**document["metadata"], "uid": "cluster-uid", "ownerReferences": owners}
    cluster = msgspec.convert({**document, "metadata": meta}, RayCluster)
    return msgspec.structs.replace(cluster, status=RayClusterStatus(state=state))


def a_head(uid: str = "head-1") -> Pod:
    """As the operator makes it."""
    pod = msgspec.convert(build_head_pod(a_cluster(), Settings(), spec_hash=""), Pod)
    meta = msgspec.structs.replace(pod.metadata, name="demo-abcde-head", uid=Uid(uid))
    return msgspec.structs.replace(pod, metadata=meta)


def a_submitter(
    finished: str = "", head: str = "head-1/0", message: str = "", ago: int = 10
) -> Job:
    """The submitter Job of the attempt in `running`; it ended `ago` seconds ago."""
    meta = ObjectMeta(
        name="demo",
        namespace=NAMESPACE,
        uid=Uid("sub"),
        annotations={SUBMITTED_TO: f"demo-12345@demo-abcde@{head}"},
    )
    if not finished:
        return Job(metadata=meta)
    ended = format_time(NOW - timedelta(seconds=ago))
    condition = PodCondition(
        type=finished, status="True", message=message, last_transition_time=ended
    )
    return Job(metadata=meta, status=JobStatus(conditions=(condition,)))


def a_snapshot(
    status: dict[str, Any] | None = None, *, spec: dict[str, Any] | None = None, **facts: Any
) -> JobSnapshot:
    """A snapshot at NOW, started a minute ago; facts override."""
    started = {"startTime": format_time(NOW - timedelta(minutes=1)), **(status or {})}
    base: dict[str, Any] = {"settings": Settings(), "now": NOW, "seed": 7}
    return JobSnapshot(a_job(started, **(spec or {})), **{**base, **facts})


def running(**facts: Any) -> JobSnapshot:
    status = {
        "jobDeploymentStatus": "Running",
        "jobId": "demo-12345",
        "rayClusterName": "demo-abcde",
        **facts.pop("status", {}),
    }
    base: dict[str, Any] = {"cluster": a_cluster(), "head_pod": a_head()}
    return a_snapshot(status, **{**base, **facts})


def planned(snapshot: JobSnapshot) -> Plan:
    return plan(snapshot).plan


def status_after(snapshot: JobSnapshot, outcome: Outcome = UNTRIED) -> RayJobStatus:
    return next_status(snapshot, plan(snapshot), outcome)
