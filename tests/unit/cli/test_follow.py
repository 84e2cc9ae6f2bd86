"""What an object waits for is said in one line, from the nearest cause."""

from __future__ import annotations

import pytest

from manta.api.meta import Key
from manta.api.resources import DAEMON_SETS, DEPLOYMENTS, NODES, PODS
from manta.cli.output.progress import PlainProgress
from manta.cli.output.wait import Claim, Followed, Follower, claim
from manta.client.readiness import judge, pod_waits_for
from manta.client.workload_readiness import Verdict
from support.plane import memory_plane


def pod(**status: object) -> dict[str, object]:
    return {"metadata": {"name": "p"}, "status": status}


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (
            {
                "containerStatuses": [
                    {
                        "name": "ray",
                        "state": {"waiting": {"reason": "ErrImagePull", "message": "no such tag"}},
                    }
                ]
            },
            "container ray: no such tag",
        ),
        (
            {
                "initContainerStatuses": [
                    {"name": "init", "state": {"terminated": {"exitCode": 42, "reason": "Error"}}}
                ]
            },
            "container init: Error, exit code 42",
        ),
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "message": "0/1 nodes are available",
                    }
                ]
            },
            "0/1 nodes are available",
        ),
        (
            {"containerStatuses": [{"name": "ray", "ready": False, "state": {"running": {}}}]},
            "container ray runs, but its readiness probe has not passed yet",
        ),
        ({"phase": "Pending"}, "phase Pending"),
    ],
)
def test_a_pod_names_the_nearest_cause(status: dict[str, object], why: str) -> None:
    assert pod_waits_for(pod(**status)) == why


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob", "RayService", "RayCronJob"])
def test_a_reconcile_that_raised_is_what_an_object_waits_for(kind: str) -> None:
    """R7, Silence."""
    condition = {"type": "ReconcileError", "status": "True", "message": "plan failed: KeyError"}
    status = {"state": "ready", "jobDeploymentStatus": "Complete", "conditions": [condition]}
    assert judge(kind, {"status": status}) == Verdict(ready=False, why="plan failed: KeyError")


def test_a_cluster_is_ready_by_its_state() -> None:
    assert judge("RayCluster", {"status": {"state": "ready"}}).ready


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (
            {"conditions": [{"type": "HeadPodReady", "status": "False", "message": "head: gone"}]},
            "head: gone",
        ),
        ({"readyWorkerReplicas": 1, "desiredWorkerReplicas": 1}, "1 of 2 workers are ready"),
    ],
)
def test_a_cluster_that_was_ready_once_is_judged_by_what_it_is_now(
    status: dict[str, object], why: str
) -> None:
    group = {"groupName": "g", "replicas": 2, "maxReplicas": 3, "template": {"spec": {}}}
    document = {"spec": {"workerGroupSpecs": [group]}, "status": {"state": "ready", **status}}
    assert judge("RayCluster", document) == Verdict(ready=False, why=why)


