"""Every cause has an Event, and every reason of KubeRay is recorded when it happens."""

from __future__ import annotations

from pathlib import Path

from manta.api.meta import Key, Uid
from manta.api.resources import PODS
from manta.controllers.raycluster import blocked, events, status_events
from manta.controllers.raycluster.events import Cause, action_events
from manta.kube.errors import ApiError
from manta.reconcile.actions import Delete
from manta.reconcile.executor import OwnedByAnotherError
from manta.reconcile.outcome import Failure, Outcome, Result
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import Scenario, decode


def test_no_cause_is_without_words() -> None:
    assert all(cause.event.done or cause.event.failed for cause in Cause)


def test_a_new_cluster_tells_every_reason_once() -> None:
    """R9."""
    scenario = Scenario(
        decode(ray_cluster(groups=[group(replicas=3)], enableInTreeAutoscaling=True))
    )
    done = tuple(Result(action, action.key) for action in scenario.plan().actions)
    found = action_events(Outcome(done))
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
    assert all(action.key.name in text for action in scenario.plan().actions)


def test_a_failure_is_an_event_of_its_own() -> None:
    scenario = Scenario(decode(ray_cluster()))
    service, head, _ = scenario.plan().actions
    failed = Failure(head, ApiError(403, "Forbidden", "exceeded quota"))
    warning, news = action_events(Outcome((Result(service, service.key),), (failed,)))
    assert (warning.type, warning.reason) == ("Warning", "FailedToCreateHeadPod")
    assert "exceeded quota" in warning.note
    assert news.reason == "CreatedService"


def test_what_was_there_already_is_not_reported() -> None:
    scenario = Scenario(decode(ray_cluster()))
    service = scenario.plan().actions[0]
    assert action_events(Outcome((Result(service, service.key, existed=True),))) == []


def test_of_three_hundred_new_workers_a_few_are_named_and_the_rest_counted() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=300, maxReplicas=300)])))
    done = tuple(Result(action, action.key) for action in scenario.plan().actions)
    [event] = [one for one in action_events(Outcome(done)) if one.reason == "CreatedWorkerPod"]
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
    files = (events, status_events, blocked)
    text = "".join(Path(str(one.__file__)).read_text() for one in files)
    known = {reason for one in Cause for reason in (one.event.done, one.event.failed)}
    assert [one for one in KUBERAYS if one not in known and f'"{one}"' not in text] == []


def test_pods_that_cannot_be_deleted_together_are_reported_as_kuberay_does() -> None:
    """R15."""
    pods = ((Cause.SUSPENDED, ""), (Cause.SPEC_CHANGED, ""), (Cause.GROUP_SUSPENDED, "Worker"))
    for cause, of in pods:
        delete = Delete(PODS, Key("default", "one"), Uid("u"), cause)
        [warning] = action_events(Outcome((), (Failure(delete, ApiError(403, "Forbidden", "no")),)))
        assert warning.reason == f"FailedToDelete{of}PodCollection"


def test_a_policy_whose_name_is_taken_is_a_collision() -> None:
    scenario = Scenario(
        decode(ray_cluster(networkPolicy={})),
        Settings(gates=FeatureGates(ray_cluster_network_policy=True)),
    )
    [policy, *_] = [one for one in scenario.plan().actions if one.cause == Cause.NETWORK_POLICY]
    [warning] = action_events(
        Outcome((), (Failure(policy, OwnedByAnotherError("taken by another")),))
    )
    assert warning.reason == "NetworkPolicyNameCollision"
