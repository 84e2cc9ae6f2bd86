"""What the words of `get`, `delete`, `logs`, `scale` and `events` mean (U16, U18)."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.usage import UsageError
from manta.api.well_known import ANNOTATION_DEFAULT_CONTAINER
from manta.cli import delete, get, logs
from manta.cli.describe import described
from manta.cli.events import age, in_order
from manta.cli.server.discovery import Kinds
from manta.client.scaling import scale_group
from manta.kube.client import Client
from support.plane import memory_plane
from support.raycluster import group, ray_cluster
from support.raycrds import ray_crds


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with memory_plane(crds=ray_crds()) as plane:
        yield plane.client


def parsed(verb: Any, *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    verb.add_parser(parser.add_subparsers())
    return parser.parse_args([verb.__name__.rpartition(".")[2], *words, "-n", "default"])


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("pods",), ["pods/"]),
        (("pods,svc",), ["pods/", "services/"]),
        (("pod", "a", "b"), ["pods/a", "pods/b"]),
        (("pod/a", "svc/b"), ["pods/a", "services/b"]),
        (("clusters",), ["rayclusters/"]),
    ],
)
async def test_kinds_and_names_are_read_as_kubectl_reads_them(
    client: Client, words: tuple[str, ...], found: list[str]
) -> None:
    chosen = get.selections(parsed(get, *words), await Kinds.discover(client))
    assert [f"{one.resource.plural}/{one.key.name}" for one in chosen] == found


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("pod/a", "b"), "use either KIND NAME"),
        (("pods,svc", "a"), "write names as KIND/NAME"),
        (("pod", "a", "-l", "x=y"), "either a name or -l"),
        (("pod", "a", "-A"), "needs one namespace"),
    ],
)
async def test_words_that_contradict_each_other_are_refused(
    client: Client, words: tuple[str, ...], why: str
) -> None:
    kinds = await Kinds.discover(client)
    with pytest.raises(UsageError, match=why):
        get.selections(parsed(get, *words), kinds)


async def test_objects_are_deleted_by_labels_and_never_all_by_mistake(client: Client) -> None:
    for name, labels in (("a", {"team": "x"}), ("b", {"team": "y"})):
        cluster = ray_cluster()
        cluster["metadata"] |= {"name": name, "labels": labels}
        await client.create(RAY_CLUSTERS, "default", cluster)
    kinds = await Kinds.discover(client)

    async def chosen(*words: str) -> list[str]:
        found = await delete._named(client, parsed(delete, "rayclusters", *words), kinds)
        return [key.name for _, key in found]

    assert await chosen("-l", "team=x") == ["a"]
    assert await chosen("--all") == ["a", "b"]
    with pytest.raises(UsageError, match="use -l LABELS or --all"):
        await chosen()


def test_logs_take_the_container_that_the_pod_names_else_the_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """U16: `manta logs POD` demanded -c."""
    pod: dict[str, Any] = {
        "metadata": {},
        "spec": {"containers": [{"name": "ray-head"}, {"name": "autoscaler"}]},
    }
    assert logs.default_container(pod) == "ray-head"
    assert "ray-head of ray-head, autoscaler (-c" in capsys.readouterr().err
    pod["metadata"]["annotations"] = {ANNOTATION_DEFAULT_CONTAINER: "autoscaler"}
    assert logs.default_container(pod) == "autoscaler"


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("5m", 300), ("1h30m", 5400)])
def test_since_takes_seconds_and_durations(text: str, seconds: int) -> None:
    assert parsed(logs, "x", "--since", text).since == seconds


async def test_a_group_is_scaled_within_its_bounds(client: Client) -> None:
    groups = [group(replicas=1, maxReplicas=4), {**group(replicas=1), "groupName": "gpu"}]
    await client.create(RAY_CLUSTERS, "default", ray_cluster(groups=groups))
    key = Key("default", "demo")
    with pytest.raises(UsageError, match="--group is missing: one of workers, gpu"):
        await scale_group(client, key, "", 2)
    with pytest.raises(UsageError, match="did you mean 'workers'"):
        await scale_group(client, key, "worker", 2)
    with pytest.raises(UsageError, match="--replicas 9: group workers has between"):
        await scale_group(client, key, "workers", 9)
    await scale_group(client, key, "workers", 3)
    found = (await client.get(RAY_CLUSTERS, key))["spec"]["workerGroupSpecs"]
    assert [one["replicas"] for one in found] == [3, 1]


def test_events_are_in_order_wherever_their_time_is() -> None:
    """U13 is the server's; recorders differ all the same."""
    old = {"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "lastTimestamp": None}
    new = {
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "eventTime": "2026-01-02T00:00:00.000000Z",
    }
    assert in_order([new, old]) == [old, new]
    assert [age(one) for one in (5, 200, 1200, 7200, 999999)] == ["5s", "3m20s", "20m", "2h", "11d"]


def test_a_description_has_state_conditions_and_events() -> None:
    document = {
        **ray_cluster(),
        "status": {"conditions": [{"type": "HeadPodReady", "status": "False", "message": "no"}]},
    }
    text = "\n".join(described("RayCluster", document, []))
    assert "State:       not ready (no)" in text
    assert "HeadPodReady   False" in text
    assert "Events:      none" in text
