"""The conditions of a RayJob: what is waited for, by name, at every stage."""

from __future__ import annotations

import msgspec
import pytest

from manta.api.conditions import find
from manta.api.core import Pod
from manta.api.meta import Condition
from manta.api.ray.cluster import RayCluster, RayClusterStatus
from manta.api.ray.resources import RAY_CLUSTERS
from manta.controllers.rayjob.conditions import differs
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.handover import SubmissionRefusedError
from manta.controllers.rayjob.snapshot import JobSnapshot, NotAsked, Silent, Told, Unknown
from manta.controllers.rayjob.status import next_status
from manta.kube.errors import Forbidden
from manta.reconcile.actions import Call, Create
from manta.reconcile.outcome import UNTRIED, Failure, Outcome
from manta.rules.validation.violation import Violation
from support.rayjob import a_cluster, a_submitter, running, seen

INITIALIZING = {"jobDeploymentStatus": "Initializing"}


def ready(snapshot: JobSnapshot, outcome: Outcome = UNTRIED) -> Condition:
    found = find(next_status(snapshot, outcome).conditions, "Ready")
    assert found is not None
    return found


def said(snapshot: JobSnapshot) -> tuple[str, str]:
    condition = ready(snapshot)
    return condition.status, condition.reason


def blocked_cluster() -> RayCluster:
    told = Condition(
        type="Blocked",
        status="True",
        reason="ImagePullBackOff",
        message="container ray of Pod demo-abcde-head is waiting: ImagePullBackOff",
    )
    return msgspec.structs.replace(a_cluster(state=""), status=RayClusterStatus(conditions=(told,)))


def a_submitter_pod(status: dict[str, object]) -> Pod:
    document = {"metadata": {"name": "demo-x1", "namespace": "default"}, "status": status}
    return msgspec.convert(document, Pod)


def test_a_waiting_job_names_the_pod_that_holds_up_its_cluster() -> None:
    condition = ready(running(status=INITIALIZING, cluster=blocked_cluster()))
    assert (condition.status, condition.reason) == ("False", "ImagePullBackOff")
    assert "Pod demo-abcde-head" in condition.message


def test_a_wait_says_when_patience_ends() -> None:
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
    condition = ready(running(answer=Unknown(), submitter=a_submitter(), submitter_pods=(pod,)))
    assert (condition.status, condition.reason) == ("False", "Unschedulable")
    assert "Pod demo-x1 cannot be scheduled: 0/3 nodes" in condition.message


def test_a_submitter_without_its_image_is_named() -> None:
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    statuses = [{"name": "ray-job-submitter", "state": {"waiting": waiting}}]
    pod = a_submitter_pod({"phase": "Pending", "containerStatuses": statuses})
    snapshot = running(answer=Unknown(), submitter=a_submitter(), submitter_pods=(pod,))
    assert said(snapshot) == ("False", "ErrImagePull")
    assert "no such image" in next_status(snapshot, UNTRIED).message


@pytest.mark.parametrize(
    ("snapshot", "wanted"),
    [
        (seen(), ("False", "Initializing")),
        (running(answer=NotAsked()), ("False", "Running")),
        (running(answer=Told("RUNNING")), ("True", "Running")),
        (running(answer=Told("SUCCEEDED")), ("True", "Complete")),
        (running(answer=Told("FAILED", "boom")), ("False", "AppFailed")),
        (running(answer=Silent("timeout")), ("Unknown", "DashboardSilent")),
        (running(answer=Told("FAILED"), spec={"backoffLimit": 1}), ("False", "AppFailed")),
        (seen(violations=(Violation("spec.x", "", "cure"),)), ("False", "ValidationFailed")),
    ],
)
def test_every_stage_has_its_word(snapshot: JobSnapshot, wanted: tuple[str, str]) -> None:
    assert said(snapshot) == wanted


def test_a_suspended_job_names_the_queue_that_holds_it() -> None:
    snapshot = seen({"jobDeploymentStatus": "Suspended"}, spec={"suspend": True})
    assert "spec.suspend" in ready(snapshot).message
    labels = {"kueue.x-k8s.io/queue-name": "research"}
    meta = msgspec.structs.replace(snapshot.job.metadata, labels=labels)
    job = msgspec.structs.replace(snapshot.job, metadata=meta)
    queued = JobSnapshot(job, snapshot.settings, snapshot.now, 7)
    assert "held in queue research" in ready(queued).message


def test_what_the_server_refuses_is_said() -> None:
    snapshot = running(status=INITIALIZING, cluster=None, cluster_spec={})
    manifest = {"metadata": {"name": "demo-abcde", "namespace": "default"}}
    action = Create(RAY_CLUSTERS, manifest, Cause.NEW_ATTEMPT)
    denied = Failure(action, Forbidden(403, "Forbidden", "exceeded quota: small"))
    condition = ready(snapshot, Outcome(failures=(denied,)))
    assert (condition.status, condition.reason) == ("False", "Forbidden")
    assert "exceeded quota" in condition.message


def test_a_job_that_ray_refuses_has_failed() -> None:
    snapshot = running(spec={"submissionMode": "HTTPMode"}, answer=Unknown())
    call = Call("submit", snapshot.job.metadata.key, Cause.SUBMIT_BY_HTTP)
    refused = Failure(call, SubmissionRefusedError("Ray refused the job (400): bad runtime env"))
    status = next_status(snapshot, Outcome(failures=(refused,)))
    assert (status.job_deployment_status, status.reason) == ("Failed", "SubmissionFailed")
    assert "bad runtime env" in status.message


def test_complete_and_failed_can_be_waited_for() -> None:
    won = next_status(running(answer=Told("SUCCEEDED")), UNTRIED).conditions
    assert [(one.type, one.status) for one in won] == [
        ("Ready", "True"),
        ("Complete", "True"),
        ("Failed", "False"),
    ]
    lost = next_status(running(answer=Told("FAILED", "boom")), UNTRIED).conditions
    failed = find(lost, "Failed")
    assert failed is not None
    assert (failed.status, failed.reason, failed.message) == ("True", "AppFailed", "boom")


def test_conditions_alone_are_not_written_where_the_server_drops_them() -> None:
    """KubeRay's CRD has no such field: what was pruned once would be written for ever."""
    snapshot = running(status={"jobStatus": "RUNNING"}, answer=Told("RUNNING"))
    new = next_status(snapshot, UNTRIED)
    assert new.conditions
    pruned = msgspec.structs.replace(new, conditions=())
    assert not differs(pruned, new)
    assert differs(msgspec.structs.replace(pruned, job_status="PENDING"), new)
    told = msgspec.structs.replace(new.conditions[0], message="something else")
    assert differs(msgspec.structs.replace(new, conditions=(told,)), new)


def test_a_cluster_without_dashboard_is_told_at_once() -> None:
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
