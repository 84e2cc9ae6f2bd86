"""How Pods are marked for each gang scheduler, and the PodGroups that are made for them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from manta.api.ray import names
from manta.api.ray.job import RayJob
from manta.api.scheduling import PodGroup
from manta.manifests.gang import SCHEDULERS, gang_group_name
from manta.manifests.gang.kubernetes_was import KUBERNETES_WAS
from manta.manifests.gang.members import cluster_gang, job_gang, pod_group_drift
from manta.manifests.gang.volcano import VOLCANO
from manta.manifests.gang.yunikorn import YUNIKORN
from manta.rules.settings import Settings
from support.raycluster import container, group, ray_cluster, template
from support.raycluster_scenario import decode

POD: dict[str, Any] = {
    "metadata": {"name": "p", "labels": {"own": "kept"}},
    "spec": {"containers": []},
}
QUEUES = {
    names.LABEL_VOLCANO_QUEUE: "gpu",
    names.LABEL_PRIORITY_CLASS: "high",
    names.LABEL_YUNIKORN_APP_ID: "app-1",
    names.LABEL_YUNIKORN_QUEUE: "root.ray",
    names.LABEL_KAI_QUEUE: "team-a",
}


def sized(name: str, cpu: str, memory: str, **fields: Any) -> dict[str, Any]:
    asked = {"requests": {"cpu": cpu, "memory": memory}}
    return {**group(name, **fields), "template": template(container(resources=asked))}


def cluster(labels: dict[str, str] | None = None, **spec: Any) -> Any:
    spec.setdefault(
        "groups", [sized("small", "1", "1Gi", replicas=2, minReplicas=1, maxReplicas=5)]
    )
    head = {"rayStartParams": {}, "template": template(container(resources={"limits": {"cpu": 2}}))}
    return decode(ray_cluster(head=head, **spec), labels={**QUEUES, **(labels or {})})


def job(**labels: str) -> RayJob:
    meta = {"name": "train", "namespace": "ml", "uid": "j1", "labels": {**QUEUES, **labels}}
    return msgspec.convert({"metadata": meta, "spec": {"entrypoint": "python x.py"}}, RayJob)


SUBMITTER = template(container(resources={"requests": {"cpu": "500m"}}))


@pytest.mark.parametrize(
    ("chosen", "scheduler", "labels"),
    [
        (
            "volcano",
            "volcano",
            {names.LABEL_VOLCANO_QUEUE: "gpu", names.LABEL_PRIORITY_CLASS: "high"},
        ),
        ("yunikorn", "yunikorn", {"applicationId": "app-1", "queue": "root.ray"}),
        ("kai-scheduler", "kai-scheduler", {names.LABEL_KAI_QUEUE: "team-a"}),
        ("scheduler-plugins", "scheduler-plugins-scheduler", {}),
    ],
)
def test_a_pod_goes_to_its_scheduler_and_queue(
    chosen: str, scheduler: str, labels: dict[str, str]
) -> None:
    pod = SCHEDULERS[chosen].member_pod(cluster_gang(cluster()), POD, "small")
    assert pod["spec"]["schedulerName"] == scheduler
    assert pod["metadata"]["labels"] == {"own": "kept", **labels}
    assert "schedulerName" not in POD["spec"], "the Pod that was given stays as it was"


@pytest.mark.parametrize("chosen", SCHEDULERS)
def test_without_a_queue_no_empty_label_is_set(chosen: str) -> None:
    plain = decode(ray_cluster())
    pod = SCHEDULERS[chosen].member_pod(cluster_gang(plain), POD, "small")
    assert pod["metadata"]["labels"] == {"own": "kept"}


# ── Volcano ──────────────────────────────────────────────────────────────────────────────


def test_volcanos_group_is_as_large_as_the_cluster() -> None:
    made = VOLCANO.pod_groups.build(cluster_gang(cluster()))
    assert made["metadata"]["name"] == "ray-demo-pg"
    assert made["metadata"]["ownerReferences"][0]["kind"] == "RayCluster"
    assert made["spec"] == {
        "minMember": 3,
        "minResources": {"cpu": "4", "memory": "2Gi"},
        "queue": "gpu",
        "priorityClassName": "high",
    }


def test_with_an_autoscaler_the_gang_is_the_least_that_will_be() -> None:
    made = VOLCANO.pod_groups.build(cluster_gang(cluster(enableInTreeAutoscaling=True)))
    assert made["spec"]["minMember"] == 2
    assert made["spec"]["minResources"] == {"cpu": "3", "memory": "1Gi"}


def test_suspended_groups_are_no_members() -> None:
    groups = [sized("a", "1", "1Gi", replicas=2), sized("b", "1", "1Gi", replicas=9, suspend=True)]
    made = VOLCANO.pod_groups.build(cluster_gang(cluster(groups=groups)))
    assert made["spec"]["minMember"] == 3
    assert made["spec"]["minResources"]["cpu"] == "4"


def test_volcanos_topology_is_read_from_labels() -> None:
    wanted = {names.LABEL_VOLCANO_TOPOLOGY_MODE: "hard", names.LABEL_VOLCANO_TOPOLOGY_TIER: "2"}
    made = VOLCANO.pod_groups.build(cluster_gang(cluster(wanted)))
    assert made["spec"]["networkTopology"] == {"mode": "hard", "highestTierAllowed": 2}


def test_pods_of_a_jobs_cluster_are_in_the_jobs_group() -> None:
    of_a_job = {names.LABEL_ORIGIN_KIND: "RayJob", names.LABEL_ORIGIN_NAME: "train"}
    gang = cluster_gang(cluster(of_a_job))
    pod = VOLCANO.member_pod(gang, POD, "small")
    assert pod["metadata"]["annotations"] == {
        names.ANNOTATION_POD_GROUP_NAME: "ray-train-pg",
        names.ANNOTATION_VOLCANO_TASK: "small",
    }
    assert VOLCANO.pod_groups.name(gang) == "", "the cluster has no second group beside the job's"


def test_a_jobs_group_has_room_for_its_submitter_and_does_not_wait_for_it() -> None:
    made = VOLCANO.pod_groups.build(job_gang(job(), cluster().spec, SUBMITTER))
    assert made["metadata"]["name"] == "ray-train-pg"
    assert made["metadata"]["ownerReferences"][0]["kind"] == "RayJob"
    assert made["spec"]["minMember"] == 3
    assert made["spec"]["minResources"]["cpu"] == "4500m"


# ── YuniKorn ─────────────────────────────────────────────────────────────────────────────


def task_groups(pod: dict[str, Any]) -> list[dict[str, Any]]:
    text = pod["metadata"]["annotations"][names.ANNOTATION_YUNIKORN_TASK_GROUPS]
    return list(json.loads(text))


def test_yunikorns_pods_carry_the_plan_of_the_gang() -> None:
    gang = cluster_gang(cluster({names.LABEL_GANG_SCHEDULING: "true"}))
    pod = YUNIKORN.member_pod(gang, POD, "small")
    assert pod["metadata"]["annotations"][names.ANNOTATION_YUNIKORN_TASK_GROUP] == "small"
    assert task_groups(pod) == [
        {"name": "headgroup", "minMember": 1, "minResource": {"cpu": "2"}},
        {"name": "small", "minMember": 1, "minResource": {"cpu": "1", "memory": "1Gi"}},
    ]


def test_without_the_gang_label_yunikorns_pods_come_one_by_one() -> None:
    assert (
        "annotations" not in YUNIKORN.member_pod(cluster_gang(cluster()), POD, "small")["metadata"]
    )


def test_the_cluster_of_a_job_carries_the_jobs_plan_with_its_submitter() -> None:
    gang = job_gang(job(**{names.LABEL_GANG_SCHEDULING: ""}), cluster().spec, SUBMITTER)
    marks = YUNIKORN.cluster_metadata(gang)
    assert marks["labels"] == {"applicationId": "app-1", "queue": "root.ray"}
    of_cluster = cluster({names.LABEL_GANG_SCHEDULING: ""})
    handed_on = msgspec.structs.replace(
        of_cluster,
        metadata=msgspec.structs.replace(of_cluster.metadata, annotations=marks["annotations"]),
    )
    pod = YUNIKORN.member_pod(cluster_gang(handed_on), POD, "small")
    assert [(one["name"], one["minMember"]) for one in task_groups(pod)] == [
        ("headgroup", 1),
        ("small", 1),
        ("submittergroup", 1),
    ]


# ── scheduler-plugins ────────────────────────────────────────────────────────────────────


def test_coscheduling_needs_the_gang_label() -> None:
    settings = Settings(batch_scheduler="scheduler-plugins")
    assert gang_group_name(cluster(), settings) == ""
    ganged = cluster({names.LABEL_GANG_SCHEDULING: "true"})
    assert gang_group_name(ganged, settings) == "demo"
    scheduler = SCHEDULERS["scheduler-plugins"]
    pod = scheduler.member_pod(cluster_gang(ganged), POD, "small")
    assert pod["metadata"]["labels"][names.LABEL_SCHEDULER_PLUGINS_POD_GROUP] == "demo"
    groups = scheduler.pod_groups
    assert groups is not None
    made = groups.build(cluster_gang(ganged))
    assert made["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"
    assert made["metadata"]["ownerReferences"][0]["kind"] == "RayCluster"
    assert made["spec"]["minMember"] == 3


# ── drift ────────────────────────────────────────────────────────────────────────────────


def live(members: int, **amounts: Any) -> PodGroup:
    spec = {"minMember": members, "minResources": amounts}
    return msgspec.convert({"metadata": {"name": "g"}, "spec": spec}, PodGroup)


WANTED = {"minMember": 3, "minResources": {"cpu": "4", "memory": "2Gi"}}


def test_equal_amounts_written_otherwise_are_no_drift() -> None:
    assert pod_group_drift(WANTED, live(3, cpu="4000m", memory=2 * 1024**3)) == {}


def test_another_size_is_repaired_and_what_is_no_longer_asked_for_goes() -> None:
    patch = pod_group_drift(WANTED, live(2, cpu="4", memory="2Gi", gpu=1))
    assert patch["spec"]["minMember"] == 3
    assert patch["spec"]["minResources"] == {"gpu": None, "cpu": "4", "memory": "2Gi"}


@pytest.mark.parametrize(
    ("label", "spec", "is_member"),
    [
        ("true", {}, True),
        ("True", {}, True),
        ("false", {}, False),
        ("true", {"enableInTreeAutoscaling": True}, False),
    ],
)
def test_kubernetes_gangs_labelled_clusters_without_autoscaler(
    label: str, spec: dict[str, Any], is_member: bool
) -> None:
    gang = cluster_gang(cluster({names.LABEL_GANG_SCHEDULING: label}, **spec))
    pod = KUBERNETES_WAS.member_pod(gang, POD, names.HEAD_GROUP)
    joined = {
        "schedulerName": "default-scheduler",
        "schedulingGroup": {"podGroupName": "demo-cluster"},
    }
    assert pod["spec"] == {**POD["spec"], **(joined if is_member else {})}


def test_kubernetes_leaves_the_submitter_of_a_job_alone() -> None:
    gang = job_gang(job(**{names.LABEL_GANG_SCHEDULING: "true"}), cluster().spec)
    assert KUBERNETES_WAS.member_pod(gang, POD, names.SUBMITTER_GROUP) == POD
