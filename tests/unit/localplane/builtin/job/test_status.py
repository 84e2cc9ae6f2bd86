"""What a Job says about itself."""

from __future__ import annotations

import msgspec

from manta.api.meta import Key
from manta.localplane.builtin.job.plan import plan
from manta.localplane.builtin.job.snapshot import JobSnapshot
from manta.localplane.builtin.job.status import next_status
from manta.localplane.builtin.views import Job, JobStatus, Pod
from manta.reconcile.outcome import Outcome, Result
from support.plane_objects import NOW, a_job, a_job_pod, ago


def after_a_round(job: Job, *pods: Pod) -> JobStatus:
    """The status when everything that was planned succeeded."""
    snapshot = JobSnapshot(Key("default", "j"), job, pods, (), NOW)
    done = tuple(Result(action, action.key) for action in plan(snapshot).actions)
    return next_status(snapshot, job, Outcome(done))


def said(status: JobStatus) -> list[tuple[str, str, str]]:
    return [(one.type, one.status, one.reason) for one in status.conditions or ()]


def test_the_first_round_looks_like_the_recorded_one() -> None:
    status = after_a_round(a_job())
    assert msgspec.to_builtins(status) == {
        "startTime": ago(0),
        "active": 1,
        "terminating": 0,
        "ready": 0,
        "uncountedTerminatedPods": {},
    }


def test_a_failure_is_listed_then_released_then_counted() -> None:
    failed = a_job_pod("a", "Failed")
    listed = after_a_round(a_job(), failed)
    assert listed.uncounted_terminated_pods
    assert listed.uncounted_terminated_pods.failed == ("uid-a",)
    assert listed.failed is None
    counted = after_a_round(a_job(status=msgspec.to_builtins(listed)), failed)
    assert counted.failed == 1
    assert msgspec.to_builtins(counted.uncounted_terminated_pods) == {}


def test_a_listed_pod_that_vanished_is_counted_all_the_same() -> None:
    job = a_job(status={"uncountedTerminatedPods": {"failed": ["uid-gone"]}})
    assert after_a_round(job).failed == 1


def test_completion_is_said_in_two_conditions_with_a_time() -> None:
    status = after_a_round(a_job(status={"succeeded": 1, "startTime": ago(9)}))
    assert said(status) == [
        ("SuccessCriteriaMet", "True", "CompletionsReached"),
        ("Complete", "True", "CompletionsReached"),
    ]
    assert status.completion_time == ago(0)


def test_too_many_failures_are_said_as_recorded() -> None:
    job = a_job(backoffLimit=1, status={"failed": 2, "startTime": ago(9)})
    status = after_a_round(job)
    assert said(status) == [
        ("FailureTarget", "True", "BackoffLimitExceeded"),
        ("Failed", "True", "BackoffLimitExceeded"),
    ]
    assert status.completion_time is None


def test_the_final_word_waits_for_the_last_pod() -> None:
    job = a_job(backoffLimit=0, status={"failed": 1, "startTime": ago(9)})
    status = after_a_round(job, a_job_pod("a"))
    assert said(status) == [("FailureTarget", "True", "BackoffLimitExceeded")]
    assert (status.active, status.terminating) == (None, 1)


def test_a_decision_once_made_stands() -> None:
    job = a_job(
        status={
            "succeeded": 1,
            "conditions": [
                {"type": "FailureTarget", "status": "True", "reason": "DeadlineExceeded"}
            ],
        }
    )
    assert said(after_a_round(job))[-1] == ("Failed", "True", "DeadlineExceeded")


def test_resuming_starts_the_clock_again() -> None:
    running = a_job(suspend=True, status={"startTime": ago(99)})
    suspended = after_a_round(running, a_job_pod("a"))
    assert said(suspended) == [("Suspended", "True", "JobSuspended")]
    assert suspended.start_time == ago(99)
    resumed = after_a_round(a_job(status=msgspec.to_builtins(suspended)))
    assert said(resumed) == [("Suspended", "False", "JobResumed")]
    assert resumed.start_time == ago(0)


def test_a_pod_taken_away_by_suspension_is_no_failure() -> None:
    leaving = a_job_pod("a", meta={"deletionTimestamp": ago(0)})
    status = after_a_round(a_job(suspend=True), leaving)
    assert (status.failed, msgspec.to_builtins(status.uncounted_terminated_pods)) == (None, {})


def test_a_finished_job_is_never_written_again() -> None:
    job = a_job(status={"conditions": [{"type": "Complete", "status": "True"}]})
    assert after_a_round(job, a_job_pod("a", "Failed")) == job.status
