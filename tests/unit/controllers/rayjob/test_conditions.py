"""The conditions of a RayJob in every stage, with what it waits for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from manta.api.conditions import find
from manta.api.core import Pod
from manta.api.meta import Condition
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster, RayClusterStatus
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.times import format_time
from manta.controllers.rayjob.conditions import is_worth_writing
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.plan import plan
from manta.controllers.rayjob.snapshot import (
    DashboardReply,
    DashboardUnreachable,
    JobNotFound,
    JobSnapshot,
    NotQueried,
)
from manta.controllers.rayjob.submission import SubmissionRefusedError
from manta.controllers.rayjob.wait_reasons import submitter_not_done, submitter_overdue_in
from manta.kube.errors import Forbidden
from manta.reconcile.actions import Call, Create
from manta.reconcile.outcome import UNTRIED, Failure, Outcome
from manta.rules.pod_health import START_WITHIN
from manta.rules.validation.violation import Violation
from support.rayjob import a_cluster, a_snapshot, a_submitter, running, status_after

INITIALIZING = {"jobDeploymentStatus": "Initializing"}


def ready(snapshot: JobSnapshot, outcome: Outcome = UNTRIED) -> Condition:
    found = find(status_after(snapshot, outcome).conditions, "Ready")
    assert found is not None
    return found


def said(snapshot: JobSnapshot) -> tuple[str, str]:
    condition = ready(snapshot)
    return condition.status, condition.reason


def blocked_cluster() -> RayCluster:
    reply = Condition(
        type="Blocked",
        status="True",
        reason="ImagePullBackOff",
        message="container ray of Pod demo-abcde-head is waiting: ImagePullBackOff",
    )
    return msgspec.structs.replace(
        a_cluster(state=""), status=RayClusterStatus(conditions=(reply,))
    )


def a_submitter_pod(status: dict[str, object]) -> Pod:
    document = {"metadata": {"name": "demo-x1", "namespace": "default"}, "status": status}
    return msgspec.convert(document, Pod)


def test_a_waiting_job_names_the_pod_that_blocks_its_cluster() -> None:
    condition = ready(running(status=INITIALIZING, cluster=blocked_cluster()))
    assert (condition.status, condition.reason) == ("False", "ImagePullBackOff")
    assert "Pod demo-abcde-head" in condition.message


def test_a_wait_names_its_deadline() -> None:
    spec = {"preRunningDeadlineSeconds": 90, "activeDeadlineSeconds": 600}
    condition = ready(running(status=INITIALIZING, cluster=a_cluster(state=""), spec=spec))
    assert "(until 2026-01-01T12:00:30Z, by preRunningDeadlineSeconds)" in condition.message


def test_a_submitter_that_finds_no_node_is_named() -> None:
    unschedulable = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
    }
    pod = a_submitter_pod({"phase": "Pending", "conditions": [unschedulable]})
    condition = ready(running(answer=JobNotFound(), submitter=a_submitter(), submitter_pods=(pod,)))
    assert (condition.status, condition.reason) == ("False", "Unschedulable")
    assert "Pod demo-x1 cannot be scheduled: 0/3 nodes" in condition.message


def test_a_submitter_without_its_image_is_named() -> None:
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    statuses = [{"name": "ray-job-submitter", "state": {"waiting": waiting}}]
    pod = a_submitter_pod({"phase": "Pending", "containerStatuses": statuses})
    snapshot = running(answer=JobNotFound(), submitter=a_submitter(), submitter_pods=(pod,))
    assert said(snapshot) == ("False", "ErrImagePull")
    assert "no such image" in status_after(snapshot, UNTRIED).message


@pytest.mark.parametrize(
    ("snapshot", "wanted"),
    [
        (a_snapshot(), ("False", "Initializing")),
        (a_snapshot({"jobDeploymentStatus": "ValidationFailed"}), ("False", "New")),
        (running(answer=NotQueried()), ("False", "Running")),
        (running(answer=DashboardReply("RUNNING")), ("True", "Running")),
        (running(answer=DashboardReply("SUCCEEDED")), ("True", "Complete")),
        (running(answer=DashboardReply("FAILED", "boom")), ("False", "AppFailed")),
        (running(answer=DashboardUnreachable("timeout")), ("Unknown", "DashboardSilent")),
        (
            running(answer=DashboardReply("FAILED"), spec={"backoffLimit": 1}),
            ("False", "AppFailed"),
        ),
        (a_snapshot(violations=(Violation("spec.x", "", "cure"),)), ("False", "ValidationFailed")),
    ],
)
def test_every_stage_has_its_ready_condition(
    snapshot: JobSnapshot, wanted: tuple[str, str]
) -> None:
    assert said(snapshot) == wanted


def test_a_suspended_job_names_the_queue_that_holds_it() -> None:
    snapshot = a_snapshot({"jobDeploymentStatus": "Suspended"}, spec={"suspend": True})
    assert "spec.suspend" in ready(snapshot).message
    labels = {"kueue.x-k8s.io/queue-name": "research"}
    meta = msgspec.structs.replace(snapshot.job.metadata, labels=labels)
    job = msgspec.structs.replace(snapshot.job, metadata=meta)
    queued = JobSnapshot(job, snapshot.settings, snapshot.now, 7)
    assert "held in queue research" in ready(queued).message


def test_an_error_of_the_api_server_is_in_the_condition() -> None:
    snapshot = running(status=INITIALIZING, cluster=None, cluster_spec={})
    manifest = {"metadata": {"name": "demo-abcde", "namespace": "default"}}
    action = Create(RAY_CLUSTERS, manifest, Cause.NEW_ATTEMPT)
    denied = Failure(action, Forbidden(403, "Forbidden", "exceeded quota: small"))
    condition = ready(snapshot, Outcome(failures=(denied,)))
    assert (condition.status, condition.reason) == ("False", "Forbidden")
    assert "exceeded quota" in condition.message


def test_a_job_that_ray_refuses_has_failed() -> None:
    snapshot = running(spec={"submissionMode": "HTTPMode"}, answer=JobNotFound())
    call = Call("submit", snapshot.job.metadata.key, Cause.SUBMIT_BY_HTTP)
    refused = Failure(call, SubmissionRefusedError("Ray refused the job (400): bad runtime env"))
    status = status_after(snapshot, Outcome(failures=(refused,)))
    assert (status.job_deployment_status, status.reason) == ("Failed", "SubmissionFailed")
    assert "bad runtime env" in status.message


def test_complete_and_failed_can_be_waited_for() -> None:
    won = status_after(running(answer=DashboardReply("SUCCEEDED")), UNTRIED).conditions
    assert [(one.type, one.status) for one in won] == [
        ("Ready", "True"),
        ("Complete", "True"),
        ("Failed", "False"),
    ]
    head_lost = status_after(running(answer=DashboardReply("FAILED", "boom")), UNTRIED).conditions
    failed = find(head_lost, "Failed")
    assert failed is not None
    assert (failed.status, failed.reason, failed.message) == ("True", "AppFailed", "boom")


def test_conditions_alone_are_not_written_where_the_server_drops_them() -> None:
    """KubeRay's CRD prunes the field: the operator would write it again and again."""
    snapshot = running(status={"jobStatus": "RUNNING"}, answer=DashboardReply("RUNNING"))
    new = status_after(snapshot, UNTRIED)
    assert new.conditions
    pruned = msgspec.structs.replace(new, conditions=())
    assert not is_worth_writing(pruned, new)
    assert is_worth_writing(msgspec.structs.replace(pruned, job_status="PENDING"), new)
    reply = msgspec.structs.replace(new.conditions[0], message="something else")
    assert is_worth_writing(msgspec.structs.replace(new, conditions=(reply,)), new)


