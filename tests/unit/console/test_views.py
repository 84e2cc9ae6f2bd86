"""What the console keeps of objects: thousands of them, so little of each."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.console.pages.parts import pod_state
from manta.console.views import Pod, RayObject, SharedObjects


def pod(name: str, second: int, **status: Any) -> Pod:
    """A Pod as the API server sends it; `second`: when it started."""
    at = f"2026-11-18T12:00:{second:02}Z"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at, "lastProbeTime": None}
    running = {"name": "ray", "ready": True, "state": {"running": {"startedAt": at}}}
    document = {
        "metadata": {
            "name": name,
            "labels": {"ray.io/cluster": "demo"},
            "annotations": {"long": "x" * 1000},
            "ownerReferences": [{"kind": "RayCluster", "name": "demo", "uid": "u"}],
        },
        "spec": {"containers": [{"name": "ray", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {
            "phase": "Running",
            "conditions": [ready],
            "containerStatuses": [running],
            **status,
        },
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=Pod)


def test_pods_of_one_group_share_what_is_equal() -> None:
    one, other = pod("a", 1), pod("b", 2)
    assert one.spec.containers is other.spec.containers
    assert one.status.conditions is other.status.conditions
    assert one.status.container_statuses is other.status.container_statuses
    assert one.metadata.annotations == {}
    assert not one.metadata.owner_references
    assert one.metadata.labels == {"ray.io/cluster": "demo"}


def test_a_pod_that_differs_keeps_its_own_state() -> None:
    waiting = {"name": "ray", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    ill = pod("c", 3, conditions=[], containerStatuses=[waiting])
    assert pod_state(pod("a", 1)).word == "ready"
    assert pod_state(ill).why == "container ray: ImagePullBackOff"
    starts = pod(
        "d", 4, conditions=[], containerStatuses=[{"name": "ray", "state": {"running": {}}}]
    )
    assert pod_state(starts).why.startswith("container ray runs, but its readiness probe")


def test_spec_and_status_are_read_from_what_the_server_wrote() -> None:
    text = b'{"metadata":{"name":"demo"},"spec":{"suspend":true},"status":null}'
    one = msgspec.json.decode(text, type=RayObject)
    assert one.spec == {"suspend": True}
    assert one.status == {}
    assert RayObject().spec == {}


def test_visitors_hold_each_version_of_an_object_together() -> None:
    """Each reads it with their own rights; it is in memory once, until the last of them is gone."""
    text = b'{"metadata":{"uid":"1","resourceVersion":"%d"}}'
    objects = SharedObjects()
    first, second, newer = [
        objects.share(msgspec.json.decode(text % version, type=RayObject)) for version in (7, 7, 8)
    ]
    assert first is second
    assert newer is not first
    assert len(objects) == 2
    del first, second
    assert len(objects) == 1
