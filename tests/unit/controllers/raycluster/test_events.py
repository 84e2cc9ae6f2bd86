"""Every cause has its words, and every reason of KubeRay is told when it happened."""

from __future__ import annotations

from pathlib import Path

from manta.api.meta import Key, Uid
from manta.api.resources import PODS
from manta.controllers.raycluster import blocked, events, warnings
from manta.controllers.raycluster.events import EVENTS, Cause, told
from manta.kube.errors import ApiError
from manta.reconcile.actions import Delete
from manta.reconcile.outcome import Failure, Outcome, Result
from manta.reconcile.perform import OwnedByAnotherError
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import group, ray_cluster
from support.raycluster_world import World, decode


def test_no_cause_is_without_words() -> None:
    assert set(EVENTS) == set(Cause)
    assert all(reasons.done or reasons.failed for reasons in EVENTS.values())


def test_a_new_cluster_tells_every_reason_once() -> None:
    """R9."""
    world = World(decode(ray_cluster(groups=[group(replicas=3)], enableInTreeAutoscaling=True)))
    done = tuple(Result(action, action.key) for action in world.plan().actions)
    found = told(Outcome(done))
    assert sorted(event.reason for event in found) == [
        "CreatedHeadPod",
        "CreatedRole",
        "CreatedRoleBinding",
        "CreatedService",
        "CreatedServiceAccount",
        "CreatedWorkerPod",
    ]
    assert {(event.type, event.action) for event in found} == {("Normal", "Create")}
    text = " ".join(event.note for event in found)
    assert all(action.key.name in text for action in world.plan().actions)


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
    [event] = [one for one in told(Outcome(done)) if one.reason == "CreatedWorkerPod"]
    assert "and 295 more" in event.note
    assert len(event.note) < 1000


KUBERAYS = [
    "InvalidRayClusterStatus",
    "InvalidRayClusterSpec",
    "InvalidRayClusterMetadata",
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
    "FailedToDeletePodCollection",
    "FailedToDeleteWorkerPodCollection",
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
    "AutoscalerServiceAccountNotFound",
    "CreatedRole",
    "FailedToCreateRole",
    "CreatedRoleBinding",
    "FailedToCreateRoleBinding",
    "CreatedPVC",
    "FailedToCreatePVC",
    "CreatedNetworkPolicy",
    "UpdatedNetworkPolicy",
    "DeletedNetworkPolicy",
    "FailedToCreateNetworkPolicy",
    "FailedToUpdateNetworkPolicy",
    "FailedToDeleteNetworkPolicy",
    "NetworkPolicyNameCollision",
    "MTLSPKIReady",
    "MTLSCertsNotReady",
    "MTLSFailedToReconcile",
    "MTLSCertificatesUpdated",
    "MTLSCertificateExpiringSoon",
]
"""Those of DeleteAllOf too (R15), although Pods are deleted one by one, each with its UID."""


def test_every_reason_of_kuberay_is_one_of_ours() -> None:
    rooms = (events, warnings, blocked)
    text = "".join(Path(str(room.__file__)).read_text() for room in rooms)
    known = {reason for one in EVENTS.values() for reason in (one.done, one.failed)}
    assert [one for one in KUBERAYS if one not in known and f'"{one}"' not in text] == []


def test_pods_that_cannot_be_deleted_together_are_told_as_kuberay_does() -> None:
    """R15."""
    pods = ((Cause.SUSPENDED, ""), (Cause.SPEC_CHANGED, ""), (Cause.GROUP_SUSPENDED, "Worker"))
    for cause, of in pods:
        delete = Delete(PODS, Key("default", "one"), Uid("u"), cause)
        [warning] = told(Outcome((), (Failure(delete, ApiError(403, "Forbidden", "no")),)))
        assert warning.reason == f"FailedToDelete{of}PodCollection"


def test_a_policy_whose_name_is_taken_is_a_collision() -> None:
    world = World(
        decode(ray_cluster(networkPolicy={})),
        Settings(gates=FeatureGates(ray_cluster_network_policy=True)),
    )
    [policy, *_] = [one for one in world.plan().actions if one.cause == Cause.NETWORK_POLICY]
    [warning] = told(Outcome((), (Failure(policy, OwnedByAnotherError("taken by another")),)))
    assert warning.reason == "NetworkPolicyNameCollision"
