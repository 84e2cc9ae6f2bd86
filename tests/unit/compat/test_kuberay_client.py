"""`manta.compat.kuberay`: the names and signatures of KubeRay's client; its examples as tests."""

from __future__ import annotations

import gc
import inspect
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from manta.compat.kuberay import constants, kuberay_cluster_api, kuberay_job_api
from manta.compat.kuberay.connection import Connection
from manta.compat.kuberay.utils import kuberay_cluster_builder, kuberay_cluster_utils
from manta.sdk.checking import check
from manta.sdk.types import RayCluster
from support.rayjob_scenario import Scenario, is_running
from support.sdk import a_client

SIZES = {
    "name": "<required>",
    "k8s_namespace": "default",
    "labels": None,
}
WAIT = {
    "name": "<required>",
    "k8s_namespace": "default",
    "timeout": 60,
    "delay_between_attempts": 5,
}
NAMED = {"name": "<required>", "k8s_namespace": "default"}
AMOUNTS = ("cpu_requests", "memory_requests", "cpu_limits", "memory_limits")


def required(*names: str) -> dict[str, Any]:
    return dict.fromkeys(names, "<required>")


SIGNATURES: dict[str, dict[str, Any]] = {
    "RayClusterApi.list_ray_clusters": {
        "k8s_namespace": "default", "label_selector": "", "async_req": False,
    },
    "RayClusterApi.get_ray_cluster": NAMED,
    "RayClusterApi.get_ray_cluster_status": WAIT,
    "RayClusterApi.wait_until_ray_cluster_running": WAIT,
    "RayClusterApi.create_ray_cluster": {"body": "<required>", "k8s_namespace": "default"},
    "RayClusterApi.delete_ray_cluster": NAMED,
    "RayClusterApi.patch_ray_cluster": {
        "name": "<required>", "ray_patch": "<required>", "k8s_namespace": "default",
    },
    "RayjobApi.submit_job": {"k8s_namespace": "default", "job": None},
    "RayjobApi.get_job_status": WAIT,
    "RayjobApi.wait_until_job_finished": WAIT,
    "RayjobApi.wait_until_job_running": WAIT,
    "RayjobApi.suspend_job": NAMED,
    "RayjobApi.resubmit_job": NAMED,
    "RayjobApi.delete_job": NAMED,
    "RayjobApi.get_job": NAMED,
    "RayjobApi.list_jobs": {"k8s_namespace": "default"},
    "ClusterBuilder.build_meta": {**SIZES, "ray_version": "2.46.0"},
    "ClusterBuilder.build_head": {
        "ray_image": "rayproject/ray:2.46.0", "service_type": "ClusterIP", "cpu_requests": "2",
        "memory_requests": "3G", "cpu_limits": "2", "memory_limits": "3G",
        "ray_start_params": {"dashboard-host": "0.0.0.0"},
    },
    "ClusterBuilder.build_worker": {
        "group_name": "<required>", "ray_image": "rayproject/ray:2.46.0",
        "ray_command": ["/bin/bash", "-lc"], "init_image": "busybox:1.28", "cpu_requests": "1",
        "memory_requests": "1G", "cpu_limits": "2", "memory_limits": "2G", "replicas": 1,
        "min_replicas": -1, "max_replicas": -1, "ray_start_params": {},
    },
    "ClusterBuilder.get_cluster": {},
    "Director.build_basic_cluster": SIZES,
    "Director.build_small_cluster": SIZES,
    "Director.build_medium_cluster": SIZES,
    "Director.build_large_cluster": SIZES,
    "ClusterUtils.populate_meta": required(
        "cluster", "name", "k8s_namespace", "labels", "ray_version"
    ),
    "ClusterUtils.populate_ray_head": required(
        "cluster", "ray_image", "service_type", *AMOUNTS, "ray_start_params"
    ),
    "ClusterUtils.populate_worker_group": required(
        "group_name", "ray_image", "ray_command", "init_image", *AMOUNTS,
        "replicas", "min_replicas", "max_replicas", "ray_start_params",
    ),
    "ClusterUtils.update_worker_group_replicas": required(
        "cluster", "group_name", "max_replicas", "min_replicas", "replicas"
    ),
    "ClusterUtils.update_worker_group_resources": {
        **required("cluster", "group_name", *AMOUNTS), "container_name": "unspecified",
    },
    "ClusterUtils.duplicate_worker_group": required("cluster", "group_name", "new_group_name"),
    "ClusterUtils.delete_worker_group": required("cluster", "group_name"),
    "ClusterUtils.is_valid_name": required("name"),
    "ClusterUtils.is_valid_label": required("name"),
}  # fmt: skip
CLASSES = {
    "RayClusterApi": kuberay_cluster_api.RayClusterApi,
    "RayjobApi": kuberay_job_api.RayjobApi,
    "ClusterBuilder": kuberay_cluster_builder.ClusterBuilder,
    "Director": kuberay_cluster_builder.Director,
    "ClusterUtils": kuberay_cluster_utils.ClusterUtils,
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_signature_is_kuberays(name: str) -> None:
    cls, _, method = name.partition(".")
    parameters = list(inspect.signature(getattr(CLASSES[cls], method)).parameters.values())[1:]
    ours = {
        one.name: "<required>" if one.default is inspect.Parameter.empty else one.default
        for one in parameters
    }
    assert list(ours.items()) == list(SIGNATURES[name].items())
    assert {one.kind for one in parameters} <= {inspect.Parameter.POSITIONAL_OR_KEYWORD}


def test_there_is_no_other_public_method() -> None:
    ours = {
        f"{name}.{method}"
        for name, cls in CLASSES.items()
        for method, value in inspect.getmembers(cls, inspect.isfunction)
        if not method.startswith("_")
    }
    assert ours == SIGNATURES.keys()


def test_the_constants_are_there() -> None:
    assert (constants.GROUP, constants.CLUSTER_PLURAL, constants.JOB_KIND) == (
        "ray.io", "rayclusters", "RayJob",
    )  # fmt: skip
    assert kuberay_job_api.TERMINAL_JOB_STATUSES == ["STOPPED", "SUCCEEDED", "FAILED"]


# ── builders ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("size", "replicas", "most", "limits"),
    [
        ("small", 1, 2, {"cpu": "2", "memory": "2G"}),
        ("medium", 3, 6, {"cpu": "4", "memory": "4G"}),
        ("large", 6, 12, {"cpu": "6", "memory": "8G"}),
    ],
)
def test_the_director_builds_each_size(
    size: str, replicas: int, most: int, limits: dict[str, str]
) -> None:
    director = kuberay_cluster_builder.Director()
    cluster = getattr(director, f"build_{size}_cluster")(name="demo", labels={"a": "b"})
    [group] = cluster["spec"]["workerGroupSpecs"]
    assert (group["groupName"], group["replicas"]) == ("demo-workers", replicas)
    assert (group["minReplicas"], group["maxReplicas"]) == (0, most)
    assert group["template"]["spec"]["containers"][0]["resources"]["limits"] == limits
    assert cluster["metadata"] == {"name": "demo", "namespace": "default", "labels": {"a": "b"}}
    assert cluster["spec"]["rayVersion"] == "2.46.0"
    check(RayCluster, cluster)


