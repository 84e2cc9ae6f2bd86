"""RayJobs on real Ray, at length: KubeRay's samples, our examples, suspending, deadlines, retries, a schedule.

Not collected by `make test`, which has the short ones; `make jobs` runs these (about ten minutes).
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.conftest import Machine, why_not
from e2e.objects import IMAGE, VERSION, cluster
from e2e.test_rayjob import ended, failed_with_its_log, job, with_host_directory
from manta.manifests.session_guard import OTHER_SESSION_EXIT_CODE
from support.peers import kuberay_samples

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("rayjob*.yaml"))
pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(900),
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


def documents(path: Path) -> list[dict[str, Any]]:
    """With the Ray that this machine has, and the small resources that it can give."""
    text = re.sub(r"rayproject/ray:[\w.-]+", IMAGE, path.read_text())
    text = re.sub(r"rayVersion: [\"']?[\d.]+[\"']?", f'rayVersion: "{VERSION}"', text)
    text = re.sub(r"cpu: [\"']?1[\"']?$", "cpu: 500m", text, flags=re.MULTILINE)
    return [one for one in yaml.safe_load_all(text) if one]


def status_of(machine: Machine, name: str) -> dict[str, Any]:
    found: dict[str, Any] = machine.get("rayjob", name).get("status", {})
    return found


def reaches(
    machine: Machine, name: str, check: Callable[[dict[str, Any]], object]
) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        status = status_of(machine, name)
        return status if check(status) else None

    found: dict[str, Any] = machine.until(f"RayJob {name}", look, 300)
    return found


def submit_as_user(machine: Machine, name: str, *entrypoint: str) -> None:
    status = reaches(machine, name, lambda one: one.get("jobDeploymentStatus") == "Waiting")
    labels = f"ray.io/cluster={status['rayClusterName']},ray.io/node-type=head"
    [head] = machine.list("pods", labels)
    chosen = entrypoint or ("echo", "by hand")
    command = ("ray", "job", "submit", "--no-wait", "--submission-id", "mine", "--", *chosen)
    machine.exec(head["metadata"]["name"], *command, container="ray-head")
    found = machine.get("rayjob", name)
    found["spec"]["jobId"] = "mine"
    clean = {key: found["metadata"][key] for key in ("name", "namespace")}
    machine.apply({**{k: found[k] for k in ("apiVersion", "kind", "spec")}, "metadata": clean})


@pytest.mark.parametrize("path", kuberay_samples("ray-job"), ids=lambda path: path.name)
def test_a_sample_of_kuberays_runs_to_its_end(machine: Machine, path: Path) -> None:
    run_to_its_end(machine, path)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_of_ours_runs_to_its_end(machine: Machine, path: Path) -> None:
    run_to_its_end(machine, path)


def run_to_its_end(machine: Machine, path: Path) -> None:
    every = documents(path)
    jobs = [one for one in every if one["kind"] == "RayJob"]
    for one in jobs:
        if selector := one["spec"].get("clusterSelector"):
            machine.apply(cluster(selector["ray.io/cluster"], workers=0))
    machine.apply(*every)
    for one in jobs:
        name = one["metadata"]["name"]
        if one["spec"].get("submissionMode") == "InteractiveMode":
            submit_as_user(machine, name)
        status = ended(machine, name)
        assert status["jobStatus"] == "SUCCEEDED", status
        machine.manta("delete", "rayjob", name)


def test_a_job_of_the_users_own_that_fails_is_reported_with_the_words_of_ray(
    machine: Machine,
) -> None:
    own = job("by-hand", "InteractiveMode", "")
    del own["spec"]["entrypoint"]
    machine.apply(own)
    submit_as_user(
        machine, "by-hand", "python", "-c", "print(6 * 7, flush=True); raise SystemExit(3)"
    )
    failed_with_its_log(machine, "by-hand")


def test_a_submitter_presents_the_token_that_its_cluster_wants(machine: Machine) -> None:
    trusted = job("trusted", "K8sJobMode", "python -c 'print(6 * 7)'")
    trusted["spec"]["rayClusterSpec"]["authOptions"] = {"mode": "token"}
    machine.apply(trusted)
    status = ended(machine, "trusted")
    assert status["jobStatus"] == "SUCCEEDED", f"{status}\n{machine.logs()}"
    assert "42" in machine.manta("logs", "job/trusted").stdout
    machine.manta("delete", "rayjob", "trusted")


def test_a_suspended_job_gives_all_back_and_a_resumed_one_runs_again(
    machine: Machine, tmp_path: Path
) -> None:
    spec = {"shutdownAfterJobFinishes": True}
    slow = job("pauses", "K8sJobMode", "bash -c 'echo ran >> /marks/runs; sleep 600'", **spec)
    machine.apply(with_host_directory(slow, tmp_path))
    first = reaches(machine, "pauses", lambda one: one.get("jobStatus") == "RUNNING")
    slow["spec"]["suspend"] = True
    machine.apply(slow)
    reaches(machine, "pauses", lambda one: one.get("jobDeploymentStatus") == "Suspended")
    mine = "ray.io/originated-from-cr-name=pauses"
    assert machine.list("rayclusters", mine) == []
    assert machine.list("jobs.batch", mine) == []
    slow["spec"]["suspend"] = False
    machine.apply(slow)
    again = reaches(machine, "pauses", lambda one: one.get("jobStatus") == "RUNNING")
    assert again["jobId"] != first["jobId"]
    assert (tmp_path / "runs").read_text() == "ran\nran\n"
    machine.manta("delete", "rayjob", "pauses")


def test_a_deadline_stops_a_job_on_a_shared_cluster(machine: Machine) -> None:
    machine.apply(cluster("shared", workers=0))
    machine.cluster_ready("shared")
    late = job("late", "HTTPMode", "sleep 600", activeDeadlineSeconds=15)
    del late["spec"]["rayClusterSpec"]
    late["spec"]["clusterSelector"] = {"ray.io/cluster": "shared"}
    machine.apply(late)
    status = ended(machine, "late")
    assert status["reason"] == "DeadlineExceeded"
    reaches(machine, "late", lambda one: one.get("jobStatus") == "STOPPED")
    machine.manta("delete", "rayjob", "late")
    machine.manta("delete", "raycluster", "shared")


def test_a_failed_attempt_is_followed_by_one_on_a_new_cluster(
    machine: Machine, tmp_path: Path
) -> None:
    once = "bash -c 'echo ran >> /marks/runs; test $(wc -l < /marks/runs) -ge 2'"
    machine.apply(with_host_directory(job("again", "HTTPMode", once, backoffLimit=2), tmp_path))
    status = ended(machine, "again")
    assert (status["jobStatus"], status["failed"], status["succeeded"]) == ("SUCCEEDED", 1, 1)
    assert (tmp_path / "runs").read_text() == "ran\nran\n"
    machine.manta("delete", "rayjob", "again")


def test_a_submitter_that_is_killed_submits_nothing_twice(machine: Machine, tmp_path: Path) -> None:
    steady = job("steady", "K8sJobMode", "bash -c 'echo ran >> /marks/runs; sleep 40'")
    machine.apply(with_host_directory(steady, tmp_path))
    reaches(machine, "steady", lambda one: one.get("jobStatus") == "RUNNING")
    mine = "ray.io/originated-from-cr-name=steady,batch.kubernetes.io/job-name"
    [pod] = machine.list("pods", mine)
    machine.manta("delete", "pod", pod["metadata"]["name"])
    status = ended(machine, "steady")
    assert (status["jobStatus"], status["jobDeploymentStatus"]) == ("SUCCEEDED", "Complete")
    assert (tmp_path / "runs").read_text() == "ran\n"
    machine.manta("delete", "rayjob", "steady")


@contextmanager
def operator_down(machine: Machine) -> Iterator[None]:
    """It stands still, and is killed in the end: the one that follows remembers nothing."""
    for pid in machine.operators():
        os.kill(int(str(pid)), signal.SIGSTOP)
    try:
        yield
    finally:
        machine.kill_operator()


def exit_codes(machine: Machine, labels: str) -> list[int]:
    statuses = [
        status
        for pod in machine.list("pods", labels)
        for status in pod.get("status", {}).get("containerStatuses", ())
    ]
    ends = [one["state"].get("terminated") for one in statuses]
    return [one["exitCode"] for one in ends if one]


def test_a_head_that_dies_while_the_operator_is_down_gets_nothing_submitted_again(
    machine: Machine, marks: Path
) -> None:
    lonely = job("lonely", "K8sJobMode", "bash -c 'echo ran >> /marks/runs; sleep 600'")
    machine.apply(with_host_directory(lonely, marks))
    status = reaches(machine, "lonely", lambda one: one.get("jobStatus") == "RUNNING")
    [head] = machine.list("pods", f"ray.io/cluster={status['rayClusterName']}")
    submitters = "ray.io/originated-from-cr-name=lonely,batch.kubernetes.io/job-name"
    with operator_down(machine):
        machine.exec(head["metadata"]["name"], "pkill", "-9", "gcs_server", container="ray-head")
        machine.until(
            "a submitter that met another session",
            lambda: OTHER_SESSION_EXIT_CODE in exit_codes(machine, submitters),
            240,
        )
        [after] = machine.list("pods", f"ray.io/cluster={status['rayClusterName']}")
        assert after["metadata"]["uid"] == head["metadata"]["uid"]  # it came back in its place
        assert (marks / "runs").read_text() == "ran\n"
    status = ended(machine, "lonely")
    assert (status["jobDeploymentStatus"], status["reason"]) == ("Failed", "AppFailed"), status
    assert "the Ray head that ran the job" in status["message"]
    assert (marks / "runs").read_text() == "ran\n"
    machine.manta("delete", "rayjob", "lonely")


def test_a_schedule_makes_jobs_and_keeps_as_many_as_configured(machine: Machine) -> None:
    machine.apply(cluster("shared", workers=0))
    machine.cluster_ready("shared")
    cron = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": {"name": "minutely"},
        "spec": {
            "schedule": "* * * * *",
            "successfulJobsHistoryLimit": 1,
            "jobTemplate": {
                "submissionMode": "HTTPMode",
                "entrypoint": "echo tick",
                "clusterSelector": {"ray.io/cluster": "shared"},
            },
        },
    }
    machine.apply(cron)
    seen: set[str] = set()

    def two_came_and_one_is_kept() -> bool:
        found = machine.list("rayjobs", "ray.io/cronjob-name=minutely")
        seen.update(one["metadata"]["name"] for one in found)
        ends = [one.get("status", {}).get("jobStatus") for one in found]
        return len(seen) >= 2 and ends == ["SUCCEEDED"]

    machine.until("two ticks, of which one is kept", two_came_and_one_is_kept, 240)
    machine.manta("delete", "raycronjob", "minutely")
    machine.manta("delete", "raycluster", "shared")
