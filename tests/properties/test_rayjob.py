"""The RayJob controller on any snapshot: it always plans, deterministically and within bounds.

A name (of the cluster, of the submission) is in the status one reconcile before an object has it.
tests/cluster/test_rayjob_crashes.py tests crashes between the two.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from manta.api.ray.job import JobDeploymentStatus as Stage
from manta.api.ray.job import SubmissionMode
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import JOBS
from manta.api.times import format_time
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.snapshot import (
    DashboardReply,
    DashboardUnreachable,
    JobNotFound,
    JobSnapshot,
    NotQueried,
    SessionReply,
)
from manta.reconcile.actions import Create, Delete
from manta.reconcile.outcome import UNTRIED, Failure, Outcome, Result
from support.raycluster import ray_cluster
from support.rayjob import NOW, a_cluster, a_head, a_snapshot, a_submitter, planned, status_after

CLUSTER, ID = "demo-abcde", "demo-12345"
ENDED = (Stage.COMPLETE, Stage.FAILED)

ages = st.none() | st.integers(0, 4000).map(lambda age: format_time(NOW - timedelta(seconds=age)))
statuses = st.fixed_dictionaries(
    {
        # Most examples start in the stages with the most decisions.
        "jobDeploymentStatus": st.sampled_from(
            [*Stage, *[Stage.INITIALIZING] * 4, *[Stage.RUNNING] * 4]
        ).map(str),
        "jobId": st.sampled_from(["", ID]),
        "rayClusterName": st.sampled_from(["", CLUSTER]),
        "jobStatus": st.sampled_from(["", "PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED"]),
        "startTime": ages,
        "endTime": ages,
        "failed": st.integers(0, 3),
        "succeeded": st.integers(0, 1),
    }
)
specs = st.fixed_dictionaries(
    {"submissionMode": st.sampled_from(list(SubmissionMode)).map(str)},
    optional={
        "suspend": st.booleans(),
        "shutdownAfterJobFinishes": st.booleans(),
        "ttlSecondsAfterFinished": st.integers(0, 60),
        "backoffLimit": st.integers(0, 2),
        "activeDeadlineSeconds": st.integers(1, 100),
        "preRunningDeadlineSeconds": st.integers(1, 100),
        "jobId": st.just(ID),
    },
)
answers = st.sampled_from(
    [
        NotQueried(),
        JobNotFound(),
        DashboardUnreachable("it hangs"),
        SessionReply("session_1"),
        SessionReply(""),
        *(DashboardReply(one) for one in ("PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED")),
    ]
)
facts = st.fixed_dictionaries(
    {
        "cluster": st.sampled_from([None, None, a_cluster("ready"), a_cluster("")]),
        "head_pod": st.none() | st.sampled_from(["head-1", "head-2"]).map(a_head),
        "submitter": st.none() | st.sampled_from(["", "Complete", "Failed"]).map(a_submitter),
        "answer": answers,
        "seed": st.integers(0, 3),
    }
)
kinds_of_cluster = st.sampled_from(["own", "borrowed"])


@st.composite
def snapshots(draw: st.DrawFn) -> JobSnapshot:
    spec: dict[str, Any] = draw(specs)
    own: dict[str, Any] | None = ray_cluster()["spec"]
    if draw(kinds_of_cluster) == "borrowed":
        own = None
        spec |= {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": CLUSTER}}
    status = {key: value for key, value in draw(statuses).items() if value is not None}
    looked = a_snapshot(status, spec=spec, cluster_spec=own, **draw(facts))
    if draw(st.booleans()):
        return looked
    meta = msgspec.structs.replace(looked.job.metadata, deletion_timestamp=format_time(NOW))
    job = msgspec.structs.replace(looked.job, metadata=meta)
    return JobSnapshot(**{**looked.__dict__, "job": job})


@given(snapshots())
def test_two_plans_from_one_snapshot_agree(looked: JobSnapshot) -> None:
    assert planned(looked) == planned(looked)
    assert status_after(looked, UNTRIED) == status_after(looked, UNTRIED)


@given(snapshots(), st.booleans())
def test_every_outcome_has_a_status(looked: JobSnapshot, fails: bool) -> None:
    actions = planned(looked).actions
    failures = tuple(Failure(one, RuntimeError("injected")) for one in actions) if fails else ()
    done = () if fails else tuple(Result(one, one.key) for one in actions)
    Stage(status_after(looked, Outcome(done, failures)).job_deployment_status)


@given(snapshots())
def test_nothing_is_created_or_deleted_out_of_bounds(looked: JobSnapshot) -> None:
    actions = planned(looked).actions
    deletes = [one for one in actions if isinstance(one, Delete)]
    assert all(one.uid for one in deletes)
    assert len({(one.resource, one.key) for one in deletes}) == len(deletes)
    clusters = [one for one in actions if _creates(one, "RayCluster")]
    submissions = [one for one in actions if _submits(one)]
    assert len(clusters) <= 1
    assert len(submissions) <= 1
    if looked.borrows_cluster:
        assert clusters == []
        assert RAY_CLUSTERS not in {one.resource for one in deletes}
    if looked.stage in ENDED or looked.job.metadata.deletion_timestamp is not None:
        assert clusters == submissions == []


@given(snapshots())
def test_a_name_is_in_the_status_before_an_object_has_it(looked: JobSnapshot) -> None:
    for one in planned(looked).actions:
        if _creates(one, "RayCluster"):
            assert one.key.name == looked.status.ray_cluster_name
        if _submits(one):
            assert looked.status.job_id
            assert status_after(looked, UNTRIED).job_id == looked.status.job_id


def _creates(action: object, kind: str) -> bool:
    return isinstance(action, Create) and action.resource.kind == kind


def _submits(action: Any) -> bool:
    is_job = isinstance(action, Create) and action.resource == JOBS
    return is_job or action.cause == Cause.SUBMIT_BY_HTTP
