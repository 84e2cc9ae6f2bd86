"""Deletion: held only for Redis, head first, and never longer than the timeout."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
import yaml

from manta.api.meta import Key
from manta.api.ray.names import FINALIZER_REDIS_CLEANUP
from manta.api.resources import JOBS, PODS
from manta.api.times import format_time
from manta.controllers.raycluster.events import Cause, action_events
from manta.reconcile.actions import Create
from manta.reconcile.outcome import Outcome, Result
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import Scenario, decode

PASSWORD = {"valueFrom": {"secretKeyRef": {"name": "redis", "key": "password"}}}
REDIS: dict[str, Any] = {"redisAddress": "redis:6379", "redisPassword": PASSWORD}


def with_redis(**spec: Any) -> Scenario:
    scenario = Scenario(decode(ray_cluster(gcsFaultToleranceOptions=REDIS, **spec)))
    scenario.settle()
    return scenario


def delete(scenario: Scenario, **meta: Any) -> Scenario:
    changed = msgspec.structs.replace(
        scenario.cluster.metadata, deletion_timestamp=format_time(scenario.now), **meta
    )
    scenario.cluster = msgspec.structs.replace(scenario.cluster, metadata=changed)
    return scenario


def causes(scenario: Scenario) -> list[Any]:
    return [action.cause for action in scenario.plan().actions]


def test_the_finalizer_comes_before_anything_that_needs_cleaning() -> None:
    scenario = Scenario(decode(ray_cluster(gcsFaultToleranceOptions=REDIS)))
    assert [one.cause for one in scenario.reconcile().actions] == [Cause.ADD_FINALIZER]
    assert scenario.cluster.metadata.finalizers == (FINALIZER_REDIS_CLEANUP,)
    assert Cause.NO_HEAD in [one.cause for one in scenario.reconcile().actions]


def test_a_cluster_without_redis_is_never_held() -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.settle()
    assert scenario.cluster.metadata.finalizers == ()
    assert causes(delete(scenario)) == []


def test_c72_the_head_goes_before_the_workers_and_the_job_waits_for_it() -> None:
    scenario = delete(with_redis(groups=[group(replicas=2)]))
    plan = scenario.reconcile()
    assert [[one.key.name.split("-")[1] for one in stage.actions] for stage in plan.stages] == [
        ["head"],
        ["workers", "workers"],
    ]
    for _ in range(4):
        assert scenario.reconcile().actions == ()
    scenario.remove_deleted()
    assert [one.cause for one in scenario.reconcile().actions] == [Cause.REDIS_CLEANUP]


def test_a_finished_job_lets_the_cluster_go() -> None:
    scenario = delete(with_redis())
    for _ in range(2):
        scenario.reconcile()
        scenario.remove_deleted()
    assert causes(scenario) == []
    [job] = scenario.of("Job")
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert causes(scenario) == [Cause.CLEANUP_FINISHED]
    scenario.reconcile()
    assert scenario.cluster.metadata.finalizers == ()


@pytest.mark.parametrize("end", ["Failed", "FailureTarget"])
def test_a_failed_job_lets_it_go_too_and_says_what_is_left(end: str) -> None:
    scenario = delete(with_redis())
    for _ in range(2):
        scenario.reconcile()
        scenario.remove_deleted()
    [job] = scenario.of("Job")
    job["status"] = {"conditions": [{"type": end, "status": "True"}]}
    [release] = scenario.plan().actions
    assert release.cause is Cause.CLEANUP_FAILED
    [event] = action_events(Outcome((Result(release, release.key),)))
    assert (event.type, event.reason, event.action) == ("Warning", "FailedToCleanRedis", "Cleanup")
    assert "under the namespace c1 yourself" in event.note
    scenario.reconcile()
    assert scenario.cluster.metadata.finalizers == ()


@pytest.mark.parametrize(
    ("annotation", "seconds"), [("", 300), ("60", 60), ("nonsense", 300), ("0", 300), ("-1", 300)]
)
def test_c70_whatever_fails_the_cluster_goes_when_its_time_is_up(
    annotation: str, seconds: int
) -> None:
    key = "ray.io/gcs-ft-deletion-timeout"
    scenario = delete(with_redis(annotations={key: annotation} if annotation else None))
    scenario.reconcile()
    scenario.now += timedelta(seconds=seconds - 1)
    assert Cause.CLEANUP_TIMED_OUT not in causes(scenario)
    assert scenario.plan().wait is not None
    scenario.now += timedelta(seconds=1)
    [release] = scenario.plan().actions
    [event] = action_events(Outcome((Result(release, release.key),)))
    assert (event.type, event.reason) == ("Warning", "ForceDeletedStuckCluster")


def test_c70_the_deadline_is_never_slept_through() -> None:
    scenario = delete(with_redis())
    scenario.now += timedelta(seconds=297)
    wait = scenario.plan().wait
    assert wait is not None
    assert wait.retry_in == timedelta(seconds=3)


def test_c71_switching_the_option_off_lets_the_cluster_go() -> None:
    for settings, manifest in (
        (Settings(), ray_cluster()),
        (Settings(gcs_ft_redis_cleanup=False), ray_cluster(gcsFaultToleranceOptions=REDIS)),
        (
            Settings(gates=FeatureGates(gcs_fault_tolerance_embedded_storage=True)),
            ray_cluster(gcsFaultToleranceOptions={"backend": "rocksdb"}),
        ),
    ):
        scenario = with_redis()
        scenario.set_spec(manifest)
        scenario.settings = settings
        assert causes(delete(scenario)) == [Cause.CLEANUP_FINISHED]


def test_an_invalid_spec_never_keeps_a_cluster_from_going() -> None:
    scenario = with_redis()
    broken = ray_cluster(gcsFaultToleranceOptions=REDIS, head={"template": {}})
    scenario.set_spec(broken)
    assert scenario.snapshot().violations
    delete(scenario)
    scenario.reconcile()
    scenario.remove_deleted()
    assert causes(scenario) == [Cause.CLEANUP_FINISHED]


def test_a_job_of_an_earlier_object_of_this_name_is_not_taken_for_ours() -> None:
    scenario = delete(with_redis())
    scenario.reconcile()
    scenario.remove_deleted()
    scenario.reconcile()
    [job] = scenario.of("Job")
    job["metadata"]["ownerReferences"][0]["uid"] = "older"
    job["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    assert Cause.CLEANUP_FINISHED not in causes(scenario)


def test_only_our_finalizer_is_removed() -> None:
    scenario = with_redis()
    both = ("foregroundDeletion", FINALIZER_REDIS_CLEANUP)
    delete(scenario, finalizers=both)
    scenario.now += timedelta(seconds=301)
    scenario.reconcile()
    assert scenario.cluster.metadata.finalizers == ("foregroundDeletion",)


def test_c73_the_cleanup_job_reads_the_password_from_the_users_secret() -> None:
    scenario = delete(with_redis())
    scenario.reconcile()
    scenario.remove_deleted()
    scenario.reconcile()
    [job] = scenario.of("Job")
    [container] = job["spec"]["template"]["spec"]["containers"]
    env = {one["name"]: one for one in container["env"]}
    assert env["REDIS_PASSWORD"]["valueFrom"] == PASSWORD["valueFrom"]
    assert env["RAY_external_storage_namespace"]["value"] == "c1"
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"]["activeDeadlineSeconds"] == 300
    assert job["metadata"]["labels"]["ray.io/node-type"] == "redis-cleanup"
    assert "livenessProbe" not in container
    compile(container["args"][0].removeprefix('python -c "').removesuffix('"'), "job", "exec")


def test_c69_a_cluster_of_an_old_name_never_finds_the_old_tables() -> None:
    spaces = set()
    for uid in ("a", "b"):
        scenario = Scenario(decode(ray_cluster(gcsFaultToleranceOptions=REDIS), uid=uid))
        scenario.settle()
        env = {one["name"]: one for one in scenario.heads()[0]["spec"]["containers"][0]["env"]}
        spaces.add(env["RAY_external_storage_namespace"]["value"])
    assert spaces == {"a", "b"}


def test_c73_no_password_is_ever_written_down() -> None:
    scenario = delete(with_redis())
    for _ in range(3):
        scenario.reconcile()
        scenario.remove_deleted()
    job = scenario.objects[JOBS, "demo-redis-cleanup"]
    assert "--redis-password=$REDIS_PASSWORD" in yaml.safe_dump(job)
    text = yaml.safe_dump([dict(one.manifest) for one in scenario.log if isinstance(one, Create)])
    assert text.count("secretKeyRef") == text.count("name: REDIS_PASSWORD")


def test_pods_are_deleted_by_uid() -> None:
    scenario = delete(with_redis())
    plan = scenario.plan()
    assert all(action.uid for action in plan.actions)
    scenario.delete(PODS, Key("default", "demo-head"), "another-uid")
    assert "deletionTimestamp" not in scenario.heads()[0]["metadata"]


def test_the_gate_for_cleanup_is_a_setting() -> None:
    scenario = Scenario(decode(ray_cluster(gcsFaultToleranceOptions=REDIS)))
    scenario.settings = replace(scenario.settings, gcs_ft_redis_cleanup=False)
    scenario.settle()
    assert scenario.cluster.metadata.finalizers == ()
