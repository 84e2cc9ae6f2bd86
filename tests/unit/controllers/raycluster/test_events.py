"""Every cause has its words, and a new cluster is one story."""

from __future__ import annotations

from manta.controllers.raycluster.events import EVENTS, Cause, told
from manta.kube.errors import ApiError
from manta.reconcile.outcome import Failure, Outcome, Result
from support.raycluster import group, ray_cluster
from support.raycluster_world import World, decode

KUBERAY = {
    "CreatedHeadPod",
    "FailedToCreateHeadPod",
    "DeletedHeadPod",
    "FailedToDeleteHeadPod",
    "CreatedWorkerPod",
    "FailedToCreateWorkerPod",
    "DeletedWorkerPod",
    "FailedToDeleteWorkerPod",
    "DeletedPod",
    "FailedToDeletePod",
    "CreatedRedisCleanupJob",
    "FailedToCreateRedisCleanupJob",
    "ForceDeletedStuckCluster",
    "CreatedIngress",
    "FailedToCreateIngress",
    "UpdatedIngress",
    "FailedToUpdateIngress",
    "CreatedRoute",
    "FailedToCreateRoute",
    "CreatedService",
    "FailedToCreateService",
    "CreatedServiceAccount",
    "FailedToCreateServiceAccount",
    "CreatedRole",
    "FailedToCreateRole",
    "CreatedRoleBinding",
    "FailedToCreateRoleBinding",
    "CreatedPVC",
    "FailedToCreatePVC",
}


def test_no_cause_is_without_words() -> None:
    assert set(EVENTS) == set(Cause)
    assert all(reasons.done or reasons.failed for reasons in EVENTS.values())


def test_every_reason_of_kuberay_is_told() -> None:
    ours = {reason for one in EVENTS.values() for reason in (one.done, one.failed)}
    assert ours >= KUBERAY


def test_a_new_cluster_is_one_event() -> None:
    world = World(decode(ray_cluster(groups=[group(replicas=3)])))
    done = tuple(Result(action, action.key) for action in world.plan().actions)
    [event] = told(Outcome(done))
    assert (event.type, event.reason, event.action) == ("Normal", "CreatedHeadPod", "Create")
    for name in ("demo-head", "demo-head-svc", *(one.key.name for one in world.plan().actions)):
        assert name in event.note


def test_a_failure_is_an_event_of_its_own() -> None:
    world = World(decode(ray_cluster()))
    service, head, _ = world.plan().actions
    failed = Failure(head, ApiError(403, "Forbidden", "exceeded quota"))
    warning, news = told(Outcome((Result(service, service.key),), (failed,)))
    assert (warning.type, warning.reason) == ("Warning", "FailedToCreateHeadPod")
    assert "exceeded quota" in warning.note
    assert news.reason == "CreatedService"


def test_what_was_there_already_is_not_told() -> None:
    world = World(decode(ray_cluster()))
    service = world.plan().actions[0]
    assert told(Outcome((Result(service, service.key, existed=True),))) == []


def test_of_three_hundred_new_workers_a_few_are_named_and_the_rest_counted() -> None:
    world = World(decode(ray_cluster(groups=[group(replicas=300, maxReplicas=300)])))
    done = tuple(Result(action, action.key) for action in world.plan().actions)
    [event] = told(Outcome(done))
    assert "and 295 more" in event.note
    assert len(event.note) < 1000
