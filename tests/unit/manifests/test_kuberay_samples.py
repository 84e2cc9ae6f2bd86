"""KubeRay's sample RayClusters: what their Pods, sidecars and Services have to say.

What is expected is written down here from KubeRay's behaviour, not worked out by our own builders.
Where we mean to differ, it says so. How the samples come to run: tests/cluster/test_raycluster_examples.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import yaml

from manta.reconcile.actions import Create
from manta.rules.settings import Settings
from support.peers import KUBERAY_SAMPLES
from support.raycluster_scenario import UID, Scenario, decode

SETTINGS = Settings(version="v-test")
ULIMIT = "ulimit -n ${RAY_START_ULIMIT_OPEN_FILES:-65536}; "
BASH = ["/bin/bash", "-c", "--"]
GIB = 2**30


@dataclass(frozen=True)
class Sample:
    cluster: str
    head: tuple[str, ...]
    """The options of `ray start --head`, sorted by name."""
    worker: tuple[str, ...] = ()
    """The same of the workers, without the head's address; empty: there are none."""
    group: str = ""
    head_args: str = ULIMIT + "{start}"
    worker_args: str = ULIMIT + "{start}"
    head_service: str = ""
    head_ports: dict[str, int] = field(
        default_factory=lambda: {"gcs-server": 6379, "dashboard": 8265, "client": 10001}
    )
    http_probes: bool = False
    autoscaler: bool = False
    autoscaler_version: str = ""
    token: bool = False
    redis: bool = False
    overwritten: bool = False

    @property
    def service(self) -> str:
        return self.head_service or f"{self.cluster}-head-svc"

    @property
    def address(self) -> str:
        return f"{self.service}.default.svc.cluster.local"

    @property
    def head_start(self) -> str:
        return "ray start --head " + "".join(f" {one} " for one in self.head)

    @property
    def worker_start(self) -> str:
        reported = (f"--address={self.address}:6379", *self.worker)
        return "ray start " + "".join(f" {one} " for one in reported)


def head_says(cpus: int, memory: int, *, monitor: bool = True, more: str = "") -> tuple[str, ...]:
    return (
        "--block",
        "--dashboard-agent-listen-port=52365",
        "--dashboard-host=0.0.0.0",
        f"--memory={memory}",
        "--metrics-export-port=8080",
        *(() if monitor else ("--no-monitor",)),
        f"--num-cpus={cpus}",
        *((more,) if more else ()),
    )


def worker_says(cpus: int, memory: int) -> tuple[str, ...]:
    return (
        "--block",
        "--dashboard-agent-listen-port=52365",
        f"--memory={memory}",
        "--metrics-export-port=8080",
        f"--num-cpus={cpus}",
    )


SAMPLES = {
    "sample": Sample(
        "raycluster-kuberay", head_says(1, 5 * GIB), worker_says(1, GIB), group="workergroup"
    ),
    "auth": Sample(
        "ray-cluster-with-auth",
        head_says(4, 8 * GIB, monitor=False),
        worker_says(4, 8 * GIB),
        group="workergroup",
        http_probes=True,
        autoscaler=True,
        token=True,
    ),
    "autoscaler": Sample(
        "raycluster-autoscaler",
        head_says(0, 5 * GIB, monitor=False),
        worker_says(1, GIB),
        group="small-group",
        head_ports={"gcs": 6379, "dashboard": 8265, "client": 10001},
        autoscaler=True,
    ),
    "autoscaler-v2": Sample(
        "raycluster-autoscaler",
        head_says(0, 5 * GIB, monitor=False),
        worker_says(1, GIB),
        group="small-group",
        head_ports={"gcs": 6379, "dashboard": 8265, "client": 10001},
        autoscaler=True,
        autoscaler_version="v2",
    ),
    "custom-head-service": Sample(
        "custom-head-svc", head_says(1, 5 * GIB), head_service="custom-ray-head-service-name"
    ),
    "external-redis": Sample(
        "raycluster-external-redis",
        head_says(0, 5 * GIB, more="--redis-password=$REDIS_PASSWORD"),
        worker_says(1, GIB),
        group="small-group",
        head_ports={"redis": 6379, "dashboard": 8265, "client": 10001},
        redis=True,
    ),
    "head-command": Sample(
        "raycluster-head-command",
        head_says(1, 5 * GIB),
        head_args=" echo 123  456  && " + ULIMIT + "{start}",
    ),
    "overwrite-command": Sample(
        "raycluster-overwrite-cmd",
        head_says(1, 5 * GIB),
        worker_says(1, GIB),
        group="small-group",
        head_args="ulimit -n 65536; echo head; $KUBERAY_GEN_RAY_START_CMD",
        worker_args="ulimit -n 65536; echo worker; $KUBERAY_GEN_RAY_START_CMD",
        overwritten=True,
    ),
}

