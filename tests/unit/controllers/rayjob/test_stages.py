"""Every stage of a RayJob: its actions, and the next stage."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from manta.api.core import Pod
from manta.api.meta import ObjectMeta
from manta.api.ray.cluster import (
    GcsFaultToleranceOptions,
    HeadInfo,
    RayCluster,
    RayClusterStatus,
)
from manta.api.ray.job import JobDeploymentStatus as Stage
from manta.api.ray.job import SubmissionMode
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS
from manta.api.times import format_time
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.plan import plan
from manta.controllers.rayjob.snapshot import (
    SUBMITTED_TO,
    DashboardReply,
    DashboardUnreachable,
    JobNotFound,
    JobSnapshot,
    SessionReply,
)
from manta.kube.errors import Forbidden
from manta.reconcile.actions import Call, Create, Delete, Patch
from manta.reconcile.outcome import UNTRIED, Failure, Outcome
from manta.rules.validation.violation import Violation
from support.raycluster import ray_cluster
from support.rayjob import (
    NOW,
    a_cluster,
    a_head,
    a_snapshot,
    a_submitter,
    planned,
    running,
    status_after,
)


def stage_after(snapshot: JobSnapshot) -> str:
    return status_after(snapshot, UNTRIED).job_deployment_status


# ── beginning ────────────────────────────────────────────────────────────────────────────


def test_names_are_in_the_status_before_objects_have_them() -> None:
    new = a_snapshot()
    status = status_after(new, UNTRIED)
    assert status.job_deployment_status == Stage.INITIALIZING
    assert status.job_id.startswith("demo-")
    assert status.ray_cluster_name.startswith("demo-")
    assert planned(new).actions == ()


def test_a_given_job_id_and_a_selected_cluster_are_used_as_they_are() -> None:
    selector = {"ray.io/cluster": "shared"}
    new = a_snapshot(spec={"jobId": "mine", "rayClusterSpec": None, "clusterSelector": selector})
    status = status_after(new, UNTRIED)
    assert (status.job_id, status.ray_cluster_name) == ("mine", "shared")


def test_a_cluster_gets_the_spec_as_the_user_wrote_it() -> None:
    raw = {**ray_cluster()["spec"], "fieldOfTheFuture": {"a": 1}}
    snapshot = a_snapshot(
        {"jobDeploymentStatus": "Initializing", "jobId": "j", "rayClusterName": "demo-abcde"},
        cluster_spec=raw,
    )
    [create] = planned(snapshot).actions
    assert isinstance(create, Create)
    assert create.resource is RAY_CLUSTERS
    assert create.manifest["spec"] == raw
    assert create.manifest["metadata"]["labels"]["ray.io/originated-from-crd"] == "RayJob"


def test_annotations_of_an_attempt_are_not_copied_to_the_next_cluster() -> None:
    snapshot = a_snapshot(
        {"jobDeploymentStatus": "Initializing", "jobId": "j", "rayClusterName": "demo-abcde"},
        cluster_spec=ray_cluster()["spec"],
    )
    annotations = {SUBMITTED_TO: "j@old@head", "mine": "kept"}
    meta = msgspec.structs.replace(snapshot.job.metadata, annotations=annotations)
    job = msgspec.structs.replace(snapshot.job, metadata=meta)
    [create] = planned(replace(snapshot, job=job)).actions
    assert isinstance(create, Create)
    assert create.manifest["metadata"]["annotations"] == {"mine": "kept"}


def test_a_ready_cluster_gets_its_submitter_which_records_the_head() -> None:
    initializing = {"jobDeploymentStatus": "Initializing"}
    snapshot = running(status=initializing, answer=SessionReply("session_1"))
    creates = [one for one in planned(snapshot).actions if isinstance(one, Create)]
    [job] = [one for one in creates if one.resource is JOBS]
    assert job.manifest["metadata"]["annotations"] == {
        SUBMITTED_TO: "demo-12345@demo-abcde@head-1/0@cluster-uid"
    }
    assert stage_after(snapshot) == Stage.RUNNING


def test_a_job_that_is_waited_for_says_what_its_cluster_waits_for() -> None:
    snapshot = running(status={"jobDeploymentStatus": "Initializing"}, cluster=a_cluster(state=""))
    assert (
        status_after(snapshot, UNTRIED).message == "waiting for RayCluster demo-abcde to be ready"
    )


def test_interactive_mode_waits_for_the_users_id() -> None:
    spec = {"submissionMode": "InteractiveMode"}
    snapshot = running(status={"jobDeploymentStatus": "Initializing", "jobId": ""}, spec=spec)
    assert stage_after(snapshot) == Stage.WAITING
    reply = running(
        status={"jobDeploymentStatus": "Waiting", "jobId": ""}, spec={**spec, "jobId": "u"}
    )
    status = status_after(reply, UNTRIED)
    assert (status.job_deployment_status, status.job_id) == (Stage.RUNNING, "u")


# ── running ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reply", "stage", "reason"),
    [
        ("SUCCEEDED", Stage.COMPLETE, ""),
        ("STOPPED", Stage.COMPLETE, ""),
        ("FAILED", Stage.FAILED, "AppFailed"),
        ("RUNNING", Stage.RUNNING, ""),
    ],
)
def test_the_status_follows_ray(reply: str, stage: Stage, reason: str) -> None:
    status = status_after(
        running(answer=DashboardReply(reply), submitter=a_submitter("Complete")), UNTRIED
    )
    assert (status.job_deployment_status, status.reason) == (stage, reason)
    assert (status.succeeded or 0) == (reply == "SUCCEEDED")


@pytest.mark.parametrize(
    ("store", "command"),
    [
        ("", "manta logs job/demo -n default"),
        ("node", "manta history errors rayjob/demo -n default"),
    ],
)
def test_a_failed_job_says_which_task_failed_first_and_where_to_read_on(
    store: str, command: str
) -> None:
    reply = DashboardReply("FAILED", "exit code 1", first_failure="work: ValueError: seven")
    failed = running(answer=reply, submitter=a_submitter("Complete"))
    failed = replace(failed, settings=replace(failed.settings, history_store=store))
    assert status_after(failed, UNTRIED).message == (
        f"exit code 1\nFirst failed task: work: ValueError: seven\nRead on: {command}"
    )


def test_c58_a_submitter_that_exits_0_does_not_make_a_failed_job_succeed() -> None:
    assert (
        stage_after(running(answer=DashboardReply("FAILED"), submitter=a_submitter("Complete")))
        == Stage.FAILED
    )


def test_c57_a_submitter_that_fails_does_not_fail_a_job_that_runs() -> None:
    assert (
        stage_after(running(answer=DashboardReply("RUNNING"), submitter=a_submitter("Failed")))
        == Stage.RUNNING
    )
    ended = running(answer=DashboardReply("SUCCEEDED"), submitter=a_submitter("Failed"))
    assert stage_after(ended) == Stage.COMPLETE


def test_the_submitter_may_print_the_log_to_its_end() -> None:
    just_ended = DashboardReply("SUCCEEDED", ended=NOW - timedelta(seconds=1))
    assert stage_after(running(answer=just_ended, submitter=a_submitter())) == Stage.RUNNING
    long_ended = DashboardReply("SUCCEEDED", ended=NOW - timedelta(seconds=301))
    status = status_after(running(answer=long_ended, submitter=a_submitter()), UNTRIED)
    assert status.job_deployment_status == Stage.COMPLETE
    assert status.reason == "JobDeploymentStatusTransitionGracePeriodExceeded"


def test_http_mode_records_the_head_before_it_submits() -> None:
    http = {"submissionMode": "HTTPMode"}
    first = running(spec=http, answer=JobNotFound())
    [note] = [one for one in planned(first).actions if isinstance(one, Patch)]
    assert note.resource is RAY_JOBS
    assert not any(isinstance(one, Call) for one in planned(first).actions)


def test_over_http_a_job_that_ray_accepted_and_has_forgotten_is_not_submitted_again() -> None:
    unmarked = running(spec={"submissionMode": "HTTPMode"}, answer=JobNotFound())
    annotations = {SUBMITTED_TO: unmarked.submission_mark}
    meta = msgspec.structs.replace(unmarked.job.metadata, annotations=annotations)
    marked = replace(unmarked, job=msgspec.structs.replace(unmarked.job, metadata=meta))
    [call] = [one for one in planned(marked).actions if isinstance(one, Call)]
    assert call.verb == "submit"
    failed = Outcome(failures=(Failure(call, Forbidden(403, "Forbidden", "no")),))
    assert status_after(marked, failed).job_status == ""
    accepted = status_after(marked, UNTRIED)
    assert accepted.job_status == "PENDING"
    forgotten = replace(marked, job=msgspec.structs.replace(marked.job, status=accepted))
    assert not any(isinstance(one, Call) for one in planned(forgotten).actions)
    assert stage_after(forgotten) == Stage.FAILED


def test_c56_a_job_whose_head_came_back_empty_fails_and_is_not_run_again() -> None:
    snapshot = running(submitter=a_submitter(), head_pod=a_head("head-2"), answer=JobNotFound())
    status = status_after(snapshot, UNTRIED)
    assert (status.job_deployment_status, status.reason) == (Stage.FAILED, "AppFailed")
    [delete] = [one for one in planned(snapshot).actions if isinstance(one, Delete)]
    assert delete.resource is JOBS


def test_the_submitter_of_a_job_whose_cluster_is_gone_is_deleted() -> None:
    """It would submit the job again, to a new cluster of the same name."""
    gone = running(cluster=None, head_pod=None, submitter=a_submitter())
    assert stage_after(gone) == Stage.FAILED
    assert [type(one) for one in planned(gone).actions] == [Delete]


def with_fault_tolerance() -> RayCluster:
    options = GcsFaultToleranceOptions(redis_address="redis:6379")
    spec = msgspec.structs.replace(a_cluster().spec, gcs_fault_tolerance_options=options)
    return msgspec.structs.replace(a_cluster(), spec=spec)


def test_a_job_does_not_follow_its_name_to_a_cluster_that_was_created_again() -> None:
    submitter = a_submitter(head="head-0/0@another-uid")
    again = running(cluster=with_fault_tolerance(), submitter=submitter, answer=JobNotFound())
    status = status_after(again, UNTRIED)
    assert (status.job_deployment_status, status.reason) == (Stage.FAILED, "AppFailed")
    assert "was created again" in status.message
    [delete] = [one for one in planned(again).actions if isinstance(one, Delete)]
    assert delete.resource is JOBS


@pytest.mark.parametrize("mark", ["head-0/0", "head-0/0@cluster-uid"])
def test_a_job_outlives_its_head_where_the_cluster_keeps_its_records(mark: str) -> None:
    """Also if an operator recorded it that did not name the cluster."""
    kept = running(cluster=with_fault_tolerance(), submitter=a_submitter(head=mark))
    assert stage_after(kept) == Stage.RUNNING


def test_over_http_a_job_is_not_submitted_again_to_a_cluster_of_the_same_name() -> None:
    spec = {"submissionMode": "HTTPMode"}
    again = running(cluster=with_fault_tolerance(), spec=spec, answer=JobNotFound())
    annotations = {SUBMITTED_TO: "demo-12345@demo-abcde@head-1/0@another-uid"}
    meta = msgspec.structs.replace(again.job.metadata, annotations=annotations)
    again = replace(again, job=msgspec.structs.replace(again.job, metadata=meta))
    assert stage_after(again) == Stage.FAILED
    assert not any(one.cause is Cause.NOTE_HEAD for one in planned(again).actions)


def test_a_job_that_ray_has_forgotten_has_failed() -> None:
    snapshot = running(
        status={"jobStatus": "RUNNING"}, submitter=a_submitter(), answer=JobNotFound()
    )
    assert stage_after(snapshot) == Stage.FAILED


def test_a_failed_submitter_is_a_failed_submission() -> None:
    def failed(ago: int) -> JobSnapshot:
        gone = a_submitter("Failed", message="BackoffLimitExceeded", ago=ago)
        return running(answer=JobNotFound(), submitter=gone)

    # What Ray said last may be older than what the submitter did.
    assert stage_after(failed(29)) == Stage.RUNNING
    status = status_after(failed(30), UNTRIED)
    assert status.reason == "SubmissionFailed"
    assert "BackoffLimitExceeded" in status.message


def test_a_submitter_that_was_deleted_before_it_submitted_is_a_failed_submission() -> None:
    status = status_after(running(answer=JobNotFound()), UNTRIED)
    assert (status.job_deployment_status, status.reason) == (Stage.FAILED, "SubmissionFailed")
    assert stage_after(running(answer=DashboardReply("RUNNING"))) == Stage.RUNNING


def test_c40_a_silent_dashboard_is_borne_for_300_seconds() -> None:
    def silent_for(seconds: int) -> JobSnapshot:
        since = format_time(NOW - timedelta(seconds=seconds))
        return running(
            status={"jobStatusCheckFailureStartTime": since}, answer=DashboardUnreachable("timeout")
        )

    assert stage_after(silent_for(299)) == Stage.RUNNING
    status = status_after(silent_for(300), UNTRIED)
    assert (status.job_deployment_status, status.reason) == (
        Stage.FAILED,
        "JobStatusCheckTimeoutExceeded",
    )


def test_a_silence_that_a_clock_ahead_dated_counts_from_now_on() -> None:
    """The RayJob would be Running for as long as the clock was wrong."""
    status = {
        "jobStatusCheckFailureStartTime": format_time(NOW + timedelta(days=1)),
        "message": "the dashboard does not answer: timeout",
    }
    silent = running(status=status, answer=DashboardUnreachable("timeout"))
    after = status_after(silent, UNTRIED)
    assert after.job_deployment_status == Stage.RUNNING
    assert after.job_status_check_failure_start_time == format_time(NOW)
    assert plan(silent).wakeup == timedelta(seconds=300)


def test_an_answer_clears_the_start_of_failures() -> None:
    since = format_time(NOW - timedelta(seconds=250))
    snapshot = running(
        status={"jobStatusCheckFailureStartTime": since}, answer=DashboardReply("RUNNING")
    )
    assert status_after(snapshot, UNTRIED).job_status_check_failure_start_time is None


def test_c63_a_deadline_stops_the_job_and_says_so() -> None:
    snapshot = running(spec={"activeDeadlineSeconds": 5}, answer=DashboardReply("RUNNING"))
    status = status_after(snapshot, UNTRIED)
    assert (status.job_deployment_status, status.reason) == (Stage.FAILED, "DeadlineExceeded")
    assert [one.verb for one in planned(snapshot).actions if isinstance(one, Call)] == ["stop"]


def test_c67_a_deadline_is_not_retried() -> None:
    snapshot = running(
        spec={"activeDeadlineSeconds": 5, "backoffLimit": 2}, answer=DashboardReply("RUNNING")
    )
    status = status_after(snapshot, UNTRIED)
    assert (status.job_deployment_status, status.failed) == (Stage.FAILED, 1)


def test_a_job_wakes_up_at_its_deadline_until_it_has_ended() -> None:
    spec = {"activeDeadlineSeconds": 90}
    assert plan(running(spec=spec, answer=DashboardReply("RUNNING"))).wakeup == timedelta(
        seconds=30
    )
    ended = {"jobDeploymentStatus": "Complete", "endTime": format_time(NOW)}
    assert plan(running(spec=spec, status=ended)).wakeup is None


def test_a_deadline_ends_the_job_although_ray_could_not_be_told_to_stop_it() -> None:
    late = running(spec={"activeDeadlineSeconds": 5}, answer=DashboardReply("RUNNING"))
    [call] = [one for one in planned(late).actions if isinstance(one, Call)]
    refused = Outcome(failures=(Failure(call, OSError("refused")),))
    assert status_after(late, refused) == status_after(late, UNTRIED)


def test_a_deadline_that_cannot_be_carried_out_names_what_holds_it_up() -> None:
    """Not the request to stop, which nothing waits for."""
    late = running(
        spec={"activeDeadlineSeconds": 5},
        answer=DashboardReply("RUNNING"),
        submitter=a_submitter(),
    )
    [call] = [one for one in planned(late).actions if isinstance(one, Call)]
    [delete] = [one for one in planned(late).actions if isinstance(one, Delete)]
    denied = Failure(delete, Forbidden(403, "Forbidden", "jobs is forbidden"))
    status = status_after(late, Outcome(failures=(Failure(call, OSError("refused")), denied)))
    assert status.job_deployment_status == Stage.RUNNING
    ready = next(one for one in status.conditions if one.type == "Ready")
    assert (ready.reason, "cannot delete Job" in status.message) == ("Forbidden", True)


def test_c66_a_job_that_does_not_come_to_run_names_what_it_waited_for() -> None:
    snapshot = running(
        status={"jobDeploymentStatus": "Initializing", "message": "head Pod is Pending"},
        cluster=a_cluster(state=""),
        spec={"preRunningDeadlineSeconds": 10},
    )
    status = status_after(snapshot, UNTRIED)
    assert status.reason == "PreRunningDeadlineExceeded"
    assert "head Pod is Pending" in status.message


# ── retry, suspend, end ──────────────────────────────────────────────────────────────────


def test_a_failure_within_the_backoff_limit_is_retried() -> None:
    snapshot = running(
        answer=DashboardReply("FAILED"), submitter=a_submitter("Complete"), spec={"backoffLimit": 2}
    )
    status = status_after(snapshot, UNTRIED)
    assert (status.job_deployment_status, status.failed) == (Stage.RETRYING, 1)
    last = running(
        status={"failed": 2},
        answer=DashboardReply("FAILED"),
        submitter=a_submitter("Complete"),
        spec={"backoffLimit": 2},
    )
    assert (stage_after(last), status_after(last, UNTRIED).failed) == (Stage.FAILED, 3)


def test_c62_suspending_gives_back_cluster_and_submitter_and_forgets_both() -> None:
    both = running(status={"jobDeploymentStatus": "Suspending"}, submitter=a_submitter())
    kinds = {one.resource for one in planned(both).actions if isinstance(one, Delete)}
    assert kinds == {RAY_CLUSTERS, JOBS}
    assert stage_after(both) == Stage.SUSPENDING
    gone = running(status={"jobDeploymentStatus": "Suspending"}, cluster=None, head_pod=None)
    status = status_after(gone, UNTRIED)
    assert (status.job_deployment_status, status.job_id) == (Stage.SUSPENDED, "")


def test_a_borrowed_cluster_is_never_deleted() -> None:
    spec = {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": "demo-abcde"}}
    for stage in ("Suspending", "Retrying"):
        snapshot = running(status={"jobDeploymentStatus": stage}, spec=spec)
        assert not any(isinstance(one, Delete) for one in planned(snapshot).actions)


def test_c64_a_deleted_job_is_stopped_once_and_let_go_whatever_comes_of_it() -> None:
    leaving = running(answer=DashboardReply("RUNNING"))
    meta = leaving.job.metadata
    deleted = ObjectMeta(
        name=meta.name,
        namespace=meta.namespace,
        uid=meta.uid,
        finalizers=meta.finalizers,
        deletion_timestamp=format_time(NOW),
    )
    job = type(leaving.job)(metadata=deleted, spec=leaving.job.spec, status=leaving.job.status)
    snapshot = running(answer=DashboardReply("RUNNING"))
    snapshot = JobSnapshot(
        job, snapshot.settings, NOW, 7, cluster=snapshot.cluster, head_pod=a_head()
    )
    stop, release = planned(snapshot).actions
    assert isinstance(stop, Call)
    assert not stop.must_succeed
    assert isinstance(release, Patch)
    assert release.patch == {"metadata": {"finalizers": []}}


@pytest.mark.parametrize("status", [{"jobStatus": "SUCCEEDED"}, {"jobId": ""}])
def test_a_deleted_job_that_ray_does_not_run_is_not_stopped(status: dict[str, str]) -> None:
    leaving = running(status=status)
    meta = msgspec.structs.replace(leaving.job.metadata, deletion_timestamp=format_time(NOW))
    job = msgspec.structs.replace(leaving.job, metadata=meta)
    assert [type(one) for one in planned(replace(leaving, job=job)).actions] == [Patch]


def test_an_invalid_spec_is_reported_and_an_edit_recovers() -> None:
    wrong = a_snapshot(violations=(Violation("spec.entrypoint", "", "name the command"),))
    status = status_after(wrong, UNTRIED)
    assert status.job_deployment_status == Stage.VALIDATION_FAILED
    assert "spec.entrypoint" in status.message
    corrected = a_snapshot(
        {"jobDeploymentStatus": "ValidationFailed", "reason": "ValidationFailed"}
    )
    status = status_after(corrected, UNTRIED)
    assert (status.job_deployment_status, status.reason) == (Stage.NEW, "")


def test_equal_snapshots_give_equal_steps() -> None:
    first, second = (running(answer=DashboardReply("RUNNING")) for _ in range(2))
    one, other = plan(first), plan(second)
    assert (one.plan, one.blocked_by, one.wakeup) == (other.plan, other.blocked_by, other.wakeup)
    assert status_after(first) == status_after(second)


def test_a_job_that_waits_for_its_user_can_be_suspended_and_has_a_deadline() -> None:
    spec = {"submissionMode": "InteractiveMode", "shutdownAfterJobFinishes": True}
    status = {"jobDeploymentStatus": "Waiting", "jobId": ""}
    suspended = running(status=status, spec={**spec, "suspend": True})
    assert stage_after(suspended) == Stage.SUSPENDING
    late = running(status=status, spec={**spec, "activeDeadlineSeconds": 5})
    after = status_after(late, UNTRIED)
    assert (after.job_deployment_status, after.reason) == (Stage.FAILED, "DeadlineExceeded")


# ── beside the head ──────────────────────────────────────────────────────────────────────


def with_sidecar(cluster: RayCluster) -> RayCluster:
    made = {"spec": {"containers": [{"name": "ray-head"}, {"name": "ray-job-submitter"}]}}
    head = msgspec.structs.replace(cluster.spec.head_group_spec, template=made)
    spec = msgspec.structs.replace(cluster.spec, head_group_spec=head)
    return msgspec.structs.replace(cluster, spec=spec)


def beside(uid: str, *, ready: bool, noted: str = "", sidecar: Any = None) -> JobSnapshot:
    """SidecarMode while the cluster is not ready: the submitter runs, Ray may not be up yet."""
    state = sidecar or {"running": {}}
    statuses = [
        {"name": "ray-head", "ready": ready, "state": {"running": {}}},
        {"name": "ray-job-submitter", "ready": True, "state": state},
    ]
    document = {
        "metadata": {"name": "demo-abcde-head", "namespace": "default", "uid": uid},
        "spec": {"containers": [{"name": one["name"]} for one in statuses]},
        "status": {"containerStatuses": statuses},
    }
    snapshot = running(
        status={"jobDeploymentStatus": "Initializing"},
        spec={"submissionMode": "SidecarMode"},
        cluster=with_sidecar(a_cluster(state="")),
        head_pod=msgspec.convert(document, Pod),
    )
    annotations = {SUBMITTED_TO: f"demo-12345@demo-abcde@{noted}/0"} if noted else {}
    meta = msgspec.structs.replace(snapshot.job.metadata, annotations=annotations)
    return replace(snapshot, job=msgspec.structs.replace(snapshot.job, metadata=meta))


def test_the_head_of_a_sidecar_is_recorded_once_the_sidecar_has_started() -> None:
    [note] = [
        one for one in planned(beside("h1", ready=False)).actions if one.cause is Cause.NOTE_HEAD
    ]
    assert isinstance(note, Patch)
    assert stage_after(beside("h1", ready=False)) == Stage.INITIALIZING


@pytest.mark.parametrize(
    ("state", "started"),
    [({"waiting": {}}, False), ({"running": {}}, True), ({"terminated": {"exitCode": 0}}, True)],
    ids=["waits", "runs", "has ended"],
)
def test_ray_may_have_the_job_from_the_moment_that_its_sidecar_started(
    state: dict[str, object], *, started: bool
) -> None:
    snapshot = beside("h1", ready=False, sidecar=state)
    causes = [one.cause for one in planned(snapshot).actions]
    assert (Cause.NOTE_HEAD in causes) is started


def test_c60_a_sidecar_is_listened_to_when_ray_is_up_and_not_before() -> None:
    """Before that an unreachable dashboard is normal."""
    assert stage_after(beside("h1", ready=False, noted="h1")) == Stage.INITIALIZING
    assert stage_after(beside("h1", ready=True, noted="h1")) == Stage.RUNNING


def test_c56_a_sidecars_head_that_is_replaced_before_the_cluster_was_ready_is_lost() -> None:
    snapshot = beside("h2", ready=False, noted="h1")
    assert stage_after(snapshot) == Stage.FAILED
    [patch] = [one for one in planned(snapshot).actions if one.cause is Cause.SIDECAR_LOST]
    assert isinstance(patch, Patch)
    assert patch.patch == {"spec": {"suspend": True}}


@pytest.mark.parametrize("mode", ["InteractiveMode", "HTTPMode", "K8sJobMode"])
def test_a_submitter_beside_the_head_stays_one_when_the_mode_is_edited(mode: str) -> None:
    """The next head would submit the job again."""
    snapshot = beside("h2", ready=False, noted="h1")
    edited = msgspec.structs.replace(snapshot.job.spec, submission_mode=mode)
    snapshot = replace(snapshot, job=msgspec.structs.replace(snapshot.job, spec=edited))
    assert stage_after(snapshot) == Stage.FAILED
    assert Cause.SIDECAR_LOST in [one.cause for one in planned(snapshot).actions]


def test_an_attempt_that_began_without_a_submitter_beside_its_head_gets_none() -> None:
    """An edit to SidecarMode counts for the next attempt: this one would wait for ever for a submitter."""
    edited = running(spec={"submissionMode": "SidecarMode"}, answer=JobNotFound())
    assert edited.mode is SubmissionMode.HTTP
    assert Cause.NOTE_HEAD in [one.cause for one in planned(edited).actions]
    assert replace(edited, submitter=a_submitter()).mode is SubmissionMode.K8S_JOB
    assert replace(edited, cluster=None).mode is SubmissionMode.SIDECAR


def test_c56_a_sidecars_head_that_was_there_and_is_gone_is_lost_whatever_was_stored() -> None:
    """No second head is created in this mode."""
    snapshot = beside("h1", ready=False)
    assert snapshot.cluster is not None
    spec = msgspec.structs.replace(
        snapshot.cluster.spec,
        gcs_fault_tolerance_options=GcsFaultToleranceOptions(redis_address="redis:6379"),
    )
    status = RayClusterStatus(head=HeadInfo(pod_name="demo-abcde-head"))
    cluster = msgspec.structs.replace(snapshot.cluster, spec=spec, status=status)
    assert stage_after(replace(snapshot, cluster=cluster, head_pod=None)) == Stage.FAILED


@pytest.mark.parametrize(("reported", "stays"), [("STOPPED", True), ("RUNNING", False)])
def test_c63_a_stopped_job_is_reported_and_a_running_one_is_waited_for(
    reported: str, *, stays: bool
) -> None:
    status = {
        "jobDeploymentStatus": "Failed",
        "reason": "DeadlineExceeded",
        "jobStatus": "RUNNING",
        "endTime": format_time(NOW),
    }
    snapshot = running(status=status, answer=DashboardReply(reported))
    assert (planned(snapshot).wait is None) is stays
    assert status_after(snapshot).job_status == reported


@pytest.mark.parametrize(("seconds", "stops"), [(9, 0), (10, 1), (299, 1), (300, 0)])
def test_c63_a_job_that_still_runs_after_its_deadline_is_stopped_again_for_a_while(
    seconds: int, stops: int
) -> None:
    status = {
        "jobDeploymentStatus": "Failed",
        "reason": "DeadlineExceeded",
        "jobStatus": "RUNNING",
        "endTime": format_time(NOW - timedelta(seconds=seconds)),
    }
    snapshot = running(status=status, answer=DashboardReply("RUNNING"))
    assert [one.cause for one in planned(snapshot).actions] == [Cause.STOP_JOB] * stops