def test_a_cluster_without_dashboard_emits_an_event() -> None:
    cluster = a_cluster()
    head = msgspec.structs.replace(
        cluster.spec.head_group_spec, ray_start_params={"include-dashboard": "false"}
    )
    spec = msgspec.structs.replace(cluster.spec, head_group_spec=head)
    snapshot = running(
        status=INITIALIZING,
        cluster=msgspec.structs.replace(cluster, spec=spec),
        spec={"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": "demo-abcde"}},
    )
    assert said(snapshot) == ("False", "NoDashboard")


@pytest.mark.parametrize(
    ("waiting", "reason"),
    [
        ({"reason": "ErrImagePull", "message": "no such image"}, "ErrImagePull"),
        ({"reason": "ContainerCreating"}, "Submitting"),
        (None, "Submitting"),
    ],
)
def test_a_sidecar_that_cannot_start_says_why(waiting: dict[str, str] | None, reason: str) -> None:
    state = {"waiting": waiting} if waiting else {"running": {}}
    statuses = [{"name": "ray-job-submitter", "state": state}]
    head = msgspec.convert({"status": {"containerStatuses": statuses}}, Pod)
    snapshot = a_snapshot(spec={"submissionMode": "SidecarMode"}, head_pod=head)
    assert submitter_not_done(snapshot).reason == reason