def test_the_director_builds_several_clusters_that_share_nothing() -> None:
    director = kuberay_cluster_builder.Director()
    first = director.build_basic_cluster(name="first")
    second = director.build_small_cluster(name="second")
    assert first is not None
    assert second is not None
    assert "workerGroupSpecs" not in first["spec"]
    assert first["metadata"]["name"] == "first"
    with pytest.raises(AssertionError, match="name='Not valid'"):
        director.build_small_cluster(name="Not valid")


def test_the_builder_takes_several_groups_and_says_whether_it_succeeded() -> None:
    """KubeRay's own keeps only the last group."""
    builder = kuberay_cluster_builder.ClusterBuilder()
    cluster = (
        builder.build_meta(name="demo")
        .build_head()
        .build_worker(group_name="workers", replicas=3)
        .build_worker(group_name="more")
        .get_cluster()
    )
    assert builder.succeeded
    assert [one["groupName"] for one in cluster["spec"]["workerGroupSpecs"]] == ["workers", "more"]
    assert cluster["spec"]["workerGroupSpecs"][0]["minReplicas"] == 2
    assert cluster["spec"]["workerGroupSpecs"][0]["maxReplicas"] == 9
    builder.build_worker(group_name="empty", cpu_requests="")
    assert not builder.succeeded
    assert len(builder.get_cluster()["spec"]["workerGroupSpecs"]) == 2
    assert not kuberay_cluster_builder.ClusterBuilder().build_worker("early").succeeded
    assert not kuberay_cluster_builder.ClusterBuilder().build_head().succeeded


