"""What a confirmed action sends: new jobs, upgrades, the way back, and diffs."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from manta.api.documents.reader import read_yaml
from manta.api.usage import UsageError
from manta.client.upgrades import CONFIG, SERVE
from manta.console.changes import Create, Patch, change_of, retry_name
from manta.console.differences import MAX_LINES, difference
from support.console import ray, snapshot

FAILED = {"jobDeploymentStatus": "Failed"}
JOB = ray(
    "RayJob",
    "train",
    FAILED,
    spec={"entrypoint": "python x.py", "jobId": "once", "backoffLimit": 0},
    labels={"team": "vision", "ray.io/originated-from-cr-name": "nightly"},
)


def config(image: str) -> dict[str, object]:
    pod = {"spec": {"containers": [{"name": "ray", "image": image}]}}
    group = {"groupName": "w", "replicas": 1, "template": pod}
    return {
        "rayVersion": "2.51.0",
        "headGroupSpec": {"template": pod},
        "workerGroupSpecs": [group],
    }


ACTIVE = ray("RayCluster", "shop-a", spec=config("ray:1"))
SERVICE = ray(
    "RayService",
    "shop",
    {
        "activeServiceStatus": {
            "rayClusterName": "shop-a",
            "serveSubmission": {"config": json.dumps({"applications": [], "target_capacity": 40})},
        },
        "pendingServiceStatus": {"rayClusterName": "shop-b"},
    },
    spec={
        "rayClusterConfig": config("ray:2"),
        "serveConfigV2": "applications: [{name: web}]\n",
    },
)


def test_a_retry_is_a_new_job_of_the_same_spec() -> None:
    change = change_of("retry", JOB, snapshot(JOB), {"name": retry_name(JOB, snapshot(JOB))})
    assert isinstance(change, Create)
    assert change.document == {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {
            "name": "train-retry-1",
            "namespace": "default",
            "labels": {"team": "vision"},
        },
        "spec": {"entrypoint": "python x.py", "backoffLimit": 0},
    }


def test_the_retry_of_a_retry_has_the_next_number() -> None:
    first = ray("RayJob", "train-retry-1", FAILED)
    assert retry_name(first, snapshot(JOB, first)) == "train-retry-2"


def test_the_name_of_a_retry_fits_the_limit() -> None:
    long = ray("RayJob", "a" * 47, FAILED)
    assert retry_name(long, snapshot(long)) == "a" * 39 + "-retry-1"


def test_a_name_that_no_object_can_have_is_explained() -> None:
    with pytest.raises(UsageError, match="lower-case"):
        change_of("retry", JOB, snapshot(JOB), {"name": "../x"})


def test_an_upgrade_sets_the_image_of_every_group_and_checks_their_names() -> None:
    fields = {"image": "ray:3", "version": "2.52.0"}
    change = change_of("upgrade", SERVICE, snapshot(SERVICE), fields)
    assert isinstance(change, Patch)
    paths = [(one["op"], one["path"].removeprefix(CONFIG)) for one in change.operations[1:]]
    assert paths == [
        ("test", "/workerGroupSpecs/0/groupName"),
        ("add", "/headGroupSpec/template/spec/containers/0/image"),
        ("add", "/workerGroupSpecs/0/template/spec/containers/0/image"),
        ("add", "/rayVersion"),
    ]


@pytest.mark.parametrize("image", ["", "two words", "x" * 600])
def test_an_image_that_is_none_is_explained(image: str) -> None:
    with pytest.raises(UsageError, match="Image"):
        change_of("upgrade", SERVICE, snapshot(SERVICE), {"image": image, "version": ""})


def test_the_way_back_is_the_spec_and_the_serve_config_of_the_active_cluster() -> None:
    change = change_of("rollback", SERVICE, snapshot(SERVICE, ACTIVE), {})
    assert isinstance(change, Patch)
    _, unchanged, back, serve = change.operations
    assert unchanged == {"op": "test", "path": CONFIG, "value": config("ray:2")}
    assert back == {"op": "replace", "path": CONFIG, "value": config("ray:1")}
    assert (serve["path"], read_yaml(serve["value"])) == (SERVE, {"applications": []})


def test_the_way_back_from_a_canary_is_the_full_size_of_the_active_cluster() -> None:
    """A canary shrinks the active cluster step by step; an autoscaler names workers that go."""
    now = {"replicas": 1, "minReplicas": 1, "maxReplicas": 1, "scaleStrategy": {"workersToDelete": ["shop-a-w-1"]}}  # fmt: skip
    spec, [group] = config("ray:1"), cast("Any", config("ray:1"))["workerGroupSpecs"]
    for note, size in (
        ({"manta.ray.io/full-size": "w=4/2/10"}, {"replicas": 4, "minReplicas": 2, "maxReplicas": 10}),
        ({"manta.ray.io/full-size": "w=4//"}, {"replicas": 4}),
        ({}, {"replicas": 1, "minReplicas": 1, "maxReplicas": 1}),
    ):  # fmt: skip
        shrunk = {**spec, "workerGroupSpecs": [group | now]}
        active = ray("RayCluster", "shop-a", spec=shrunk, annotations=note)
        change = change_of("rollback", SERVICE, snapshot(SERVICE, active), {})
        assert isinstance(change, Patch)
        [written] = [one["value"] for one in change.operations if one["path"] == CONFIG and one["op"] == "replace"]  # fmt: skip
        assert written == {**spec, "workerGroupSpecs": [{**group, **size}]}


def test_without_the_active_cluster_there_is_no_way_back() -> None:
    with pytest.raises(UsageError, match="shop-a"):
        change_of("rollback", SERVICE, snapshot(SERVICE), {})


def test_a_diff_leaves_out_what_the_server_adds() -> None:
    before = {"kind": "X", "metadata": {"name": "a", "uid": "1"}, "spec": {"size": 1}, "status": {}}
    after = {**before, "metadata": {"name": "a", "uid": "1", "generation": 2}, "spec": {"size": 2}}
    assert [line for line in difference(before, after) if line[0] in "+-"] == [
        "-  size: 1",
        "+  size: 2",
    ]
    assert difference(before, {**before, "status": {"ready": True}}) == ()


def test_a_long_diff_is_cut_and_says_so() -> None:
    many = {f"k{number}": number for number in range(MAX_LINES + 100)}
    assert "more lines" in difference(None, {"spec": many})[-1]
    endless = {"spec": list(range(30_000))}
    assert "too many to compare" in difference(endless, {"spec": []})[0]