def test_a_submitter_that_is_not_created_is_named_after_five_minutes() -> None:
    statuses = [
        {"name": "ray-job-submitter", "state": {"waiting": {"reason": "ContainerCreating"}}}
    ]
    snapshot = a_snapshot()
    pod = {
        "metadata": {"name": "demo-x", "creationTimestamp": format_time(snapshot.now)},
        "status": {"phase": "Pending", "containerStatuses": statuses},
    }
    early = replace(snapshot, submitter_pods=(msgspec.convert(pod, Pod),))
    late = replace(early, now=early.now + START_WITHIN)
    assert submitter_not_done(early).reason == "Submitting"
    assert submitter_overdue_in(early) == START_WITHIN
    found = submitter_not_done(late)
    assert found.reason == "ContainerCreating"
    assert "container ray-job-submitter of Pod demo-x" in found.message
    assert submitter_overdue_in(late) is None


@pytest.mark.parametrize("stage", ["Suspending", "Retrying"])
def test_a_cluster_that_does_not_go_away_is_named(stage: str) -> None:
    snapshot = running(status={"jobDeploymentStatus": stage}, spec={"suspend": True})
    assert snapshot.cluster is not None
    since = format_time(snapshot.now)
    kept = {"deletion_timestamp": since, "finalizers": ("example.com/keep",)}
    meta = msgspec.structs.replace(snapshot.cluster.metadata, **kept)
    cluster = msgspec.structs.replace(snapshot.cluster, metadata=meta)
    leaving = replace(snapshot, cluster=cluster)
    assert "does not go away" not in ready(leaving).message
    assert plan(leaving).wake_in == timedelta(seconds=60)
    found = ready(replace(leaving, now=snapshot.now + timedelta(seconds=60)))
    assert found.reason == stage
    name = f"RayCluster {meta.name}"
    assert f"{name} is being deleted since {since} but does not go away" in found.message
    assert "kept by the finalizers example.com/keep" in found.message


@pytest.mark.parametrize(("timeout", "seconds"), [("", 300), ("20", 20)])
def test_a_cluster_may_take_as_long_to_go_as_its_redis_is_cleaned(
    timeout: str, seconds: int
) -> None:
    snapshot = running(status={"jobDeploymentStatus": "Suspending"}, spec={"suspend": True})
    assert snapshot.cluster is not None
    meta = msgspec.structs.replace(
        snapshot.cluster.metadata,
        deletion_timestamp=format_time(snapshot.now),
        finalizers=(names.FINALIZER_REDIS_CLEANUP,),
        annotations={names.ANNOTATION_FT_DELETION_TIMEOUT: timeout},
    )
    leaving = replace(snapshot, cluster=msgspec.structs.replace(snapshot.cluster, metadata=meta))
    late = snapshot.now + timedelta(seconds=60 + seconds)
    cleaning = replace(leaving, now=late - timedelta(seconds=1))
    assert "does not go away" not in ready(cleaning).message
    assert "does not go away" in ready(replace(leaving, now=late)).message
