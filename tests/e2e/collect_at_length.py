"""`manta collect` beside real Ray, into S3 on this machine (`make history`): what is left after `kill -9`.

The plane's own operator keeps history by the node agent, so the test puts the sidecar that an operator with
`--history-store` adds into the Pod template itself, as `manifests` builds it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from e2e.conftest import MANTA, ROOT, Machine
from e2e.killed_job import COUNTED, TASKS, Marks, kill_pods, templates
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.manifests.head_pod import build_head_spec
from manta.manifests.worker_pod import build_worker_spec
from manta.rules.settings import Settings
from support.history import mount_source
from support.s3 import s3_server

pytestmark = pytest.mark.embedded_only(reason="it looks into the files of the node agent")
STORE = "s3://collected/ray"
COLLECTOR = os.environ.get("MANTA_KUBERAY_COLLECTOR", "")
"""KubeRay's own collector, if there is one."""
SETTINGS = Settings(history_store=STORE, history_image="manta:here")


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A plane on which the image `manta:here` is this checkout's environment, and `kuberay-collector:here`
    the binary that MANTA_KUBERAY_COLLECTOR names."""
    own = Machine(tmp_path_factory.mktemp("c", numbered=True))
    own.manta("up", "--cpus", "8", "--feature-gates", "RayClusterHistoryServer=true")
    images: list[dict[str, Any]] = [{"image": "manta:.*", "environment": f"{ROOT}/.venv"}]
    if COLLECTOR:
        programs = own.directory / "kuberay" / "bin"
        programs.mkdir(parents=True)
        shutil.copy(COLLECTOR, programs / "collector")
        made = {"environment": str(programs.parent), "command": ["collector"]}
        images.append({"image": "kuberay-collector:.*", **made})
    (own.directory / "node" / "images.yaml").write_text(json.dumps({"images": images}))
    try:
        yield own
    finally:
        own.manta("down", "--purge", check=False)


def with_sidecar(document: dict[str, Any]) -> dict[str, Any]:
    """The RayJob, with everything in its templates that the operator would add for history."""
    spec = document["spec"]["rayClusterSpec"]
    origin = {names.LABEL_ORIGIN_KIND: "RayJob", names.LABEL_ORIGIN_NAME: "train"}
    meta = {"name": "train", "namespace": "default", "uid": "1", "labels": origin}
    cluster = msgspec.convert({"metadata": meta, "spec": spec}, RayCluster)
    group = cluster.spec.worker_group_specs[0]
    heads = [build_head_spec(cluster, one, keep_command=False) for one in (SETTINGS, Settings())]
    workers = [
        build_worker_spec(cluster, group, one, keep_command=False) for one in (SETTINGS, Settings())
    ]
    for template, built in zip(templates(document), (heads, workers), strict=True):
        add_what_differs(template["spec"], *built)
    return document


def add_what_differs(pod: dict[str, Any], kept: dict[str, Any], plain: dict[str, Any]) -> None:
    pod["initContainers"] = [
        one for one in kept["initContainers"] if one["name"] == names.CONTAINER_HISTORY
    ]
    mount_source(pod, pod["initContainers"][0])
    old = {one["name"] for one in plain["volumes"]}
    pod["volumes"] += [one for one in kept["volumes"] if one["name"] not in old]
    ray, kept_ray = pod["containers"][0], kept["containers"][0]
    known = {one["name"] for one in plain["containers"][0]["env"]}
    ray["env"] = [one for one in kept_ray["env"] if one["name"] not in known]
    ray["volumeMounts"] += [one for one in kept_ray["volumeMounts"] if one["name"] == names.VOLUME_LOGS]  # fmt: skip


def with_kuberays_collector(
    document: dict[str, Any], environment: dict[str, str]
) -> dict[str, Any]:
    variables = {
        "STORAGE_BACKEND": "s3",
        "STORAGE_ROOT_DIR": "ray",
        "S3_BUCKET": "collected",
        "S3_ENDPOINT": environment["AWS_ENDPOINT_URL"],
        "S3_REGION": environment["AWS_REGION"],
        "S3FORCE_PATH_STYLE": "true",
        "S3DISABLE_SSL": "true",
        "AWS_ACCESS_KEY_ID": environment["AWS_ACCESS_KEY_ID"],
        "AWS_SECRET_ACCESS_KEY": environment["AWS_SECRET_ACCESS_KEY"],
    }
    env = [{"name": name, "value": value} for name, value in variables.items()]
    options = {"collectorOptions": {"image": "kuberay-collector:here", "env": env}}
    document["spec"]["rayClusterSpec"]["historyServerOptions"] = options
    return document


def secret(environment: dict[str, str]) -> dict[str, Any]:
    meta = {"name": names.SECRET_HISTORY}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": environment}


def history(environment: dict[str, str], *words: str, check: bool = True) -> Any:
    done = subprocess.run(
        [*MANTA, "history", *words, "--store", STORE, "-n", "default", "-o", "json"],
        capture_output=True, text=True, env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    assert not (check and done.returncode), done.stderr
    return json.loads(done.stdout) if words[0] != "logs" else done.stdout


def node_address(machine: Machine) -> str:
    [node] = machine.list("nodes")
    addresses = {one["type"]: one["address"] for one in node["status"]["addresses"]}
    return str(addresses["InternalIP"])


def killed(machine: Machine, marks: Marks, *documents: dict[str, Any]) -> float:
    """Run the job until it has counted and 15 s longer: one round of the sidecar, and Ray's own delay."""
    machine.apply(*documents)
    machine.until("3,000 tasks", marks.counted, 500)
    time.sleep(15)
    at = kill_pods(machine)
    machine.manta("delete", "rayjob", "train")
    return at


@pytest.mark.timeout(900)
def test_what_the_sidecar_shipped_before_kill_9_is_in_s3(
    machine: Machine, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    marks = Marks.made(tmp_path)
    with s3_server("collected", node_address(machine)) as environment:
        at = killed(machine, marks, secret(environment), with_sidecar(marks.rayjob()))
        sessions = history(environment, "list")
        target = f"rayjob/train/{min(one['session'] for one in sessions)}"
        tasks = history(environment, "tasks", target, "--limit", "9999")
        log = history(environment, "logs", target)
        losses = marks.losses(at, [one["task_id"] for one in tasks], log)
        record_property("manta collect", losses)
        assert losses["tasks"] > TASKS
        assert losses["nodes"] == 2
        assert losses["tasks_lost_before_the_count"] == 0, losses
        [failed] = history(environment, "errors", target)
        assert "ValueError: number seven" in failed["error_message"]
        assert COUNTED in log


@pytest.mark.timeout(900)
@pytest.mark.skipif(
    not COLLECTOR, reason="MANTA_KUBERAY_COLLECTOR does not name KubeRay's collector"
)
def test_what_kuberays_collector_has_of_the_same_job_is_printed(
    machine: Machine, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """Its loss is a figure, not a promise of ours; only that it ran is asserted."""
    marks = Marks.made(tmp_path)
    with s3_server("collected", node_address(machine)) as environment:
        at = killed(machine, marks, with_kuberays_collector(marks.rayjob(), environment))
        sessions = history(environment, "list")
        assert sessions, "KubeRay's collector wrote no session"
        target = f"rayjob/train/{min(one['session'] for one in sessions)}"
        tasks = history(environment, "tasks", target, "--limit", "9999")
        log = history(environment, "logs", target, check=False)
        losses = marks.losses(at, [one["task_id"] for one in tasks], log)
        record_property("KubeRay's collector", losses)
        assert losses["tasks"] > TASKS
