"""`manta collect` beside real Ray, into S3 on this machine (`make history`): what is left after `kill -9`.

The plane's own operator keeps history by the node agent, so the test puts the sidecar that an operator with
`--history-store` adds into the Pod template itself, as `manifests` builds it.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from e2e.conftest import MANTA, ROOT, Machine
from e2e.test_history import SCRIPT, TASKS, kill_pods
from e2e.test_rayjob import job, with_host_directory
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.manifests.head_pod import build_head_pod
from manta.rules.settings import Settings
from support.s3 import s3_server

pytestmark = pytest.mark.embedded_only(reason="it looks into the files of the node agent")
STORE = "s3://collected/ray"
SETTINGS = Settings(history_store=STORE, history_image="manta:here")


@pytest.fixture
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A plane on which the image `manta:here` is this checkout's environment."""
    own = Machine(tmp_path_factory.mktemp("c", numbered=True))
    own.manta("up", "--cpus", "8")
    rule = f"images:\n  - image: 'manta:.*'\n    environment: {ROOT}/.venv\n"
    (own.directory / "node" / "images.yaml").write_text(rule)
    try:
        yield own
    finally:
        own.manta("down", "--purge", check=False)


def with_sidecar(document: dict[str, Any]) -> dict[str, Any]:
    """The RayJob, with everything in its head's template that the operator would add for history."""
    spec = document["spec"]["rayClusterSpec"]
    origin = {names.LABEL_ORIGIN_KIND: "RayJob", names.LABEL_ORIGIN_NAME: "train"}
    meta = {"name": "train", "namespace": "default", "uid": "1", "labels": origin}
    cluster = msgspec.convert({"metadata": meta, "spec": spec}, RayCluster)
    kept, plain = (
        build_head_pod(cluster, one, spec_hash="")["spec"] for one in (SETTINGS, Settings())
    )
    template = spec["headGroupSpec"]["template"]["spec"]
    template["initContainers"] = kept["initContainers"]
    old = {one["name"] for one in plain["volumes"]}
    template["volumes"] += [one for one in kept["volumes"] if one["name"] not in old]
    ray, kept_ray = template["containers"][0], kept["containers"][0]
    known = {one["name"] for one in plain["containers"][0]["env"]}
    ray["env"] = [one for one in kept_ray["env"] if one["name"] not in known]
    ray["volumeMounts"] += [one for one in kept_ray["volumeMounts"] if one["name"] == names.VOLUME_LOGS]  # fmt: skip
    return document


def secret(environment: dict[str, str]) -> dict[str, Any]:
    meta = {"name": names.SECRET_HISTORY}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": environment}


def history(environment: dict[str, str], *words: str) -> Any:
    done = subprocess.run(
        [*MANTA, "history", *words, "--store", STORE, "-n", "default", "-o", "json"],
        capture_output=True, text=True, env={**os.environ, **environment}, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    return json.loads(done.stdout) if words[0] != "logs" else done.stdout


def node_address(machine: Machine) -> str:
    [node] = machine.list("nodes")
    addresses = {one["type"]: one["address"] for one in node["status"]["addresses"]}
    return str(addresses["InternalIP"])


@pytest.mark.timeout(900)
def test_what_the_sidecar_shipped_before_kill_9_is_in_s3(
    machine: Machine, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    marks.chmod(0o777)
    (marks / "job.py").write_text(SCRIPT)
    document = with_host_directory(job("train", "HTTPMode", "python /marks/job.py"), marks)
    with s3_server("collected", node_address(machine)) as environment:
        machine.apply(secret(environment), with_sidecar(document))
        machine.until("3,000 tasks", (marks / "counted").exists, 500)
        time.sleep(15)  # one round of the sidecar, and Ray's own delay
        killed = kill_pods(machine)
        machine.manta("delete", "rayjob", "train")

        sessions = history(environment, "list")
        target = f"rayjob/train/{min(one['session'] for one in sessions)}"
        tasks = {one["task_id"] for one in history(environment, "tasks", target, "--limit", "9999")}
        ran = [line.split() for line in (marks / "tasks").read_text().splitlines()]
        missing = [float(at) for at, task, _ in ran if task not in tasks]
        record_property("tasks", len(ran))
        record_property("seconds_lost", round(killed - min(missing, default=killed), 3))
        counted = (marks / "counted").stat().st_mtime
        assert len(ran) > TASKS
        assert [at for at in missing if at < counted] == []
        [failed] = history(environment, "errors", target)
        assert "ValueError: number seven" in failed["error_message"]
        assert f"the driver counted {TASKS - 1} and 1" in history(environment, "logs", target)
