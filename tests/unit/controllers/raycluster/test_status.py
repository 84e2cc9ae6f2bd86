"""`.status`: counts, state, endpoints, conditions and their latches."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from manta.api.conditions import find
from manta.api.core import Pod
from manta.api.meta import Condition
from manta.api.resources import PODS, SERVICES
from manta.controllers.raycluster.head_condition import head_pod_condition
from manta.controllers.raycluster.status import differs, next_status
from manta.kube.errors import ApiError, Unavailable
from manta.reconcile.actions import Action, Create, Delete
from manta.reconcile.outcome import UNTRIED
from support.raycluster import container, group, ray_cluster, template
from support.raycluster_scenario import HEAD, Scenario, decode, denied, set_failed, set_running


def settled(**spec: Any) -> Scenario:
    scenario = Scenario(decode(ray_cluster(**spec)))
    scenario.settle()
    return scenario


def condition(scenario: Scenario, type_: str) -> Condition:
    found = find(scenario.cluster.status.conditions, type_)
    assert found is not None, scenario.cluster.status.conditions
    return found


def has(scenario: Scenario, type_: str) -> bool:
    return find(scenario.cluster.status.conditions, type_) is not None


def test_a_ready_cluster_says_all_that_kuberay_says() -> None:
    scenario = settled(groups=[group(replicas=2, minReplicas=1, maxReplicas=5)])
    status = scenario.cluster.status
    assert status.state == "ready"
    assert status.observed_generation == 1
    assert (status.desired_worker_replicas, status.min_worker_replicas) == (2, 1)
    assert (status.ready_worker_replicas, status.available_worker_replicas) == (2, 2)
    assert (status.max_worker_replicas, status.desired_cpu, status.desired_memory) == (
        5,
        "3",
        "3Gi",
    )
    assert status.head.pod_name == HEAD
    assert status.head.service_name == "demo-head-svc"
    assert status.head.service_ip == status.head.pod_ip == "10.0.0.1"
    assert status.endpoints["dashboard"] == "8265"
    assert status.state_transition_times == {"ready": status.last_update_time}
    assert condition(scenario, "HeadPodReady").reason == "HeadPodRunningAndReady"
    assert condition(scenario, "RayClusterProvisioned").reason == "AllPodRunningAndReadyFirstTime"


@pytest.mark.parametrize(
    ("labels", "code", "state"),
    [
        ({"ray.io/job-submission-mode": "SidecarMode"}, 0, "ready"),
        ({"ray.io/job-submission-mode": "SidecarMode"}, 1, ""),
        ({}, 0, ""),
    ],
)
def test_a_worker_that_comes_after_the_submitter_beside_the_head_has_ended(
    labels: dict[str, str], code: int, state: str
) -> None:
    """The container that submitted is never ready again: without it the head is all that it will be."""
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=1)], labels=labels)))
    while not scenario.workers():
        scenario.reconcile()
    scenario.now += timedelta(minutes=1)
    for pod in list(scenario.pods.values()):
        set_running(pod)
    [head] = scenario.heads()
    ended = {"name": "ray-job-submitter", "state": {"terminated": {"exitCode": code}}}
    head["status"]["containerStatuses"].append(ended)
    head["status"]["conditions"] = [
        {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
    ]
    scenario.reconcile()
    assert scenario.cluster.status.state == state
    assert has(scenario, "Blocked") == bool(code)
    assert condition(scenario, "HeadPodReady").status == "False"


def test_the_budget_two_status_writes_until_ready() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=3)])))
    scenario.reconcile()
    for pod in list(scenario.pods.values()):
        set_running(pod)
        scenario.reconcile()
    assert scenario.cluster.status.state == "ready"
    assert scenario.status_writes == 2


def test_progress_of_a_new_cluster_is_written_every_ten_seconds_and_its_end_at_once() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=3)])))
    scenario.reconcile()
    first, *rest = scenario.workers()
    set_running(first)
    scenario.reconcile()
    scenario.now += timedelta(seconds=9)
    scenario.reconcile()
    assert scenario.cluster.status.ready_worker_replicas == 0
    scenario.now += timedelta(seconds=1)
    scenario.reconcile()
    assert scenario.cluster.status.ready_worker_replicas == 1
    for pod in [*rest, *scenario.heads()]:
        set_running(pod)
    scenario.reconcile()
    assert scenario.cluster.status.ready_worker_replicas == 3


def test_what_becomes_of_an_old_cluster_is_reported_after_two_seconds() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=3)])))
    scenario.settle()
    scenario.now += timedelta(hours=1)
    set_running(scenario.workers()[0], ready=False)
    scenario.reconcile()
    scenario.now += timedelta(seconds=2)
    scenario.reconcile()
    assert scenario.cluster.status.ready_worker_replicas == 2


def test_bounds_that_somebody_wrote_are_put_right_after_two_seconds() -> None:
    scenario = settled(groups=[group(replicas=3)])
    scenario.now += timedelta(hours=1)
    most = scenario.cluster.status.max_worker_replicas
    written = msgspec.structs.replace(scenario.cluster.status, max_worker_replicas=most + 2)
    scenario.cluster = msgspec.structs.replace(scenario.cluster, status=written)
    scenario.reconcile()
    assert scenario.cluster.status.max_worker_replicas == most + 2
    scenario.now += timedelta(seconds=2)
    scenario.reconcile()
    assert scenario.cluster.status.max_worker_replicas == most


def test_bounds_that_an_edit_changes_are_written_at_once() -> None:
    scenario = settled(groups=[group(replicas=3, maxReplicas=5)])
    edited = decode(ray_cluster(groups=[group(replicas=3, maxReplicas=9)]), generation=2)
    scenario.cluster = msgspec.structs.replace(edited, status=scenario.cluster.status)
    scenario.reconcile()
    assert scenario.cluster.status.max_worker_replicas == 9


@pytest.mark.parametrize(
    ("labels", "written"), [({}, False), ({"ray.io/originated-from-crd": "RayService"}, True)]
)
def test_a_ready_head_is_news_to_a_ray_service(labels: dict[str, str], written: bool) -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=1)], labels=labels)))
    scenario.reconcile()
    set_running(scenario.heads()[0])
    scenario.reconcile()
    assert (condition(scenario, "HeadPodReady").status == "True") is written


def test_c24_a_cluster_whose_head_is_pending_is_never_ready() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=1)])))
    scenario.reconcile()
    set_running(scenario.workers()[0])
    for _ in range(3):
        scenario.now += timedelta(seconds=5)
        scenario.reconcile()
    assert scenario.cluster.status.state == ""
    assert condition(scenario, "RayClusterProvisioned").status == "False"


def test_c26_all_hosts_of_all_replicas_count() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=3, numOfHosts=2)])))
    scenario.reconcile()
    pods = list(scenario.pods.values())
    for pod in pods[:-1]:
        set_running(pod)
    scenario.reconcile()
    assert scenario.cluster.status.state == ""
    set_running(pods[-1])
    scenario.reconcile()
    assert scenario.cluster.status.state == "ready"
    assert scenario.cluster.status.desired_worker_replicas == 6


def test_an_autoscaled_cluster_with_more_workers_than_replicas_is_ready() -> None:
    groups = [group(replicas=3)]
    scenario = Scenario(decode(ray_cluster(groups=groups, enableInTreeAutoscaling=True)))
    scenario.reconcile()
    scenario.set_spec(ray_cluster(groups=[group(replicas=2)], enableInTreeAutoscaling=True))
    for pod in scenario.pods.values():
        set_running(pod)
    scenario.reconcile()
    assert len(scenario.workers()) == 3  # only the autoscaler knows which of them are idle
    assert scenario.cluster.status.state == "ready"
    assert condition(scenario, "RayClusterProvisioned").status == "True"


@pytest.mark.parametrize("autoscaled", [False, True])
def test_a_worker_too_many_does_not_stand_for_one_that_another_group_lacks(
    autoscaled: bool,
) -> None:
    groups = [group(replicas=2), group("others", replicas=1)]
    scenario = Scenario(decode(ray_cluster(groups=groups, enableInTreeAutoscaling=autoscaled)))
    scenario.reconcile()
    groups = [group(replicas=1), group("others", replicas=2)]
    scenario.set_spec(ray_cluster(groups=groups, enableInTreeAutoscaling=autoscaled))
    for pod in scenario.pods.values():
        set_running(pod)
    scenario.reconcile()
    assert scenario.cluster.status.state == ""
    assert condition(scenario, "RayClusterProvisioned").status == "False"
    scenario.settle()
    assert scenario.cluster.status.state == "ready"


def test_once_provisioned_a_cluster_stays_so_while_the_head_tells_the_present() -> None:
    scenario = settled()
    set_running(scenario.heads()[0], ready=False)
    scenario.now += timedelta(seconds=5)
    scenario.reconcile()
    assert scenario.cluster.status.state == "ready"
    assert condition(scenario, "RayClusterProvisioned").status == "True"
    assert condition(scenario, "HeadPodReady").status == "False"


def test_c27_an_error_of_the_server_leaves_the_state_alone() -> None:
    scenario = settled()
    before = scenario.cluster.status

    def broken(action: Action) -> Exception | None:
        return Unavailable(500, "InternalError", "etcd is away")

    del scenario.objects[SERVICES, "demo-head-svc"]
    scenario.reconcile(broken)
    assert scenario.cluster.status.state == before.state
    assert not has(scenario, "ReplicaFailure")


def test_c25_a_denied_pod_is_reported_and_forgotten_when_it_is_granted() -> None:
    scenario = Scenario(decode(ray_cluster()))
    scenario.reconcile(denied("exceeded quota: pods=0"))
    failure = condition(scenario, "ReplicaFailure")
    assert failure.reason == "FailedCreateHeadPod"
    assert "exceeded quota: pods=0" in failure.message
    assert "exceeded quota" in condition(scenario, "Blocked").message
    scenario.settle()
    assert not has(scenario, "ReplicaFailure")
    assert not has(scenario, "Blocked")


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        (lambda scenario: set_failed(scenario.heads()[0], scenario.now), "FailedDeleteHeadPod"),
        (lambda scenario: set_failed(scenario.workers()[0], scenario.now), "FailedDeleteWorkerPod"),
        (
            lambda scenario: scenario.set_spec(ray_cluster(groups=[group(replicas=3)])),
            "FailedCreateWorkerPod",
        ),
        (lambda scenario: scenario.set_spec(ray_cluster(groups=[])), "FailedDeleteWorkerPod"),
    ],
)
def test_every_failure_with_a_pod_has_kuberays_reason(act: Any, reason: str) -> None:
    scenario = settled()
    act(scenario)
    scenario.reconcile(lambda action: ApiError(403, "Forbidden", "no"))
    assert condition(scenario, "ReplicaFailure").reason == reason


def test_failing_to_delete_all_has_its_own_reason() -> None:
    scenario = settled()
    scenario.set_spec(ray_cluster(suspend=True))
    scenario.reconcile()
    scenario.reconcile(lambda action: ApiError(403, "Forbidden", "no"))
    assert condition(scenario, "ReplicaFailure").reason == "FailedDeleteAllPods"


def test_a_missing_head_is_said_to_be_missing() -> None:
    scenario = settled()
    del scenario.objects[PODS, HEAD]
    scenario.now += timedelta(seconds=5)
    scenario.reconcile()
    assert condition(scenario, "HeadPodReady").reason == "HeadPodNotFound"


@pytest.mark.parametrize(
    ("waiting", "behind"),
    [
        ({"reason": "ErrImagePull", "message": "no such tag"}, "; ray: no such tag"),  # R20
        ({"reason": "ContainerCreating"}, ""),
    ],
)
def test_the_head_condition_names_the_container_behind_it(
    waiting: dict[str, str], behind: str
) -> None:
    scenario = Scenario(decode(ray_cluster(groups=[])))
    scenario.reconcile()
    [head] = scenario.heads()
    head["status"] = {
        "phase": "Pending",
        "conditions": [
            {
                "type": "Ready",
                "status": "False",
                "reason": "ContainersNotReady",
                "message": "containers with unready status: [ray]",
            }
        ],
        "containerStatuses": [{"name": "ray", "state": {"waiting": waiting}}],
    }
    reported = head_pod_condition(msgspec.convert(head, Pod))
    assert (reported.status, reported.reason) == ("False", waiting["reason"])
    assert reported.message == f"containers with unready status: [ray]{behind}"


def test_a_head_without_a_ready_condition_is_unknown() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[])))
    for _ in range(3):
        scenario.reconcile()
        scenario.now += timedelta(seconds=10)
    assert condition(scenario, "HeadPodReady").reason == "Unknown"


def test_gpus_and_tpus_are_added_up() -> None:
    resources = {"limits": {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.5gb": "2", "google.com/tpu": 4}}
    gpu = group(replicas=2, template=template(container(resources=resources)))
    status = settled(groups=[gpu]).cluster.status
    assert (status.desired_gpu, status.desired_tpu) == ("6", "8")


def test_node_ports_come_before_target_ports() -> None:
    scenario = settled()
    [service] = scenario.of("Service")
    ports = service["spec"]["ports"]
    ports[0]["nodePort"] = 30001
    ports[1]["targetPort"] = "named"
    service["spec"]["clusterIP"] = "10.9.9.9"
    scenario.now += timedelta(seconds=5)
    scenario.reconcile()
    status = scenario.cluster.status
    assert (status.endpoints["client"], status.endpoints["dashboard"]) == ("30001", "named")
    assert status.head.service_ip == "10.9.9.9"


def test_times_and_generation_alone_are_no_reason_to_write() -> None:
    scenario = settled()
    scenario.now += timedelta(minutes=5)
    snapshot = scenario.snapshot()
    new = next_status(snapshot, UNTRIED)
    assert new != snapshot.cluster.status
    assert not differs(snapshot.cluster.status, new)


@pytest.mark.parametrize(("hosts", "written"), [(1, False), (2, True)])
def test_a_generation_alone_is_written_where_a_pruned_field_would_delete_pods(
    hosts: int, written: bool
) -> None:
    groups = [group(numOfHosts=hosts)]
    scenario = settled(groups=groups)
    scenario.set_spec(ray_cluster(groups=groups, headServiceAnnotations={"a": "b"}))
    scenario.settle()
    is_known = scenario.cluster.status.observed_generation == scenario.cluster.metadata.generation
    assert is_known is written


def test_without_the_gate_there_are_no_conditions() -> None:
    scenario = Scenario(decode(ray_cluster()))
    gates = replace(scenario.settings.gates, ray_cluster_status_conditions=False)
    scenario.settings = replace(scenario.settings, gates=gates)
    scenario.settle()
    assert scenario.cluster.status.conditions == ()
    assert scenario.cluster.status.state == "ready"


def test_c42_a_new_operator_finds_nothing_to_do() -> None:
    scenario = settled(groups=[group("a", replicas=2), group("b", numOfHosts=2)])
    again = Scenario(
        scenario.cluster, objects=scenario.objects, now=scenario.now + timedelta(hours=1)
    )
    assert again.reconcile().actions == ()
    assert again.status_writes == 0


def test_a_pod_made_by_hand_is_not_ours_to_count_when_another_controls_it() -> None:
    scenario = settled()
    twin = {**scenario.workers()[0]}
    owner = {"apiVersion": "v1", "kind": "X", "name": "x", "uid": "other", "controller": True}
    twin["metadata"] = {**twin["metadata"], "name": "x", "uid": "x", "ownerReferences": [owner]}
    scenario.put(PODS, twin)
    assert scenario.reconcile().actions == ()
    assert not any(isinstance(one, Delete) for one in scenario.log)
    assert scenario.cluster.status.ready_worker_replicas == 1


def test_status_survives_a_round_trip_through_json() -> None:
    status = settled().cluster.status
    assert msgspec.json.decode(msgspec.json.encode(status), type=type(status)) == status


def test_creates_are_named_so_that_a_lost_reply_can_be_looked_up() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=2)])))
    made = [one for one in scenario.plan().actions if isinstance(one, Create)]
    assert all("name" in one.manifest["metadata"] for one in made)


def test_c86_an_address_of_ipv6_is_passed_on_as_it_is() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[])))
    scenario.reconcile()
    set_running(scenario.heads()[0], ip="fd00::1")
    scenario.reconcile()
    assert scenario.cluster.status.head.pod_ip == "fd00::1"
    assert scenario.cluster.status.head.service_ip == "fd00::1"
    env = {
        one["name"]: one.get("value") for one in scenario.heads()[0]["spec"]["containers"][0]["env"]
    }
    assert env["RAY_ADDRESS"] == "127.0.0.1:6379"  # never an address that needs brackets
