"""Silent nodes and their Pods."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from manta.localplane.builtin.nodelifecycle.plan import Cause, plan
from manta.localplane.builtin.nodelifecycle.snapshot import NodeSnapshot
from manta.localplane.builtin.views import Node, NodeStatus, Pod
from manta.reconcile.actions import Delete, Patch
from manta.reconcile.plan import Plan
from support.plane_objects import NOW, a_node, a_pod, ago


def planned(node: Node | None, *pods: Pod, last_heartbeat: datetime = NOW) -> Plan:
    return plan(NodeSnapshot("n1", node, pods, last_heartbeat, NOW))


def before(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def unreachable(since: float) -> dict[str, Any]:
    key = "node.kubernetes.io/unreachable"
    taints = [
        {"key": key, "effect": "NoSchedule", "timeAdded": ago(since)},
        {"key": key, "effect": "NoExecute", "timeAdded": ago(since)},
    ]
    return {"ready": "Unknown", "taints": taints}


def tolerating(seconds: int | None) -> dict[str, Any]:
    toleration = {
        "key": "node.kubernetes.io/unreachable",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": seconds,
    }
    return {"node": "n1", "tolerations": [toleration]}


def test_a_node_that_is_heard_of_is_looked_at_again_when_its_time_is_up() -> None:
    result = planned(a_node(), last_heartbeat=before(15))
    assert result.actions == ()
    assert result.wait
    assert result.wait.retry_in == timedelta(seconds=35)


def test_a_silent_node_becomes_unknown() -> None:
    [patch] = planned(a_node(), last_heartbeat=before(50)).actions
    assert isinstance(patch, Patch)
    conditions = patch.patch["status"]["conditions"]
    assert [one["type"] for one in conditions] == [
        "MemoryPressure",
        "DiskPressure",
        "PIDPressure",
        "Ready",
    ]
    assert {(one["status"], one["reason"], one["message"]) for one in conditions} == {
        ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    }


def test_a_node_that_never_said_anything_is_distinguished() -> None:
    mute = msgspec.structs.replace(a_node(), status=NodeStatus())
    [patch] = planned(mute, last_heartbeat=before(50)).actions
    assert isinstance(patch, Patch)
    assert patch.patch["status"]["conditions"][0]["reason"] == "NodeStatusNeverUpdated"


@pytest.mark.parametrize(
    ("ready", "key"),
    [
        ("Unknown", "node.kubernetes.io/unreachable"),
        ("False", "node.kubernetes.io/not-ready"),
    ],
)
def test_a_node_that_is_not_ready_is_tainted(ready: str, key: str) -> None:
    [patch] = planned(a_node(ready=ready)).actions
    assert isinstance(patch, Patch)
    assert [(one["key"], one["effect"]) for one in patch.patch["spec"]["taints"]] == [
        (key, "NoSchedule"),
        (key, "NoExecute"),
    ]


def test_a_node_that_is_back_loses_our_taints_and_keeps_the_others() -> None:
    taints = [*unreachable(9)["taints"], {"key": "gpu", "effect": "NoSchedule"}]
    [patch] = planned(a_node(taints=taints)).actions
    assert isinstance(patch, Patch)
    assert patch.patch["spec"]["taints"] == [{"key": "gpu", "effect": "NoSchedule"}]


def test_pods_on_a_silent_node_are_no_longer_ready() -> None:
    pod = a_pod("p", ready=True, **tolerating(None))
    [patch] = planned(a_node(**unreachable(1)), pod).actions
    assert (patch.cause, patch.key.name) == (Cause.POD_NOT_READY, "p")


def test_pods_stay_as_long_as_they_tolerate() -> None:
    result = planned(a_node(**unreachable(100)), a_pod("p", **tolerating(300)))
    assert result.actions == ()
    assert result.wait
    assert result.wait.retry_in == timedelta(seconds=200)


def test_pods_go_when_their_patience_is_over() -> None:
    mark, delete = planned(a_node(**unreachable(300)), a_pod("p", **tolerating(300))).actions
    assert mark.cause is Cause.DISRUPTED
    assert isinstance(delete, Delete)
    assert delete.uid == "uid-p"


def test_pods_without_a_toleration_go_at_once_and_those_with_a_boundless_one_never() -> None:
    pods = (a_pod("none", node="n1"), a_pod("always", **tolerating(None)))
    gone = [one.key.name for one in planned(a_node(**unreachable(0)), *pods).actions]
    assert gone == ["none", "none"]


def test_pods_of_a_node_that_is_gone_are_removed_by_force_after_a_while() -> None:
    pod = a_pod("p", node="n1")
    assert planned(None, pod, last_heartbeat=before(39)).actions == ()
    mark, delete = planned(None, pod, last_heartbeat=before(40)).actions
    assert isinstance(mark, Patch)
    assert mark.patch["status"]["phase"] == "Failed"
    [condition] = [
        one for one in mark.patch["status"]["conditions"] if one["type"] == "DisruptionTarget"
    ]
    assert condition["reason"] == "DeletionByPodGC"
    assert isinstance(delete, Delete)
    assert delete.grace_seconds == 0
