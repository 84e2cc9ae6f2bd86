"""What the Job controller does with Pods."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from manta.api.meta import Key
from manta.localplane.builtin.job.plan import Cause, plan
from manta.localplane.builtin.job.snapshot import JobSnapshot
from manta.localplane.builtin.views import Job, Pod
from manta.reconcile.actions import Create, Delete, Patch
from manta.reconcile.plan import Plan
from support.plane_objects import NOW, a_job, a_job_pod, ago


def planned(job: Job | None, *pods: Pod, orphans: tuple[Pod, ...] = ()) -> Plan:
    return plan(JobSnapshot(Key("default", "j"), job, pods, orphans, NOW))


def causes(result: Plan) -> list[Any]:
    return [action.cause for action in result.actions]


def test_a_new_job_gets_its_pods_with_labels_owner_and_finalizer() -> None:
    [create] = planned(a_job()).actions
    assert isinstance(create, Create)
    assert create.manifest["metadata"] == {
        "generateName": "j-",
        "namespace": "default",
        "labels": {
            "a": "b",
            "batch.kubernetes.io/controller-uid": "uid-j",
            "batch.kubernetes.io/job-name": "j",
            "controller-uid": "uid-j",
            "job-name": "j",
        },
        "finalizers": ["batch.kubernetes.io/job-tracking"],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "j",
                "uid": "uid-j",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }


def test_parallelism_bounds_the_pods_and_completions_the_rest() -> None:
    job = a_job(parallelism=3, completions=4, status={"succeeded": 2, "startTime": ago(9)})
    assert causes(planned(job)) == [Cause.CREATE] * 2


def test_surplus_pods_go_unscheduled_ones_first() -> None:
    bound = a_job_pod("bound", node="n1")
    waiting = a_job_pod("waiting", phase="Pending")
    [delete] = planned(a_job(), bound, waiting).actions
    assert isinstance(delete, Delete)
    assert (delete.key.name, delete.uid, delete.cause) == (
        "waiting",
        "uid-waiting",
        Cause.SURPLUS,
    )


def test_a_failed_pod_is_replaced_only_after_the_backoff() -> None:
    job = a_job(status={"failed": 1, "startTime": ago(20)})
    early = planned(job, a_job_pod("a", "Failed", ended=4, tracked=False))
    assert early.actions == ()
    assert early.wait
    assert early.wait.retry_in == timedelta(seconds=6)
    late = planned(job, a_job_pod("a", "Failed", ended=10, tracked=False))
    assert causes(late) == [Cause.CREATE]


def test_the_backoff_doubles_with_each_failure_in_a_row() -> None:
    job = a_job(status={"failed": 3})
    pods = [a_job_pod(f"p{n}", "Failed", ended=n * 100 + 5, tracked=False) for n in range(3)]
    wait = planned(job, *pods).wait
    assert wait
    assert wait.retry_in == timedelta(seconds=35)


def test_a_success_in_between_ends_the_row_of_failures() -> None:
    job = a_job(parallelism=1, completions=5, status={"failed": 1, "succeeded": 1})
    pods = [
        a_job_pod("bad", "Failed", ended=9, tracked=False),
        a_job_pod("good", "Succeeded", ended=5, tracked=False),
    ]
    assert causes(planned(job, *pods)) == [Cause.CREATE]


def test_a_pod_keeps_its_finalizer_until_the_stored_status_knows_it() -> None:
    pod = a_job_pod("a", "Succeeded")
    assert causes(planned(a_job(completions=2, parallelism=1), pod)) == [Cause.CREATE]
    written = a_job(completions=2, status={"uncountedTerminatedPods": {"succeeded": ["uid-a"]}})
    patch = planned(written, pod).actions[0]
    assert isinstance(patch, Patch)
    assert patch.patch[-1] == {"op": "remove", "path": "/metadata/finalizers/0"}


@pytest.mark.parametrize(
    ("job", "cause"),
    [
        (a_job(backoffLimit=0, status={"failed": 1}), Cause.DECIDED),
        (a_job(activeDeadlineSeconds=5, status={"startTime": ago(5)}), Cause.DECIDED),
        (a_job(completions=1, status={"succeeded": 1}), Cause.DECIDED),
        (a_job(suspend=True), Cause.SUSPENDED),
    ],
    ids=["backoff limit", "deadline", "enough successes", "suspended"],
)
def test_active_pods_are_deleted_when_none_are_wanted(job: Job, cause: Cause) -> None:
    assert causes(planned(job, a_job_pod("a"))) == [cause]


def test_restarts_in_place_count_against_the_limit() -> None:
    template = {"spec": {"restartPolicy": "OnFailure"}}
    pod = a_job_pod("a", container={"restartCount": 2})
    assert causes(planned(a_job(backoffLimit=2, template=template), pod)) == [Cause.DECIDED]
    assert causes(planned(a_job(backoffLimit=3, template=template), pod)) == []


def test_a_running_job_looks_again_at_its_deadline() -> None:
    job = a_job(activeDeadlineSeconds=30, status={"startTime": ago(10)})
    wait = planned(job, a_job_pod("a")).wait
    assert wait
    assert wait.retry_in == timedelta(seconds=20)


def test_pods_of_a_job_that_is_gone_are_let_go() -> None:
    assert causes(planned(None, orphans=(a_job_pod("a"), a_job_pod("b", tracked=False)))) == [
        Cause.RELEASE
    ]


def finished(seconds_ago: float, **spec: Any) -> Job:
    stamp = ago(seconds_ago)
    condition = {"type": "Complete", "status": "True", "lastTransitionTime": stamp}
    return a_job(status={"conditions": [condition]}, **spec)


def test_a_finished_job_is_left_alone_without_a_time_to_live() -> None:
    assert planned(finished(1e6)) == Plan()


def test_a_finished_job_goes_when_its_time_to_live_is_over() -> None:
    waiting = planned(finished(10, ttlSecondsAfterFinished=60))
    assert waiting.wait
    assert waiting.wait.retry_in == timedelta(seconds=50)
    [delete] = planned(finished(60, ttlSecondsAfterFinished=60)).actions
    assert isinstance(delete, Delete)
    assert (delete.cause, delete.propagation) == (Cause.EXPIRED, "Foreground")


def test_a_deleted_pod_is_replaced_at_once_unless_the_job_wants_to_see_it_fail() -> None:
    leaving = a_job_pod("a", meta={"deletionTimestamp": ago(0)})
    assert causes(planned(a_job(), leaving)) == [Cause.CREATE]
    assert causes(planned(a_job(podReplacementPolicy="Failed"), leaving)) == []


def test_a_work_queue_starts_nothing_after_the_first_success() -> None:
    job = a_job(parallelism=3, completions=None, status={"succeeded": 1})
    assert causes(planned(job, a_job_pod("a"))) == []