def a_built_cluster() -> dict[str, Any]:
    builder = kuberay_cluster_builder.ClusterBuilder()
    return builder.build_meta(name="demo").build_head().build_worker("workers").get_cluster()


def test_the_utils_change_groups() -> None:
    utils, cluster = kuberay_cluster_utils.ClusterUtils(), a_built_cluster()
    cluster, done = utils.update_worker_group_replicas(cluster, "workers", 4, 1, 2)
    [group] = cluster["spec"]["workerGroupSpecs"]
    assert done
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (2, 1, 4)
    cluster, done = utils.duplicate_worker_group(cluster, "workers", "copies")
    assert done
    cluster, done = utils.update_worker_group_resources(cluster, "copies", "3", "5G", "3", "5G")
    assert done
    first, second = cluster["spec"]["workerGroupSpecs"]
    assert second["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "3"
    assert first["template"]["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "2"
    cluster, done = utils.delete_worker_group(cluster, "workers")
    assert [one["groupName"] for one in cluster["spec"]["workerGroupSpecs"]] == ["copies"]


@pytest.mark.parametrize(
    ("container", "changed"),
    [("unspecified", [0]), ("all_containers", [0, 1]), ("sidecar", [1]), ("nobody", [])],
)
def test_the_resources_of_chosen_containers_are_changed(container: str, changed: list[int]) -> None:
    utils, cluster = kuberay_cluster_utils.ClusterUtils(), a_built_cluster()
    pod = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    pod["containers"].append({**json.loads(json.dumps(pod["containers"][0])), "name": "sidecar"})
    _, done = utils.update_worker_group_resources(
        cluster, "workers", "9", "9G", "9", "9G", container_name=container
    )
    assert done is bool(changed)
    found = [
        at for at, one in enumerate(pod["containers"]) if one["resources"]["limits"]["cpu"] == "9"
    ]
    assert found == changed


def test_what_the_utils_cannot_do_is_false_or_an_assertion() -> None:
    utils = kuberay_cluster_utils.ClusterUtils()
    assert utils.update_worker_group_replicas(a_built_cluster(), "no", 4, 1, 2)[1] is False
    assert utils.duplicate_worker_group(a_built_cluster(), "no", "new")[1] is False
    assert utils.delete_worker_group(a_built_cluster(), "")[1] is False
    with pytest.raises(AssertionError, match="max_replicas=1 is less than min_replicas=4"):
        utils.update_worker_group_replicas(a_built_cluster(), "workers", 1, 4, 2)
    assert [utils.is_valid_name(one) for one in ("ab", "a.b-c", "A", "a_b", "a" * 64)] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert utils.is_valid_label("a_b")


# ── the APIs, as in KubeRay's examples ───────────────────────────────────────────────────

A = TypeVar("A", bound=Connection)


@pytest.fixture
def scenario() -> Iterator[tuple[Any, Scenario]]:
    with a_client() as (ray, scenario):
        yield ray, scenario


def end_job(scenario: tuple[Any, Scenario]) -> None:
    """Let the job succeed once Ray runs it."""
    ray, fake = scenario

    async def end() -> None:
        fake.end(await fake.until(is_running), "SUCCEEDED")

    ray._loop.run(end())


def opened(cls: type[A], scenario: tuple[Any, Scenario]) -> A:
    """Over the embedded server, instead of one that KUBECONFIG names."""
    made = cls.__new__(cls)
    made._loop, made._kube = scenario[0]._loop, scenario[1].client
    return made


def test_example_a_cluster_of_the_director_is_created_awaited_and_deleted(scenario) -> None:
    api = opened(kuberay_cluster_api.RayClusterApi, scenario)
    body = kuberay_cluster_builder.Director().build_small_cluster(name="new-small-cluster")
    assert body is not None
    assert api.create_ray_cluster(body=body)["metadata"]["uid"]
    found = api.get_ray_cluster(name="new-small-cluster", k8s_namespace="default")
    json.dumps(found)
    assert api.get_ray_cluster_status("new-small-cluster")
    assert api.wait_until_ray_cluster_running("new-small-cluster") is True
    assert api.get_ray_cluster("new-small-cluster")["status"]["state"] == "ready"
    assert api.delete_ray_cluster("new-small-cluster", "default")


def test_example_clusters_are_built_patched_listed_by_label_and_deleted(scenario) -> None:
    api = opened(kuberay_cluster_api.RayClusterApi, scenario)
    builder = kuberay_cluster_builder.ClusterBuilder()
    utils = kuberay_cluster_utils.ClusterUtils()
    clusters = []
    for number in (1, 2):
        clusters.append(
            builder.build_meta(name=f"new-cluster{number}", labels={"demo-cluster": "yes"})
            .build_head()
            .build_worker(group_name="workers")
            .get_cluster()
        )
        assert api.create_ray_cluster(body=clusters[-1])
    patched, done = utils.update_worker_group_replicas(
        clusters[1], group_name="workers", max_replicas=4, min_replicas=1, replicas=2
    )
    assert done
    assert api.patch_ray_cluster(name="new-cluster2", ray_patch=patched) is True
    patched, done = utils.duplicate_worker_group(
        clusters[0], group_name="workers", new_group_name="duplicate-workers"
    )
    assert done
    assert api.patch_ray_cluster(name="new-cluster1", ray_patch=patched) is True
    assert len(api.get_ray_cluster("new-cluster1")["spec"]["workerGroupSpecs"]) == 2
    assert api.get_ray_cluster("new-cluster2")["spec"]["workerGroupSpecs"][0]["replicas"] == 2
    listed = api.list_ray_clusters(k8s_namespace="default", label_selector="demo-cluster=yes")
    assert listed["kind"] == "RayClusterList"
    names = [one["metadata"]["name"] for one in listed["items"]]
    assert names == ["new-cluster1", "new-cluster2"]
    assert api.list_ray_clusters(label_selector="demo-cluster=no")["items"] == []
    assert len(api.list_ray_clusters(async_req=True).get(30)["items"]) == 2
    for name in names:
        assert api.delete_ray_cluster(name=name)


def a_job(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "entrypoint": "python -c 'print(1)'",
            "submissionMode": "K8sJobMode",
            "clusterSelector": {"ray.io/cluster": "shared"},
            **spec,
        },
    }


def test_example_a_job_runs_on_a_cluster_that_is_there(scenario) -> None:
    clusters = opened(kuberay_cluster_api.RayClusterApi, scenario)
    jobs = opened(kuberay_job_api.RayjobApi, scenario)
    body = kuberay_cluster_builder.Director().build_basic_cluster(name="shared")
    clusters.create_ray_cluster(body=body)
    assert jobs.submit_job(job=a_job("demo"), k8s_namespace="default")["metadata"]["name"] == "demo"
    assert jobs.wait_until_job_running("demo") is True
    end_job(scenario)
    assert jobs.wait_until_job_finished("demo", "default", timeout=60) is True
    assert jobs.get_job_status("demo", "default")["jobStatus"] == "SUCCEEDED"
    ended = scenario[0].jobs.get("demo")
    ended.wait_for(lambda job: job.status.job_deployment_status == "Complete")
    assert jobs.wait_until_job_running("demo") is False
    assert [one["metadata"]["name"] for one in jobs.list_jobs()["items"]] == ["demo"]
    assert jobs.get_job("demo")["spec"]["entrypoint"] == "python -c 'print(1)'"
    assert jobs.delete_job("demo") is True
    assert jobs.delete_job("demo") is False


def test_example_a_job_is_suspended_and_submitted_again(scenario) -> None:
    jobs = opened(kuberay_job_api.RayjobApi, scenario)
    cluster = kuberay_cluster_builder.Director().build_basic_cluster(name="one")
    assert cluster is not None
    spec = {"rayClusterSpec": cluster["spec"], "shutdownAfterJobFinishes": True}
    job = a_job("demo", clusterSelector={}, **spec)
    assert jobs.submit_job(job=job)
    assert jobs.wait_until_job_running("demo") is True
    assert jobs.suspend_job("demo") is True
    job_object = scenario[0].jobs.get("demo")
    job_object.wait_for(lambda one: one.status.job_deployment_status == "Suspended")
    assert jobs.wait_until_job_running("demo") is False
    assert jobs.resubmit_job("demo") is True
    end_job(scenario)
    assert jobs.wait_until_job_finished("demo") is True


def test_errors_are_logged_and_become_none_or_false(
    scenario, caplog: pytest.LogCaptureFixture
) -> None:
    clusters = opened(kuberay_cluster_api.RayClusterApi, scenario)
    jobs = opened(kuberay_job_api.RayjobApi, scenario)
    with caplog.at_level(logging.ERROR):
        assert clusters.get_ray_cluster("nowhere") is None
        assert clusters.get_ray_cluster_status("nowhere") is None
        assert clusters.wait_until_ray_cluster_running("nowhere") is False
        assert clusters.delete_ray_cluster("nowhere") is None
        assert clusters.patch_ray_cluster("nowhere", {}) is False
        assert clusters.create_ray_cluster({"metadata": {}}) is None
        assert jobs.submit_job() is None
        assert jobs.get_job("nowhere") is None
        assert jobs.get_job_status("nowhere") is None
        assert jobs.suspend_job("nowhere") is False
    assert len(caplog.records) == 10
    body = kuberay_cluster_builder.Director().build_basic_cluster(name="demo")
    assert clusters.create_ray_cluster(body)
    assert clusters.create_ray_cluster(body) is None
    assert "already exists" in caplog.text


def test_a_wait_ends_with_its_time(scenario) -> None:
    scenario[1].kubelet.script = lambda _: {"phase": "Pending"}
    clusters = opened(kuberay_cluster_api.RayClusterApi, scenario)
    clusters.create_ray_cluster(kuberay_cluster_builder.Director().build_basic_cluster("demo"))
    assert clusters.wait_until_ray_cluster_running("demo", timeout=1) is False


def test_the_kubernetes_package_is_asked_for_only_when_it_is_used(
    scenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = opened(kuberay_cluster_api.RayClusterApi, scenario)
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    with pytest.raises(ImportError, match="CoreV1Api is of the kubernetes package: pip install"):
        _ = api.core_v1_api


def test_a_connection_ends_with_its_object(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(
        "{current-context: c, contexts: [{name: c, context: {cluster: c}}],"
        ' clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}'
    )
    monkeypatch.setenv("KUBECONFIG", str(file))
    api = kuberay_job_api.RayjobApi()
    assert api.list_jobs() is None
    loop = api._loop
    del api
    gc.collect()
    assert loop.closed
