"""KubeRay's metrics of RayJobs, computed from the cache."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from manta.api.times import format_time
from manta.controllers.rayjob.metrics import Attempts, durations, infos, stages
from manta.controllers.rayjob.observe import CachedRayJob
from manta.controllers.rayjob.snapshot import DashboardReply
from manta.reconcile.outcome import UNTRIED
from support.rayjob import NOW, running, status_after

WHO = ("demo", "default", "job-uid")


def cached(uid: str = "job-uid", **status: Any) -> CachedRayJob:
    meta = {"name": "demo", "namespace": "default", "uid": uid}
    return msgspec.convert({"metadata": meta, "status": status}, CachedRayJob)


def test_every_job_has_its_info_and_its_stage() -> None:
    jobs = (cached(jobDeploymentStatus="Running"),)
    assert list(infos(jobs)) == [(WHO, 1.0)]
    assert list(stages(jobs)) == [((*WHO, "Running"), 1.0)]


def test_the_duration_of_an_ended_job_has_its_retry_count() -> None:
    times = {
        "startTime": format_time(NOW - timedelta(seconds=90)),
        "endTime": format_time(NOW),
    }
    won = cached(jobDeploymentStatus="Complete", failed=1, succeeded=1, **times)
    head_lost = cached(jobDeploymentStatus="Failed", failed=3, **times)
    runs = cached(jobDeploymentStatus="Running", startTime=times["startTime"])
    assert list(durations((won, head_lost, runs), Attempts())) == [
        ((*WHO, "Complete", "1"), 90.0),
        ((*WHO, "Failed", "2"), 90.0),
    ]


def test_the_duration_of_a_retried_attempt_is_kept_while_its_job_exists() -> None:
    attempts = Attempts()
    snapshot = running(answer=DashboardReply("FAILED"), spec={"backoffLimit": 1})
    new = status_after(snapshot, UNTRIED)
    assert new.job_deployment_status == "Retrying"
    attempts.note(snapshot, new)
    alive = (cached(jobDeploymentStatus="Retrying"),)
    assert list(durations(alive, attempts)) == [((*WHO, "Retrying", "0"), 60.0)]
    assert list(durations((), attempts)) == []
    assert list(durations(alive, attempts)) == []
