"""A submitter belongs to one Ray session: when it is queried, and what happens if it reached another."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from manta.api.core import ContainerState, ContainerStatus, Pod, PodStatus, Terminated
from manta.api.meta import ObjectMeta, OwnerReference, Uid
from manta.api.ray import names
from manta.api.ray.cluster import AuthOptions, GcsFaultToleranceOptions, RayCluster
from manta.api.ray.job import JobDeploymentStatus as Stage
from manta.api.resources import JOBS
from manta.api.times import format_time
from manta.controllers.rayjob.dashboard_query import due_query
from manta.controllers.rayjob.head_service import plan_head_service
from manta.controllers.rayjob.snapshot import (
    DashboardReply,
    DashboardUnreachable,
    JobNotFound,
    JobSnapshot,
    SessionReply,
)
from manta.manifests.head_pod import build_head_pod
from manta.manifests.session_guard import OTHER_SESSION_EXIT_CODE
from manta.reconcile.actions import Create, Delete
from manta.reconcile.outcome import UNTRIED
from manta.rules.settings import Settings
from support.rayjob import NOW, a_cluster, a_submitter, planned, running, status_after


def stage_after(snapshot: JobSnapshot) -> str:
    return status_after(snapshot, UNTRIED).job_deployment_status


def about_to_submit(**facts: Any) -> JobSnapshot:
    status = {"jobDeploymentStatus": "Initializing", **facts.pop("status", {})}
    return running(status=status, **facts)


def submitters(snapshot: JobSnapshot) -> list[Create]:
    creates = [one for one in planned(snapshot).actions if isinstance(one, Create)]
    return [one for one in creates if one.resource is JOBS]


def session_of(submitter: Create) -> str | None:
    [container] = submitter.manifest["spec"]["template"]["spec"]["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    reply: str | None = env.get(names.ENV_SESSION)
    assert (reply is not None) == ("/api/version" in container["args"][0])
    return reply


def test_a_submitter_knows_the_session_that_it_may_submit_to() -> None:
    [job] = submitters(about_to_submit(answer=SessionReply("session_1")))
    assert session_of(job) == "session_1"


def test_no_submitter_is_created_before_the_session_is_known() -> None:
    assert submitters(about_to_submit()) == []
    assert stage_after(about_to_submit()) == Stage.INITIALIZING
    query = due_query(about_to_submit())
    assert query is not None
    assert query.about_session
    assert due_query(about_to_submit(cluster=a_cluster(state=""))) is None


def test_an_old_ray_without_session_gets_a_submitter() -> None:
    [job] = submitters(about_to_submit(answer=SessionReply("")))
    assert session_of(job) is None


def test_with_gcs_fault_tolerance_a_submitter_knows_its_session_too() -> None:
    """A new cluster of the same name has other tables, which do not know the job."""
    kept = GcsFaultToleranceOptions(redis_address="redis:6379")
    spec = msgspec.structs.replace(a_cluster().spec, gcs_fault_tolerance_options=kept)
    durable = about_to_submit(cluster=msgspec.structs.replace(a_cluster(), spec=spec))
    query = due_query(durable)
    assert query is not None
    assert query.about_session
    [job] = submitters(replace(durable, answer=SessionReply("session_1")))
    assert session_of(job) == "session_1"


def test_an_existing_submitter_is_kept() -> None:
    """KubeRay created it: it has no session, is not replaced, and no session is queried."""
    there = about_to_submit(submitter=a_submitter())
    assert due_query(there) is None
    assert planned(there).actions == plan_head_service(there).actions
    assert stage_after(there) == Stage.RUNNING


def test_a_dashboard_that_reports_no_session_fails_the_job_in_the_end() -> None:
    status = status_after(about_to_submit(answer=DashboardUnreachable("no answer")), UNTRIED)
    assert status.job_deployment_status == Stage.INITIALIZING
    assert status.message == "the dashboard does not answer: no answer"
    since = format_time(NOW - timedelta(seconds=300))
    waited = {"jobStatusCheckFailureStartTime": since}
    late = status_after(
        about_to_submit(status=waited, answer=DashboardUnreachable("no answer")), UNTRIED
    )
    assert late.job_deployment_status == Stage.FAILED
    assert late.reason == "JobStatusCheckTimeoutExceeded"
    reply = status_after(about_to_submit(status=waited, answer=SessionReply("s")), UNTRIED)
    assert reply.job_status_check_failure_start_time is None


def a_submitter_pod(exit_code: int, owner: str = "sub") -> Pod:
    ended = ContainerState(terminated=Terminated(exit_code=exit_code))
    owners = (OwnerReference(kind="Job", name="demo", uid=Uid(owner), controller=True),)
    return Pod(
        metadata=ObjectMeta(name=f"demo-{exit_code}", owner_references=owners),
        status=PodStatus(container_statuses=(ContainerStatus(state=ended),)),
    )


def test_a_submitter_that_reached_another_session_is_deleted_and_the_job_fails() -> None:
    """Pod and container are the same, but Ray restarted in it: only the submitter notices."""
    refused = a_submitter_pod(OTHER_SESSION_EXIT_CODE)
    met = running(submitter=a_submitter(), submitter_pods=(refused,), answer=JobNotFound())
    status = status_after(met, UNTRIED)
    assert (status.job_deployment_status, status.reason) == (Stage.FAILED, "AppFailed")
    assert "reached another Ray head" in status.message
    [delete] = [one for one in planned(met).actions if isinstance(one, Delete)]
    assert delete.resource is JOBS
    for other in (
        a_submitter_pod(1),
        a_submitter_pod(OTHER_SESSION_EXIT_CODE, "of an attempt before"),
    ):
        assert stage_after(replace(met, submitter_pods=(other,))) == Stage.RUNNING
    assert stage_after(replace(met, answer=DashboardReply("RUNNING"))) == Stage.RUNNING


@pytest.mark.parametrize("head_knows", [True, False])
def test_who_submits_and_who_asks_have_the_token_that_the_running_head_knows(
    head_knows: bool,
) -> None:
    """The cluster was edited since its head started."""
    plain, locked = a_cluster(), with_token(a_cluster())
    started, edited = (locked, plain) if head_knows else (plain, locked)
    head = msgspec.convert(build_head_pod(started, Settings(), spec_hash=""), Pod)
    snapshot = about_to_submit(cluster=edited, head_pod=head, answer=SessionReply("session_1"))
    query = due_query(snapshot)
    assert query is not None
    assert query.secret == ("demo-abcde" if head_knows else "")
    [job] = submitters(snapshot)
    assert ("'RAY_AUTH_TOKEN'" in str(job.manifest)) is head_knows


def with_token(cluster: RayCluster) -> RayCluster:
    spec = msgspec.structs.replace(cluster.spec, auth_options=AuthOptions(mode="token"))
    return msgspec.structs.replace(cluster, spec=spec)