pytestmark = pytest.mark.skipif(
    not KUBERAY_SAMPLES.is_dir(), reason="KubeRay's samples are not on this machine"
)
every_sample = pytest.mark.parametrize("name", SAMPLES)
with_workers = pytest.mark.parametrize("name", [one for one in SAMPLES if SAMPLES[one].worker])


def manifest(name: str) -> dict[str, Any]:
    documents = yaml.safe_load_all((KUBERAY_SAMPLES / f"ray-cluster.{name}.yaml").read_text())
    [found] = [one for one in documents if one and one["kind"] == "RayCluster"]
    for group in found["spec"].get("workerGroupSpecs", ()):
        group["replicas"] = 1  # one of each group to look at, also where it waits for demand
    return dict(found)


def made(name: str) -> list[dict[str, Any]]:
    scenario = Scenario(decode(manifest(name), namespace="default"), SETTINGS)
    assert not scenario.snapshot().violations
    rounds = [
        scenario.reconcile(),
        scenario.reconcile(),
    ]  # the first only sets a finalizer, where Redis is used
    actions = [action for chosen in rounds for action in chosen.actions]
    return [dict(action.manifest) for action in actions if isinstance(action, Create)]


def pod(name: str, node: str) -> dict[str, Any]:
    [found] = [
        one
        for one in made(name)
        if one["kind"] == "Pod" and one["metadata"]["labels"]["ray.io/node-type"] == node
    ]
    return found


def head(name: str) -> dict[str, Any]:
    return pod(name, "head")


def worker(name: str) -> dict[str, Any]:
    return pod(name, "worker")


def template(name: str, node: str) -> dict[str, Any]:
    """The user's own words about this Pod."""
    spec = manifest(name)["spec"]
    group = spec["headGroupSpec"] if node == "head" else spec["workerGroupSpecs"][0]
    return dict(group["template"]["spec"])


def env(container: dict[str, Any]) -> dict[str, Any]:
    """By name: the value, or where it is read. No name comes twice in the samples."""
    entries = container["env"]
    assert len({one["name"] for one in entries}) == len(entries)
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in entries}


def from_field(path: str) -> dict[str, Any]:
    return {"fieldRef": {"fieldPath": path}}


def from_label(label: str) -> dict[str, Any]:
    return from_field(f"metadata.labels['{label}']")


def token_env(sample: Sample) -> dict[str, Any]:
    secret = {"secretKeyRef": {"name": sample.cluster, "key": "auth_token"}}
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secret} if sample.token else {}


def test_every_sample_is_looked_at() -> None:
    files = {path.name for path in KUBERAY_SAMPLES.glob("ray-cluster.*.yaml")}
    assert files == {f"ray-cluster.{name}.yaml" for name in SAMPLES}


# ── the Ray container ────────────────────────────────────────────────────────────────────


@every_sample
def test_the_head_starts_ray_as_kuberay_starts_it(name: str) -> None:
    sample, ray = SAMPLES[name], head(name)["spec"]["containers"][0]
    assert env(ray)["KUBERAY_GEN_RAY_START_CMD"] == sample.head_start
    assert ray["command"] == BASH
    assert ray["args"] == [sample.head_args.replace("{start}", sample.head_start)]


@with_workers
def test_a_worker_joins_the_head_as_kuberay_lets_it(name: str) -> None:
    sample, ray = SAMPLES[name], worker(name)["spec"]["containers"][0]
    assert env(ray)["KUBERAY_GEN_RAY_START_CMD"] == sample.worker_start
    assert ray["command"] == BASH
    assert ray["args"] == [sample.worker_args.replace("{start}", sample.worker_start)]


