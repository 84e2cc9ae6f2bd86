"""Events about a RayJob that no action emits: each once."""

from __future__ import annotations

from typing import Any

from manta.api.conditions import find
from manta.api.ray.job import JobConditionType, RayJob
from manta.controllers.rayjob.snapshot import DashboardReply, JobSnapshot
from manta.controllers.rayjob.status_events import status_events
from manta.reconcile.outcome import UNTRIED
from manta.rules.validation.violation import Violation
from support.rayjob import a_snapshot, running, status_after


def reply(snapshot: JobSnapshot) -> list[tuple[str, str]]:
    new = status_after(snapshot, UNTRIED)
    return [(one.type, one.reason) for one in status_events(snapshot, new)]


def again(snapshot: JobSnapshot) -> JobSnapshot:
    """The same objects one reconcile later: the status is what the first one wrote."""
    new = status_after(snapshot, UNTRIED)
    job = RayJob(metadata=snapshot.job.metadata, spec=snapshot.spec, status=new)
    facts: dict[str, Any] = {
        "cluster": snapshot.cluster,
        "head_pod": snapshot.head_pod,
        "answer": snapshot.answer,
        "violations": snapshot.violations,
    }
    return JobSnapshot(job, snapshot.settings, snapshot.now, 7, **facts)


def test_an_invalid_job_emits_one_event_that_names_the_fault() -> None:
    for field, reason in (
        ("spec.entrypoint", "InvalidRayJobSpec"),
        ("metadata.name", "InvalidRayJobMetadata"),
        ("status.jobDeploymentStatus", "InvalidRayJobStatus"),
    ):
        snapshot = a_snapshot(violations=(Violation(field, "", "cure"),))
        assert reply(snapshot) == [("Warning", reason)]
        assert reply(again(snapshot)) == []


def test_event_and_condition_name_field_value_and_cure() -> None:
    wrong = (Violation("spec.a", -1, "must be zero or more"), Violation("spec.b", "x", "remove it"))
    snapshot = a_snapshot(violations=wrong)
    new = status_after(snapshot, UNTRIED)
    [event] = status_events(snapshot, new)
    ready = find(new.conditions, JobConditionType.READY)
    assert ready is not None
    said = 'spec.a: -1: must be zero or more; spec.b: "x": remove it'
    assert {event.note, ready.message, new.message} == {said}


def test_a_selector_without_cluster_emits_one_event() -> None:
    spec = {"rayClusterSpec": None, "clusterSelector": {"ray.io/cluster": "nowhere"}}
    status = {"jobDeploymentStatus": "Initializing", "rayClusterName": "nowhere", "jobId": "j"}
    snapshot = a_snapshot(status, spec=spec)
    assert reply(snapshot) == [("Warning", "RayClusterNotFound")]
    assert reply(again(snapshot)) == []


def test_the_end_emits_an_event() -> None:
    assert reply(running(answer=DashboardReply("SUCCEEDED"))) == [("Normal", "RayJobComplete")]
    assert reply(running(answer=DashboardReply("FAILED", "boom"))) == [("Warning", "RayJobFailed")]


def test_an_end_without_deletion_rule_emits_an_event() -> None:
    rule = {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 60}}
    spec = {"deletionStrategy": {"deletionRules": [rule]}}
    assert reply(running(answer=DashboardReply("SUCCEEDED"), spec=spec)) == [
        ("Normal", "RayJobComplete")
    ]
    failed = reply(running(answer=DashboardReply("FAILED"), spec=spec))
    assert ("Warning", "NoDeletionRuleMatches") in failed
    stopped = reply(running(answer=DashboardReply("STOPPED"), spec=spec))
    assert ("Warning", "NoDeletionRuleMatches") in stopped