async def test_a_status_is_not_believed_that_speaks_of_pods_that_are_not_ready() -> None:
    labels = {"app": "a"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    deployment = {
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    available = {"type": "Available", "status": "True", "reason": "r", "message": "m"}
    status = {"conditions": [available], "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}
    followed = [Followed(DEPLOYMENTS, Key("default", "a"))]
    async with memory_plane() as plane:
        client = plane.client
        await client.create(DEPLOYMENTS, "default", deployment)
        await client.patch(
            DEPLOYMENTS, Key("default", "a"), {"status": status}, subresource="status"
        )
        await client.create(
            PODS, "default", {**template, "metadata": {"name": "p", "labels": labels}}
        )
        assert not await Follower(client, PlainProgress()).until_ready(followed, 0.1)
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await client.patch(PODS, Key("default", "p"), ready, subresource="status")
        assert await Follower(client, PlainProgress()).until_ready(followed, 20)


async def test_a_daemon_set_without_pods_is_not_ready_before_the_first_node() -> None:
    """U4: on a plane that starts, its controller is quicker than the nodes."""
    labels = {"app": "d"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    daemon_set = {
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    counts = ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled")
    status = {**dict.fromkeys((*counts, "numberReady"), 0), "observedGeneration": 1}
    followed = [Followed(DAEMON_SETS, Key("default", "d"))]
    async with memory_plane() as plane:
        client = plane.client
        await client.create(DAEMON_SETS, "default", daemon_set)
        await client.patch(
            DAEMON_SETS, Key("default", "d"), {"status": status}, subresource="status"
        )
        assert not await Follower(client, PlainProgress()).until_ready(followed, 0.1)
        await client.create(NODES, "", {"metadata": {"name": "n"}})
        assert await Follower(client, PlainProgress()).until_ready(followed, 20)


@pytest.mark.parametrize(
    ("kind", "document", "claimed"),
    [
        (
            "RayCluster",
            {"metadata": {"name": "c"}, "status": {"state": "ready", "readyWorkerReplicas": 2}},
            Claim("ray.io/cluster=c", 3),
        ),
        ("RayCluster", {"metadata": {"name": "c"}, "status": {"state": "suspended"}}, None),
        (
            "RayService",
            {"status": {"activeServiceStatus": {"rayClusterName": "c"}}},
            Claim("ray.io/cluster=c,ray.io/node-type=head", 1),
        ),
        ("ConfigMap", {}, None),
    ],
)
def test_what_a_status_claims_of_pods_can_be_counted(
    kind: str, document: dict[str, object], claimed: Claim | None
) -> None:
    assert claim(kind, document) == claimed


def test_a_suspended_cluster_is_what_its_author_wanted() -> None:
    assert judge("RayCluster", {"spec": {"suspend": True}, "status": {"state": "suspended"}}).ready
    assert not judge("RayCluster", {"spec": {"suspend": True}, "status": {"state": "ready"}}).ready


def test_a_cluster_that_waits_says_what_its_condition_says() -> None:
    condition = {
        "type": "HeadPodReady",
        "status": "False",
        "message": "head Pod x: ImagePullBackOff",
    }
    verdict = judge("RayCluster", {"status": {"conditions": [condition]}})
    assert not verdict.ready
    assert verdict.why == "head Pod x: ImagePullBackOff"


def test_a_failed_job_ends_the_wait() -> None:
    verdict = judge("RayJob", {"status": {"jobDeploymentStatus": "Failed", "message": "exit 1"}})
    assert verdict.failed
    assert verdict.why == "exit 1"


def test_kinds_without_a_readiness_of_their_own_are_ready() -> None:
    assert judge("ConfigMap", {}).ready


def test_a_problem_is_reported_before_what_is_merely_unmet() -> None:
    conditions = [
        {
            "type": "RayClusterSuspended",
            "status": "False",
            "message": "",
            "reason": "RayClusterSuspended",
        },
        {"type": "Blocked", "status": "True", "message": "Pod x: ImagePullBackOff"},
    ]
    assert (
        judge("RayCluster", {"status": {"conditions": conditions}}).why == "Pod x: ImagePullBackOff"
    )


@pytest.mark.parametrize(
    ("kind", "spec", "status", "why"),
    [
        (
            "StatefulSet",
            {"replicas": 2},
            None,
            "waiting for the first reconcile of this generation",
        ),
        (
            "StatefulSet",
            {"replicas": 2},
            {"observedGeneration": 1, "replicas": 2, "readyReplicas": 1},
            "1 of 2 Pods are ready",
        ),
        (
            "StatefulSet",
            {"replicas": 2, "updateStrategy": {"rollingUpdate": {"partition": 1}}},
            {"observedGeneration": 1, "replicas": 2, "readyReplicas": 2},
            "0 of 1 Pods are of the new template",
        ),
        ("DaemonSet", {}, None, "waiting for the first reconcile of this generation"),
        (
            "DaemonSet",
            {},
            {"observedGeneration": 1, "desiredNumberScheduled": 3, "numberReady": 2},
            "Pods are ready on 2 of 3 nodes",
        ),
        (
            "DaemonSet",
            {},
            {
                "observedGeneration": 1,
                "desiredNumberScheduled": 1,
                "numberReady": 1,
                "updatedNumberScheduled": 0,
            },
            "0 of 1 Pods are of the new template",
        ),
        ("ReplicaSet", {"replicas": 1}, {"observedGeneration": 1}, "0 of 1 Pods are ready"),
    ],
)
def test_a_workload_is_not_ready_before_its_pods_are(
    kind: str, spec: dict[str, object], status: dict[str, object] | None, why: str
) -> None:
    """U4."""
    document = {"metadata": {"generation": 1}, "spec": spec, "status": status}
    verdict = judge(kind, document)
    assert (verdict.ready, verdict.why) == (False, why)


def test_workloads_whose_pods_are_ready_are_ready() -> None:
    """U4."""
    meta = {"generation": 2}
    replicas = {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "observedGeneration": 2}
    assert judge("StatefulSet", {"metadata": meta, "spec": {}, "status": replicas}).ready
    numbers = {
        "desiredNumberScheduled": 1,
        "numberReady": 1,
        "updatedNumberScheduled": 1,
        "observedGeneration": 2,
    }
    assert judge("DaemonSet", {"metadata": meta, "spec": {}, "status": numbers}).ready


def test_an_accepted_cron_job_is_scheduled() -> None:
    """U4."""
    verdict = judge("CronJob", {"spec": {"schedule": "@daily"}})
    assert (verdict.ready, verdict.word) == (True, "scheduled")
    assert judge("CronJob", {"spec": {"suspend": True}}).word == "suspended"