@every_sample
def test_the_head_knows_who_and_where_it_is(name: str) -> None:
    sample = SAMPLES[name]
    redis = {
        "RAY_external_storage_namespace": UID,
        "RAY_REDIS_ADDRESS": "redis:6379",
        "REDIS_PASSWORD": {"secretKeyRef": {"name": "redis-password-secret", "key": "password"}},
    }
    assert env(head(name)["spec"]["containers"][0]) == {
        **({"RAY_enable_autoscaler_v2": "true"} if sample.autoscaler_version == "v2" else {}),
        **(redis if sample.redis else {}),
        **token_env(sample),
        "RAY_CLUSTER_NAME": from_label("ray.io/cluster"),
        "RAY_CLUSTER_NAMESPACE": from_field("metadata.namespace"),
        "RAY_CLOUD_INSTANCE_ID": from_field("metadata.name"),
        "RAY_NODE_TYPE_NAME": from_label("ray.io/group"),
        "KUBERAY_GEN_RAY_START_CMD": sample.head_start,
        "RAY_PORT": "6379",
        "RAY_ADDRESS": "127.0.0.1:6379",
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
        "RAY_USAGE_STATS_EXTRA_TAGS": "kuberay_version=v-test;kuberay_crd=RayCluster",
        "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "1",
    }


@with_workers
def test_a_worker_knows_who_it_is_and_where_its_head_is(name: str) -> None:
    sample = SAMPLES[name]
    assert env(worker(name)["spec"]["containers"][0]) == {
        **({"RAY_gcs_rpc_server_reconnect_timeout_s": "600"} if sample.redis else {}),
        **token_env(sample),
        "FQ_RAY_IP": sample.address,
        "RAY_IP": sample.service,
        "RAY_CLUSTER_NAME": from_label("ray.io/cluster"),
        "RAY_CLUSTER_NAMESPACE": from_field("metadata.namespace"),
        "RAY_CLOUD_INSTANCE_ID": from_field("metadata.name"),
        "RAY_NODE_TYPE_NAME": from_label("ray.io/group"),
        "KUBERAY_GEN_RAY_START_CMD": sample.worker_start,
        "RAY_PORT": "6379",
        "RAY_ADDRESS": f"{sample.address}:6379",
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
        "RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE": "1",
    }


WGET = "wget --tries 1 -T 2 -q -O- http://localhost:"
RAYLET = f"{WGET}52365/api/local_raylet_healthz | grep success"
# KubeRay lets this one wait 10 seconds, longer than the kubelet waits for both; we do not (C83).
GCS = f"{WGET}8265/api/gcs_healthz | grep success"


@every_sample
def test_the_head_is_probed_for_raylet_and_gcs(name: str) -> None:
    ray = head(name)["spec"]["containers"][0]
    check = asked(SAMPLES[name], f"{RAYLET} && {GCS}")
    assert ray["livenessProbe"] == check | paced(30, timeout=5, failures=120)
    assert ray["readinessProbe"] == check | paced(10, timeout=5, failures=10)


@with_workers
def test_a_worker_is_probed_for_its_raylet(name: str) -> None:
    ray = worker(name)["spec"]["containers"][0]
    check = asked(SAMPLES[name], RAYLET)
    assert ray["livenessProbe"] == check | paced(30, timeout=2, failures=120)
    assert ray["readinessProbe"] == check | paced(10, timeout=2, failures=10)


def asked(sample: Sample, command: str) -> dict[str, Any]:
    if sample.http_probes:
        return {"httpGet": {"path": "/api/healthz", "port": 52365}}
    return {"exec": {"command": ["bash", "-c", command]}}


def paced(delay: int, *, timeout: int, failures: int) -> dict[str, int]:
    return {
        "initialDelaySeconds": delay,
        "timeoutSeconds": timeout,
        "periodSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": failures,
    }


@every_sample
def test_the_metrics_port_joins_the_ports_of_the_head(name: str) -> None:
    ports = {
        one["name"]: one["containerPort"] for one in head(name)["spec"]["containers"][0]["ports"]
    }
    assert ports == {**SAMPLES[name].head_ports, "metrics": 8080}


@with_workers
def test_a_worker_opens_only_its_metrics_port(name: str) -> None:
    ports = worker(name)["spec"]["containers"][0]["ports"]
    assert ports == [{"name": "metrics", "containerPort": 8080}]


@pytest.mark.parametrize("node", ["head", "worker"])
@every_sample
def test_what_the_user_said_of_a_container_is_left_as_it_is(name: str, node: str) -> None:
    if node == "worker" and not SAMPLES[name].worker:
        return
    users, ours = template(name, node)["containers"][0], pod(name, node)["spec"]["containers"][0]
    for said in ("name", "image", "resources", "lifecycle", "imagePullPolicy", "securityContext"):
        assert ours.get(said) == users.get(said)


