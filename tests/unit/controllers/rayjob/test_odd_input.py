"""C61: no reconcile fails on a RayJob that lacks optional fields, in any stage."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any

import msgspec

from manta.api.meta import Key
from manta.api.ray.job import JobStatus, SubmissionMode
from manta.api.times import format_time
from manta.controllers.rayjob.observe import (
    CachedRayJob,
    Caches,
    Observer,
    by_cluster,
    by_job,
)
from manta.controllers.rayjob.status_events import status_events
from manta.ray.models import JobInfo, NoSuchJob, Unreachable
from manta.reconcile.outcome import UNTRIED
from manta.rules.settings import Settings
from support.raycluster import ray_cluster
from support.rayjob import NOW, a_cluster, a_head, a_snapshot, a_submitter, planned, status_after

REQUIRED = frozenset(("template", "spec", "containers", "name", "headGroupSpec", "groupName"))
STAGES = (
    *("", "Initializing", "Waiting", "Running", "Complete", "Failed"),
    *("ValidationFailed", "Suspending", "Suspended", "Retrying"),
)
FULL: dict[str, Any] = {
    "entrypoint": "python main.py",
    "submissionMode": "K8sJobMode",
    "jobId": "mine",
    "runtimeEnvYAML": "pip: [x]",
    "metadata": {"a": "b"},
    "entrypointNumCpus": 1,
    "entrypointNumGpus": 0.5,
    "entrypointResources": '{"a": 1}',
    "suspend": False,
    "backoffLimit": 1,
    "activeDeadlineSeconds": 60,
    "preRunningDeadlineSeconds": 60,
    "shutdownAfterJobFinishes": True,
    "ttlSecondsAfterFinished": 5,
    "clusterSelector": {"ray.io/cluster": "shared"},
    "submitterConfig": {"backoffLimit": 3},
    "submitterPodTemplate": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i", "env": [{"name": "A", "value": "b"}]}]},
    },
    "deletionStrategy": {
        "deletionRules": [
            {"policy": "DeleteCluster", "condition": {"jobStatus": "FAILED", "ttlSeconds": 1}}
        ],
        "onSuccess": {"policy": "DeleteNone"},
        "onFailure": {"policy": "DeleteSelf"},
    },
    "rayClusterSpec": ray_cluster()["spec"],
}
STATUS: dict[str, Any] = {
    "jobId": "demo-12345",
    "rayClusterName": "demo-abcde",
    "dashboardURL": "x:8265",
    "jobStatus": "RUNNING",
    "reason": "DeadlineExceeded",
    "message": "m",
    "rayJobInfo": {"startTime": format_time(NOW)},
    "startTime": format_time(NOW - timedelta(seconds=30)),
    "endTime": format_time(NOW - timedelta(seconds=3)),
    "succeeded": 0,
    "failed": 1,
    "jobStatusCheckFailureStartTime": format_time(NOW - timedelta(seconds=3)),
}


def pruned(value: Any, random: Random) -> Any:
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if k in REQUIRED or random.random() < 0.7}
        return {k: pruned(v, random) for k, v in kept.items()}
    if isinstance(value, list):
        return [pruned(one, random) for one in value]
    return value


class _Listing:
    """The part of an informer that the observer uses."""

    def __init__(
        self, *objects: Any, index: Callable[[Any], tuple[str, ...]] | None = None
    ) -> None:
        self._objects, self._index = objects, index

    def get(self, key: Key) -> Any:
        return next((one for one in self._objects if one.metadata.key == key), None)

    def by(self, _index: str, value: str) -> tuple[Any, ...]:
        return tuple(one for one in self._objects if self._index and value in self._index(one))


Listing: Any = _Listing


class Said:
    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def latest(self, *_: object, **__: object) -> Any:
        return self._answer

    def forget(self, _key: Key) -> None:
        pass


class Now:
    def now(self) -> datetime:
        return NOW


def scenarios(count: int, random: Random) -> Iterator[tuple[Observer, dict[str, Any]]]:
    answers = [
        None,
        NoSuchJob(),
        Unreachable("x"),
        *(JobInfo(state) for state in JobStatus if state),
    ]
    for _ in range(count):
        spec = pruned(copy.deepcopy(FULL), random)
        status = pruned(STATUS, random) | {"jobDeploymentStatus": random.choice(STAGES)}
        document = {
            "metadata": {"name": "demo", "namespace": "default", "uid": "job-uid"},
            "spec": spec,
            "status": status,
        }
        job = msgspec.json.decode(msgspec.json.encode(document), type=CachedRayJob)
        there = random.random() < 0.7
        caches = Caches(
            jobs=Listing(job),
            clusters=Listing(*([a_cluster()] if there else [])),
            pods=Listing(*([a_head()] if random.random() < 0.7 else []), index=by_cluster),
            services=Listing(),
            submitters=Listing(*([a_submitter(random.choice(["", "Complete", "Failed"]))])),
            submitter_pods=Listing(index=by_job),
        )
        said: Any = Said(random.choice(answers))
        clock: Any = Now()
        no_query: Any = None
        yield Observer(caches, said, no_query, clock, random, Settings()), document


async def test_c61_no_odd_job_makes_a_round_fail() -> None:
    for observer, document in scenarios(10_000, Random(61)):
        snapshot = await observer.observe(Key("default", "demo"))
        assert snapshot is not None
        try:
            planned(snapshot)
            list(status_events(snapshot, status_after(snapshot, UNTRIED)))
        except Exception as error:
            raise AssertionError(f"{error!r} on {document}") from error


def test_an_unknown_mode_does_not_raise_before_the_plan_reports_it() -> None:
    """Found by the fuzzer: a running job was edited to such a mode."""
    assert a_snapshot(spec={"submissionMode": "Telepathy"}).mode is SubmissionMode.K8S_JOB
