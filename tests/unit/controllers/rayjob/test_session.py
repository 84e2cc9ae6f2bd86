"""A submitter is made for one Ray session: when it is asked for, and what follows if it met another."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec

from manta.api.core import ContainerState, ContainerStatus, Pod, PodStatus, Terminated
from manta.api.meta import ObjectMeta, OwnerReference, Uid
from manta.api.ray import names
from manta.api.ray.cluster import GcsFaultToleranceOptions
from manta.api.ray.job import JobDeploymentStatus as Stage
from manta.api.resources import JOBS
from manta.api.times import format_time
from manta.controllers.rayjob.inquire import question
from manta.controllers.rayjob.plan import plan, plan_head_service
from manta.controllers.rayjob.snapshot import AtSession, JobSnapshot, Silent, Told, Unknown
from manta.controllers.rayjob.status import next_status
from manta.manifests.session_guard import OTHER_SESSION_EXIT_CODE
from manta.reconcile.actions import Create, Delete
from manta.reconcile.outcome import UNTRIED
from support.rayjob import NOW, a_cluster, a_submitter, running


def stage_after(snapshot: JobSnapshot) -> str:
    return next_status(snapshot, UNTRIED).job_deployment_status


def about_to_submit(**facts: Any) -> JobSnapshot:
    status = {"jobDeploymentStatus": "Initializing", **facts.pop("status", {})}
    return running(status=status, **facts)


def submitters(snapshot: JobSnapshot) -> list[Create]:
    creates = [one for one in plan(snapshot).actions if isinstance(one, Create)]
    return [one for one in creates if one.resource is JOBS]


def session_of(submitter: Create) -> str | None:
    [container] = submitter.manifest["spec"]["template"]["spec"]["containers"]
    env = {one["name"]: one.get("value") for one in container["env"]}
    told: str | None = env.get(names.ENV_SESSION)
    assert (told is not None) == ("/api/version" in container["args"][0])
    return told


def test_a_submitter_knows_the_session_that_it_may_submit_to() -> None:
    [job] = submitters(about_to_submit(answer=AtSession("session_1")))
    assert session_of(job) == "session_1"


def test_no_submitter_is_made_before_the_head_has_told_its_session() -> None:
    assert submitters(about_to_submit()) == []
    assert stage_after(about_to_submit()) == Stage.INITIALIZING
    asked = question(about_to_submit())
    assert asked is not None
    assert asked.about_session
    assert question(about_to_submit(cluster=a_cluster(state=""))) is None


def test_a_ray_that_is_too_old_to_tell_its_session_gets_a_submitter_all_the_same() -> None:
    [job] = submitters(about_to_submit(answer=AtSession("")))
    assert session_of(job) is None


def test_where_the_record_of_a_job_outlives_the_head_no_session_is_asked_for() -> None:
    kept = GcsFaultToleranceOptions(redis_address="redis:6379")
    spec = msgspec.structs.replace(a_cluster().spec, gcs_fault_tolerance_options=kept)
    durable = about_to_submit(cluster=msgspec.structs.replace(a_cluster(), spec=spec))
    assert question(durable) is None
    [job] = submitters(durable)
    assert session_of(job) is None


def test_a_submitter_that_is_there_is_taken_as_it_is() -> None:
    """KubeRay made it: it knows no session, and is neither replaced nor asked for one."""
    there = about_to_submit(submitter=a_submitter())
    assert question(there) is None
    assert plan(there).actions == plan_head_service(there).actions
    assert stage_after(there) == Stage.RUNNING


def test_a_dashboard_that_does_not_tell_its_session_fails_the_job_at_last() -> None:
    status = next_status(about_to_submit(answer=Silent("no answer")), UNTRIED)
    assert status.job_deployment_status == Stage.INITIALIZING
    assert status.message == "the dashboard does not answer: no answer"
    since = format_time(NOW - timedelta(seconds=300))
    waited = {"jobStatusCheckFailureStartTime": since}
    late = next_status(about_to_submit(status=waited, answer=Silent("no answer")), UNTRIED)
    assert late.job_deployment_status == Stage.FAILED
    assert late.reason == "JobStatusCheckTimeoutExceeded"
    told = next_status(about_to_submit(status=waited, answer=AtSession("s")), UNTRIED)
    assert told.job_status_check_failure_start_time is None


def a_submitter_pod(exit_code: int, owner: str = "sub") -> Pod:
    ended = ContainerState(terminated=Terminated(exit_code=exit_code))
    owners = (OwnerReference(kind="Job", name="demo", uid=Uid(owner), controller=True),)
    return Pod(
        metadata=ObjectMeta(name=f"demo-{exit_code}", owner_references=owners),
        status=PodStatus(container_statuses=(ContainerStatus(state=ended),)),
    )


def test_a_submitter_that_met_another_ray_is_withdrawn_and_the_job_has_failed() -> None:
    """The same Pod, the same container, and yet another Ray in it: only the submitter could tell."""
    refused = a_submitter_pod(OTHER_SESSION_EXIT_CODE)
    met = running(submitter=a_submitter(), submitter_pods=(refused,), answer=Unknown())
    status = next_status(met, UNTRIED)
    assert (status.job_deployment_status, status.reason) == (Stage.FAILED, "AppFailed")
    assert "another Ray answers" in status.message
    [delete] = [one for one in plan(met).actions if isinstance(one, Delete)]
    assert delete.resource is JOBS
    for other in (
        a_submitter_pod(1),
        a_submitter_pod(OTHER_SESSION_EXIT_CODE, "of an attempt before"),
    ):
        assert stage_after(replace(met, submitter_pods=(other,))) == Stage.RUNNING
    assert stage_after(replace(met, answer=Told("RUNNING"))) == Stage.RUNNING