# ── volumes ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("node", ["head", "worker"])
@every_sample
def test_volumes_are_the_users_and_shared_memory_and_the_logs_of_an_autoscaler(
    name: str, node: str
) -> None:
    sample = SAMPLES[name]
    if node == "worker" and not sample.worker:
        return
    users, ours = template(name, node), pod(name, node)["spec"]
    limit = users["containers"][0]["resources"]["limits"]["memory"]
    memory = {"name": "shared-mem", "emptyDir": {"medium": "Memory", "sizeLimit": limit}}
    logs = {"name": "ray-logs", "emptyDir": {}}
    shares = node == "head" and sample.autoscaler
    wanted = [*users.get("volumes", ()), *([logs] if shares else ()), memory]
    assert _by_name(ours["volumes"]) == _by_name(wanted)
    mounts = {
        **{one["mountPath"]: one["name"] for one in users["containers"][0].get("volumeMounts", ())},
        **({"/tmp/ray": "ray-logs"} if shares else {}),
        "/dev/shm": "shared-mem",
    }
    found = {one["mountPath"]: one["name"] for one in ours["containers"][0]["volumeMounts"]}
    assert found == mounts


def _by_name(volumes: list[dict[str, Any]]) -> dict[str, Any]:
    assert len({one["name"] for one in volumes}) == len(volumes)
    return {one["name"]: one for one in volumes}


# ── the other containers ─────────────────────────────────────────────────────────────────


@with_workers
def test_a_worker_waits_for_the_gcs_of_its_head(name: str) -> None:
    sample, spec = SAMPLES[name], worker(name)["spec"]
    [wait] = spec["initContainers"]
    ray = spec["containers"][0]
    assert wait["name"] == "wait-gcs-ready"
    assert wait["image"] == ray["image"]
    assert wait["command"] == BASH
    assert f"ray health-check --address {sample.address}:6379 " in wait["args"][0]
    amounts = {"cpu": "200m", "memory": "256Mi"}
    assert wait["resources"] == {"limits": amounts, "requests": amounts}
    assert env(wait) == {
        **token_env(sample),
        "FQ_RAY_IP": sample.address,
        "RAY_IP": sample.service,
    }
    users = template(name, "worker")["containers"][0]
    assert wait.get("volumeMounts", []) == users.get("volumeMounts", [])


@every_sample
def test_a_head_waits_for_nobody(name: str) -> None:
    assert not head(name)["spec"].get("initContainers")


@every_sample
def test_the_autoscaler_runs_beside_the_head_where_it_is_asked_for(name: str) -> None:
    sample, spec = SAMPLES[name], head(name)["spec"]
    others = [one["name"] for one in spec["containers"][1:]]
    assert others == (["autoscaler"] if sample.autoscaler else [])
    assert spec.get("serviceAccountName") == (sample.cluster if sample.autoscaler else None)
    if not sample.autoscaler:
        return
    command = (
        "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME)"
        " --cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
    )
    amounts = {"cpu": "500m", "memory": "512Mi"}
    sidecar = spec["containers"][1]
    options = manifest(name)["spec"].get("autoscalerOptions") or {}
    assert env(sidecar) == {
        "RAY_CLUSTER_NAME": from_label("ray.io/cluster"),
        "RAY_CLUSTER_NAMESPACE": from_field("metadata.namespace"),
        "RAY_HEAD_POD_NAME": from_field("metadata.name"),
        "KUBERAY_CRD_VER": "v1",
        "KUBERAY_GEN_AUTOSCALER_START_CMD": command,
        **token_env(sample),
    }
    assert {key: value for key, value in sidecar.items() if key != "env"} == {
        "name": "autoscaler",
        "image": spec["containers"][0]["image"],
        "imagePullPolicy": "IfNotPresent",
        "command": BASH,
        "args": [command],
        "resources": {"limits": amounts, "requests": amounts},
        "volumeMounts": [{"name": "ray-logs", "mountPath": "/tmp/ray"}],
        **({"securityContext": {}} if "securityContext" in options else {}),
    }


@every_sample
def test_the_autoscaler_gets_an_account_that_may_scale(name: str) -> None:
    sample = SAMPLES[name]
    kinds = ("ServiceAccount", "Role", "RoleBinding")
    found = {one["kind"]: one["metadata"]["name"] for one in made(name) if one["kind"] in kinds}
    assert found == (dict.fromkeys(kinds, sample.cluster) if sample.autoscaler else {})


