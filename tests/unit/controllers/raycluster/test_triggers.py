"""Which changes of a Pod are worth a round of its RayCluster."""

from __future__ import annotations

import msgspec
import pytest

from manta.api.core import Pod
from manta.api.meta import Key
from manta.controllers.raycluster.controller import keys_of_pod

LABELS = {"ray.io/cluster": "c", "ray.io/is-ray-node": "yes", "ray.io/node-type": "worker"}
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}
WAITING = {"name": "w", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
MINE = (Key("n", "c"),)


def pod(node: str = "", **more: object) -> Pod:
    meta = {"namespace": "n", "name": "p", "labels": LABELS, **more.pop("metadata", {})}  # type: ignore[dict-item]
    document = {
        "metadata": meta,
        "spec": {"nodeName": node},
        "status": {"phase": "Pending", **more},
    }
    return msgspec.convert(document, Pod)


def test_a_pod_that_found_its_node_at_once_is_not() -> None:
    assert keys_of_pod(pod(), pod("node", conditions=[SCHEDULED])) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(None, pod("node"), id="a new Pod"),
        pytest.param(pod("node"), None, id="a Pod that is gone"),
        pytest.param(
            pod(conditions=[UNSCHEDULABLE]),
            pod("node", conditions=[SCHEDULED]),
            id="one that waited for its node",
        ),
        pytest.param(pod(), pod(conditions=[UNSCHEDULABLE]), id="one that finds none"),
        pytest.param(pod("node"), pod("node", phase="Running"), id="one that runs"),
        pytest.param(pod(), pod("node", phase="Failed"), id="one that failed meanwhile"),
        pytest.param(pod(), pod("node", containerStatuses=[WAITING]), id="one that cannot start"),
        pytest.param(
            pod(),
            pod("node", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            id="one that is told to go",
        ),
        pytest.param(
            pod(), pod("node", metadata={"annotations": {"a": "b"}}), id="one that was annotated"
        ),
    ],
)
def test_every_other_change_is(old: Pod | None, new: Pod | None) -> None:
    assert keys_of_pod(old, new) == MINE
