"""One word and one line for each object (U8)."""

from __future__ import annotations

from typing import Any

import pytest

from manta.cli.output.status import node_row
from manta.client.object_state import MAX_LENGTH, one_line, state_of

TRACEBACK = (
    "Job entrypoint command failed with exit code 1, last available logs:\n"
    "Traceback (most recent call last):\n"
    + '  File "x.py", line 1\n' * 40
    + "ValueError: no such column\n"
)


JOB = {"entrypoint": "x", "rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "a", "image": "b"}]}}}}}  # fmt: skip
INVALID = {"type": "Ready", "status": "False", "reason": "ValidationFailed", "message": "no YAML"}


def document(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, "spec": spec, "status": status or {}}


@pytest.mark.parametrize(
    ("kind", "given", "word"),
    [
        ("RayCluster", document({"state": "suspended"}, suspend=True), "suspended"),
        ("RayCluster", document({"state": "ready"}, suspend=True), "suspending"),
        ("RayCluster", document({"state": "ready"}), "ready"),
        ("RayCluster", document(), "not ready"),
        ("RayJob", document({"jobDeploymentStatus": "Complete"}), "finished"),
        ("RayJob", document({"jobDeploymentStatus": "Failed", "message": "x"}), "failed"),
        ("RayJob", document({"jobDeploymentStatus": "Suspended"}), "suspended"),
        ("RayJob", document({"jobDeploymentStatus": "Running"}), "running"),
        ("RayJob", document({"jobDeploymentStatus": "ValidationFailed"}), "invalid"),
        ("RayJob", document(), "new"),
        ("RayCronJob", document(suspend=True), "suspended"),
        ("RayCronJob", document(), "scheduled"),
        ("RayCronJob", document(schedule="0 2 * * *", jobTemplate=JOB), "scheduled"),
        ("RayCronJob", document(schedule="61 * * * *", jobTemplate=JOB), "invalid"),
        (
            "RayCronJob",
            document(schedule="0 2 * * *", timeZone="Mars/X", jobTemplate=JOB),
            "invalid",
        ),
        ("RayCronJob", document(schedule="0 2 * * *", jobTemplate={"entrypoint": "x"}), "invalid"),
        ("RayCronJob", document(schedule="0 2 * * *", jobTemplate={"entrypoint": 5}), "invalid"),
        ("RayCronJob", document(schedule="61 * * * *", suspend=True, jobTemplate=JOB), "suspended"),
        ("CronJob", document(schedule="0 2 * * *", jobTemplate={"spec": {}}), "scheduled"),
        ("RayService", document({"conditions": [INVALID]}), "failed"),
        (
            "RayService",
            document({"conditions": [INVALID | {"reason": "Initializing"}]}),
            "not ready",
        ),
        ("Pod", document({"phase": "Succeeded"}), "completed"),
        ("Pod", document({"phase": "Failed"}), "failed"),
        ("Pod", document({"phase": "Pending"}), "not ready"),
    ],
)
def test_the_word_is_true(kind: str, given: dict[str, Any], word: str) -> None:
    assert state_of(kind, given).word == word


def test_a_cluster_that_sleeps_says_since_when_and_how_to_resume_it() -> None:
    said = "idle since 2026-01-01T00:00:00Z, suspended after 30m; resume: manta resume x"
    idle = {"type": "Idle", "status": "True", "reason": "IdleSuspended", "message": said}
    asleep = document({"state": "suspended", "conditions": [idle]}, suspend=True)
    assert state_of("RayCluster", asleep).why == said
    assert state_of("RayCluster", document({"state": "suspended"}, suspend=True)).why == ""


def test_what_is_being_deleted_says_so() -> None:
    gone = document({"state": "ready"})
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert state_of("RayCluster", gone).word == "deleting"


def test_a_traceback_becomes_one_line_with_its_last_words() -> None:
    failed = document({"jobDeploymentStatus": "Failed", "message": TRACEBACK})
    state = state_of("RayJob", failed)
    assert "\n" not in state.why
    assert len(state.why) <= MAX_LENGTH
    assert state.why.startswith("Job entrypoint command failed")
    assert state.why.endswith("ValueError: no such column")
    assert state.trouble


def test_lines_that_are_sentences_stay_apart_in_one_line() -> None:
    message = (
        "Job entrypoint command failed\nFirst failed task: load: no shard\n\nRead on: manta logs"
    )
    assert one_line(message) == (
        "Job entrypoint command failed; First failed task: load: no shard; Read on: manta logs"
    )
    assert (
        one_line("a sentence that\nis wrapped.\nAnother") == "a sentence that is wrapped. Another"
    )
    assert one_line("") == ""


def test_a_first_line_that_is_cut_is_followed_by_one_ellipsis() -> None:
    words = one_line("a very long first line " * 20 + "\nValueError: no such column", 80)
    assert words == "a very long first line a very long firs … ValueError: no such column"


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("", "waiting for the first reconcile"),
        ("Initializing", "waiting until its cluster is ready"),
        ("Retrying", "waiting for the next attempt"),
    ],
)
def test_a_job_without_a_message_says_what_it_waits_for(stage: str, words: str) -> None:
    assert state_of("RayJob", document({"jobDeploymentStatus": stage})).why == words


@pytest.mark.parametrize("stage", ["Suspending", "Retrying"])
def test_a_job_names_the_cluster_that_does_not_go_away(stage: str) -> None:
    said = "RayCluster demo-a is being deleted but does not go away"
    ready = {"type": "Ready", "status": "False", "reason": stage, "message": said}
    status = {"jobDeploymentStatus": stage, "message": "boom", "conditions": [ready]}
    assert state_of("RayJob", document(status)).why == said


def test_a_long_line_is_cut_and_shows_it() -> None:
    assert one_line("a" * 500) == "a" * (MAX_LENGTH - 1) + "…"
    assert one_line("") == ""


def test_only_what_somebody_should_look_at_is_trouble() -> None:
    assert not state_of("RayCluster", document({"state": "suspended"}, suspend=True)).trouble
    assert not state_of("RayJob", document({"jobDeploymentStatus": "Running"})).trouble
    assert state_of("Pod", document({"phase": "Failed"})).trouble


def test_the_memory_of_a_node_is_in_human_units() -> None:
    node = {
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": "8", "memory": "24684100Ki"}},
    }
    assert node_row(node, []).memory == "23.5 GiB"


def test_a_schedule_that_never_runs_says_why() -> None:
    state = state_of("RayCronJob", document(schedule="61 * * * *", jobTemplate=JOB))
    assert "spec.schedule" in state.why
    assert "use numbers from 0 to 59" in state.why


def test_an_invalid_service_may_be_valid_again_after_an_edit() -> None:
    edited = document({"conditions": [INVALID], "observedGeneration": 1})
    edited["metadata"]["generation"] = 2
    assert state_of("RayService", edited).word == "not ready"
