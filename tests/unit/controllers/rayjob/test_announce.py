"""What a RayJob tells in Events although nothing was done: each once."""

from __future__ import annotations

from typing import Any

from manta.api.conditions import find
from manta.api.ray.job import JobConditionType, RayJob
from manta.controllers.rayjob.announce import announcements
from manta.controllers.rayjob.snapshot import JobSnapshot, Told
from manta.controllers.rayjob.status import next_status
from manta.reconcile.outcome import UNTRIED
from manta.rules.validation.violation import Violation
from support.rayjob import running, seen


def told(snapshot: JobSnapshot) -> list[tuple[str, str]]:
    new = next_status(snapshot, UNTRIED)
    return [(one.type, one.reason) for one in announcements(snapshot, new)]


def again(snapshot: JobSnapshot) -> JobSnapshot:
    """The same world one round later: the status is what the first round wrote."""
    new = next_status(snapshot, UNTRIED)
    job = RayJob(metadata=snapshot.job.metadata, spec=snapshot.spec, status=new)
    facts: dict[str, Any] = {
        "cluster": snapshot.cluster,
        "head_pod": snapshot.head_pod,
        "answer": snapshot.answer,
        "violations": snapshot.violations,
    }
    return JobSnapshot(job, snapshot.settings, snapshot.now, 7, **facts)


def test_an_invalid_job_is_told_once_by_what_is_wrong() -> None:
    for field, reason in (
        ("spec.entrypoint", "InvalidRayJobSpec"),
        ("metadata.name", "InvalidRayJobMetadata"),
        ("status.jobDeploymentStatus", "InvalidRayJobStatus"),
    ):
        snapshot = seen(violations=(Violation(field, "", "cure"),))
        assert told(snapshot) == [("Warning", reason)]
        assert told(again(snapshot)) == []


def test_field_value_and_cure_are_told_by_event_and_condition() -> None:
    wrong = (Violation("spec.a", -1, "must be zero or more"), Violation("spec.b", "x", "remove it"))
    snapshot = seen(violations=wrong)
    new = next_status(snapshot, UNTRIED)
    [event] = announcements(snapshot, new)
    ready = find(new.conditions, JobConditionType.READY)
    assert ready is not None
    said = 'spec.a: -1: must be zero or more; spec.b: "x": remove it'
    assert {event.note, ready.message, new.message} == {said}


def test_a_selector_that_names_nothing_is_told_once() -> None:
    spec = {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": "nowhere"}}
    status = {"jobDeploymentStatus": "Initializing", "rayClusterName": "nowhere", "jobId": "j"}
    snapshot = seen(status, spec=spec)
    assert told(snapshot) == [("Warning", "RayClusterNotFound")]
    assert told(again(snapshot)) == []


def test_the_end_is_told() -> None:
    assert told(running(answer=Told("SUCCEEDED"))) == [("Normal", "RayJobComplete")]
    assert told(running(answer=Told("FAILED", "boom"))) == [("Warning", "RayJobFailed")]


def test_an_end_that_no_deletion_rule_names_is_told() -> None:
    rule = {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 60}}
    spec = {"deletionStrategy": {"deletionRules": [rule]}}
    assert told(running(answer=Told("SUCCEEDED"), spec=spec)) == [("Normal", "RayJobComplete")]
    failed = told(running(answer=Told("FAILED"), spec=spec))
    assert ("Warning", "NoDeletionRuleMatches") in failed
    stopped = told(running(answer=Told("STOPPED"), spec=spec))
    assert ("Warning", "NoDeletionRuleMatches") in stopped