@every_sample
def test_a_token_is_kept_in_a_secret_where_it_is_asked_for(name: str) -> None:
    sample = SAMPLES[name]
    secrets = [one["metadata"]["name"] for one in made(name) if one["kind"] == "Secret"]
    assert secrets == ([sample.cluster] if sample.token else [])


# ── metadata, restarts, Services ─────────────────────────────────────────────────────────


@every_sample
def test_the_labels_of_the_head_are_kuberays(name: str) -> None:
    meta = head(name)["metadata"]
    assert meta["labels"] == _labels(SAMPLES[name], "head") | {"ray.io/group": "headgroup"}
    assert _owner(meta) == ("ray.io/v1", "RayCluster", SAMPLES[name].cluster, UID, True)


@with_workers
def test_the_labels_of_a_worker_are_kuberays(name: str) -> None:
    sample, meta = SAMPLES[name], worker(name)["metadata"]
    assert meta["labels"] == _labels(sample, "worker") | {
        "ray.io/group": sample.group,
        "ray.io/worker-group-replica-index": "0",
    }
    assert meta["name"].startswith(f"{sample.cluster}-{sample.group}-worker-")
    assert _owner(meta) == ("ray.io/v1", "RayCluster", sample.cluster, UID, True)


def _labels(sample: Sample, node: str) -> dict[str, str]:
    return {
        "ray.io/is-ray-node": "yes",
        "ray.io/cluster": sample.cluster,
        "ray.io/node-type": node,
        "ray.io/identifier": f"{sample.cluster}-{node}",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }


def _owner(meta: dict[str, Any]) -> tuple[Any, ...]:
    [owner] = meta["ownerReferences"]
    return tuple(owner[key] for key in ("apiVersion", "kind", "name", "uid", "controller"))


@every_sample
def test_the_annotations_of_the_head_are_kuberays(name: str) -> None:
    sample, found = SAMPLES[name], head(name)["metadata"]["annotations"]
    assert found.pop("ray.io/upgrade-strategy-recreate-hash")
    ours = {key for key in found if not key.startswith("ray.io/")}
    assert ours == {"manta.ray.io/started-with"}
    assert {key: value for key, value in found.items() if key not in ours} == {
        "ray.io/ft-enabled": "true" if sample.redis else "false",
        "ray.io/kuberay-version": "v-test",
        **({"ray.io/external-storage-namespace": UID} if sample.redis else {}),
        **({"ray.io/overwrite-container-cmd": "true"} if sample.overwritten else {}),
    }


@pytest.mark.parametrize("node", ["head", "worker"])
@every_sample
def test_only_under_autoscaler_v2_pods_never_restart(name: str, node: str) -> None:
    if node == "worker" and not SAMPLES[name].worker:
        return
    never = SAMPLES[name].autoscaler_version == "v2"
    assert pod(name, node)["spec"].get("restartPolicy") == ("Never" if never else None)


@every_sample
def test_the_head_service_leads_to_the_ports_of_the_head(name: str) -> None:
    sample = SAMPLES[name]
    [service] = [one for one in made(name) if one["kind"] == "Service"]
    assert service["metadata"]["name"] == sample.service
    ports = {one["name"]: one["port"] for one in service["spec"]["ports"]}
    selector = _labels(sample, "head")
    del selector["ray.io/is-ray-node"]
    assert service["spec"]["selector"] == selector
    if not sample.head_service:
        assert ports == {**sample.head_ports, "metrics": 8080}
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["publishNotReadyAddresses"] is True
        return
    assert ports == {
        "custom-ray-head-service-port": 12345,
        **sample.head_ports,
        "metrics": 8080,
    }
    assert service["spec"]["type"] == "LoadBalancer"
    assert "clusterIP" not in service["spec"]
    assert service["metadata"]["labels"]["custom-label"] == "custom-ray-head-service-label"
    annotations = service["metadata"]["annotations"]
    del annotations[
        "manta.ray.io/passed-on"
    ]  # our own: what of the user's is to go with their word
    assert annotations == {"custom-annotation": "custom-ray-head-service-annotation"}


@every_sample
def test_only_with_redis_a_cluster_is_held_until_it_is_cleaned(name: str) -> None:
    scenario = Scenario(decode(manifest(name), namespace="default"), SETTINGS)
    scenario.settle()
    held = scenario.cluster.metadata.finalizers
    wanted = ("ray.io/gcs-ft-redis-cleanup-finalizer",) if SAMPLES[name].redis else ()
    assert held == wanted
