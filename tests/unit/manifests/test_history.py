"""What Pods get so that their history is kept."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.usage import UsageError
from manta.api.well_known import ANNOTATION_KEEP_VOLUME
from manta.manifests.head_pod import build_head_pod
from manta.operator.deployed_options import parse_command_line
from manta.rules.settings import Settings

CLUSTER = msgspec.convert(
    {
        "metadata": {
            "name": "train-abc",
            "namespace": "default",
            "uid": "1",
            "labels": {names.LABEL_ORIGIN_KIND: "RayJob", names.LABEL_ORIGIN_NAME: "train"},
        },
        "spec": {
            "rayVersion": "2.60.0",
            "headGroupSpec": {
                "template": {"spec": {"containers": [{"name": "ray", "image": "ray:2.60.0"}]}}
            },
        },
    },
    RayCluster,
)
SIDECAR = Settings(history_store="s3://bucket/ray", history_image="manta:1")


def pod(settings: Settings, cluster: RayCluster = CLUSTER):
    return build_head_pod(cluster, settings, spec_hash="x")


def env_of(container) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container["env"]}


def test_a_native_sidecar_ships_to_the_store() -> None:
    made = pod(SIDECAR)
    sidecar = made["spec"]["initContainers"][0]
    assert (sidecar["command"], sidecar["restartPolicy"]) == (["manta", "collect"], "Always")
    env = env_of(sidecar)
    assert env[names.ENV_HISTORY_STORE] == "s3://bucket/ray"
    assert (env[names.ENV_OWNER_KIND], env[names.ENV_OWNER_NAME]) == ("RayJob", "train")
    ray = made["spec"]["containers"][0]
    assert env_of(ray)[names.ENV_EVENTS_EXPORT_ADDRESS] == "http://localhost:8084/v1/events"
    assert "WORKER_LIFECYCLE_EVENT" in env_of(ray)[names.ENV_EXPOSABLE_EVENT_TYPES]
    for container in (ray, sidecar):
        assert {"name": "ray-logs", "mountPath": "/tmp/ray"} in container["volumeMounts"]


def test_the_sidecar_has_every_variable_once() -> None:
    """Server-side apply refuses a name twice."""
    [sidecar] = sidecars(pod(SIDECAR))
    given = [one["name"] for one in sidecar["env"]]
    assert sorted(given) == sorted(set(given))


def test_on_manta_up_the_node_agent_keeps_the_volume() -> None:
    made = pod(Settings(history_store="node"))
    assert "initContainers" not in made["spec"]
    annotations = made["metadata"]["annotations"]
    assert annotations[ANNOTATION_KEEP_VOLUME] == "ray-logs"
    assert annotations[names.ANNOTATION_HISTORY] == "rayjob/train/train-abc"
    assert {"name": "ray-logs", "emptyDir": {}} in made["spec"]["volumes"]


@pytest.mark.parametrize("settings", [SIDECAR, Settings(history_store="node")])
def test_a_cluster_can_opt_out(settings: Settings) -> None:
    meta = msgspec.structs.replace(
        CLUSTER.metadata, annotations={names.ANNOTATION_HISTORY: "false"}
    )
    refused = msgspec.structs.replace(CLUSTER, metadata=meta)
    assert pod(settings, refused) == pod(replace(settings, history_store=""), refused)


def with_spec(head: dict[str, Any] | None = None, **spec: Any) -> RayCluster:
    plain = msgspec.to_builtins(CLUSTER)
    plain["spec"] |= spec
    plain["spec"]["headGroupSpec"]["template"]["spec"] |= head or {}
    return msgspec.convert(plain, RayCluster)


def collector(**options: Any) -> dict[str, Any]:
    return {"historyServerOptions": {"collectorOptions": options}}


def sidecars(made: dict[str, Any]) -> list[dict[str, Any]]:
    spec = made["spec"]
    both = [*(spec.get("initContainers") or ()), *spec["containers"]]
    return [one for one in both if one["name"] == names.CONTAINER_HISTORY]


@pytest.mark.parametrize("image", ["", "manta:1"])
def test_a_cluster_without_an_image_of_its_own_gets_our_sidecar(image: str) -> None:
    store = {"name": "MANTA_HISTORY_STORE", "value": "gs://own"}
    limits = {"limits": {"memory": "1Gi"}}
    options = collector(image=image, env=[store], resources=limits, imagePullPolicy="Always")
    cluster = with_spec(**options)
    [sidecar] = sidecars(pod(Settings(history_image="manta:1"), cluster))
    assert env_of(sidecar)["MANTA_HISTORY_STORE"] == "gs://own"
    assert (sidecar["resources"], sidecar["imagePullPolicy"]) == (limits, "Always")


def test_another_image_is_kuberays_collector_as_before() -> None:
    cluster = with_spec(**collector(image="collector:1", env=[]))
    assert pod(SIDECAR, cluster) == pod(Settings(), cluster)


def test_the_sidecar_runs_as_the_user_of_ray() -> None:
    """So that it can read the logs, and a namespace that restricts users admits the Pod."""
    rights = {"runAsUser": 1000, "runAsNonRoot": True, "privileged": True}
    ray = {"name": "ray", "image": "ray:2.60.0", "securityContext": rights}
    [sidecar] = sidecars(pod(SIDECAR, with_spec({"containers": [ray]})))
    context = sidecar["securityContext"]
    assert (context["runAsUser"], context["runAsNonRoot"]) == (1000, True)
    assert "privileged" not in context


def test_the_sidecar_mounts_what_the_user_mounts_at_tmp_ray() -> None:
    mount = {"name": "fast", "mountPath": "/tmp/ray", "subPath": "x"}
    ray = {"name": "ray", "image": "ray:2.60.0", "volumeMounts": [mount]}
    [sidecar] = sidecars(pod(SIDECAR, with_spec({"containers": [ray]})))
    assert mount in sidecar["volumeMounts"]


def test_a_store_in_a_directory_needs_its_volume_in_every_template() -> None:
    settings = replace(SIDECAR, history_store="file:///history")
    volume = {"name": "manta-history", "persistentVolumeClaim": {"claimName": "x"}}
    assert sidecars(pod(settings)) == []
    [sidecar] = sidecars(pod(settings, with_spec({"volumes": [volume]})))
    assert {"name": "manta-history", "mountPath": "/history"} in sidecar["volumeMounts"]


def test_a_container_of_the_same_name_stays_the_only_one() -> None:
    """The API server would refuse a Pod with two."""
    ray = {"name": "ray", "image": "ray:2.60.0"}
    cluster = with_spec({"containers": [ray, {"name": "manta-history", "image": "own"}]})
    [own] = sidecars(pod(SIDECAR, cluster))
    assert own["image"] == "own"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--history-store", "s3://bucket"], "needs --history-image"),
        (["--history-store", "bucket", "--history-image", "x"], "must start with file://"),
        (["--history-store", "s3://k:secret@b", "--history-image", "x"], "no credentials"),
    ],
)
def test_the_operator_refuses_a_store_that_it_cannot_use(flags: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        parse_command_line(flags, {})
