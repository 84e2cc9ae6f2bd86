"""The RayJob controller, whatever it sees: it always answers, twice the same, and within bounds.

What a job must never do hangs on one rule: an identity (the cluster's name, the submission's id) is
in the status one round before anything bears it. Crashes between the two are played with a server
in tests/cluster/test_rayjob_crashes.py.
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
from manta.controllers.rayjob.events import EVENTS, Cause
from manta.controllers.rayjob.plan import plan
from manta.controllers.rayjob.snapshot import (
    AtSession,
    JobSnapshot,
    NotAsked,
    Silent,
    Told,
    Unknown,
)
from manta.controllers.rayjob.status import next_status
from manta.reconcile.actions import Create, Delete
from manta.reconcile.outcome import UNTRIED, Failure, Outcome, Result
from support.raycluster import ray_cluster
from support.rayjob import NOW, a_cluster, a_head, a_submitter, seen

CLUSTER, ID = "demo-abcde", "demo-12345"
ENDED = (Stage.COMPLETE, Stage.FAILED)

ages = st.none() | st.integers(0, 4000).map(lambda age: format_time(NOW - timedelta(seconds=age)))
statuses = st.fixed_dictionaries(
    {
        # Where most is decided, most is looked at.
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
        NotAsked(),
        Unknown(),
        Silent("it hangs"),
        AtSession("session_1"),
        AtSession(""),
        *(Told(one) for one in ("PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED")),
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
    looked = seen(status, spec=spec, cluster_spec=own, **draw(facts))
    if draw(st.booleans()):
        return looked
    meta = msgspec.structs.replace(looked.job.metadata, deletion_timestamp=format_time(NOW))
    job = msgspec.structs.replace(looked.job, metadata=meta)
    return JobSnapshot(**{**looked.__dict__, "job": job})


@given(snapshots())
def test_two_looks_at_one_world_agree(looked: JobSnapshot) -> None:
    assert plan(looked) == plan(looked)
    assert next_status(looked, UNTRIED) == next_status(looked, UNTRIED)


@given(snapshots(), st.booleans())
def test_every_outcome_can_be_told_in_a_status(looked: JobSnapshot, fails: bool) -> None:
    actions = plan(looked).actions
    failures = tuple(Failure(one, RuntimeError("injected")) for one in actions) if fails else ()
    done = () if fails else tuple(Result(one, one.key) for one in actions)
    Stage(next_status(looked, Outcome(done, failures)).job_deployment_status)


@given(snapshots())
def test_nothing_is_made_or_deleted_out_of_bounds(looked: JobSnapshot) -> None:
    actions = plan(looked).actions
    assert {one.cause for one in actions} <= set(EVENTS)
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
def test_an_identity_is_written_down_before_anything_bears_it(looked: JobSnapshot) -> None:
    for one in plan(looked).actions:
        if _creates(one, "RayCluster"):
            assert one.key.name == looked.status.ray_cluster_name
        if _submits(one):
            assert looked.status.job_id
            assert next_status(looked, UNTRIED).job_id == looked.status.job_id


def _creates(action: object, kind: str) -> bool:
    return isinstance(action, Create) and action.resource.kind == kind


def _submits(action: Any) -> bool:
    is_job = isinstance(action, Create) and action.resource == JOBS
    return is_job or action.cause == Cause.SUBMIT_BY_HTTP
