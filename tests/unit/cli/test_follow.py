"""What an object waits for is said in one line, from the nearest cause."""

from __future__ import annotations

import pytest

from manta.cli.follow import judge, pod_waits_for


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
            "container ray runs, its readiness probe has not passed yet",
        ),
        ({"phase": "Pending"}, "phase Pending"),
    ],
)
def test_a_pod_names_the_nearest_cause(status: dict[str, object], why: str) -> None:
    assert pod_waits_for(pod(**status)) == why


def test_a_cluster_is_ready_by_its_state() -> None:
    assert judge("RayCluster", {"status": {"state": "ready"}}).ready


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


def test_a_trouble_is_told_before_what_is_merely_unmet() -> None:
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
