"""The sidecar as the operator builds it, in a Pod of `manta up` that behaves as Ray does, into S3: kill -9."""

from __future__ import annotations

import copy
import json
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster.test_history_up import POD, Plane, _running
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.history.catalog import Catalog
from manta.history.index import queries
from manta.history.layout import SessionKey
from manta.history.store import open_store
from manta.manifests.head_pod import build_head_pod
from manta.rules.settings import Settings
from support.history import SESSION, mount_source
from support.s3 import s3_server

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]
ROOT = Path(__file__).parents[2]
STORE = "s3://sidecar/ray"
UNTIL_IT_LISTENS = """
import socket
while socket.socket().connect_ex(("localhost", 8084)):
    time.sleep(0.2)
"""
"""Ray sends its events again until the sidecar listens; the script of the Pod sends them once."""


def pod() -> dict[str, Any]:
    """The Pod of the other test, with the sidecar and its volume."""
    container = {"name": "ray", "image": "ray:2.60.0"}
    labels = {names.LABEL_ORIGIN_KIND: "RayJob", names.LABEL_ORIGIN_NAME: "train"}
    meta = {"name": "train-abc", "namespace": "default", "uid": "1", "labels": labels}
    template = {"spec": {"containers": [container]}}
    cluster = {"metadata": meta, "spec": {"headGroupSpec": {"template": template}}}
    settings = Settings(history_store=STORE, history_image="manta:here")
    built = build_head_pod(msgspec.convert(cluster, RayCluster), settings, spec_hash="")["spec"]
    made = copy.deepcopy(POD)
    del made["metadata"]["annotations"]  # type: ignore[attr-defined]
    spec: dict[str, Any] = made["spec"]  # type: ignore[assignment]
    script = spec["containers"][0]["command"]
    script[2] = script[2].replace("for line in", f"{UNTIL_IT_LISTENS}for line in", 1)
    [sidecar] = built["initContainers"]
    sidecar["args"] += ["--interval", "1"]
    spec["initContainers"] = [sidecar]
    spec["volumes"].append({"name": names.VOLUME_HISTORY_SPOOL, "emptyDir": {}})
    mount_source(spec, sidecar)
    return made


@pytest.mark.timeout(400)
def test_the_sidecar_of_a_pod_ships_to_s3_before_everything_is_killed(tmp_path: Path) -> None:
    plane = Plane(tmp_path / "one")
    plane.run("up")
    try:
        rule = f"images:\n  - image: 'manta:.*'\n    environment: {ROOT}/.venv\n"
        (plane.directory / "node/images.yaml").write_text(rule)
        [node] = json.loads(plane.run("get", "nodes", "-o", "json").stdout)["items"]
        [address] = [one["address"] for one in node["status"]["addresses"] if one["type"] == "InternalIP"]  # fmt: skip
        with s3_server("sidecar", address) as environment, pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            _kept(plane, environment)
            key = SessionKey("default", "rayjob", "train", SESSION)
            store = open_store(STORE, environment)
            plane.until(lambda: any("/events/" in one.key for one in store.objects(key.prefix)))
            plane.until(lambda: any("/logs/" in one.key for one in store.objects(key.prefix)))
            for record in (plane.directory / "node/pods").glob("*/sandbox.json"):
                os.kill(json.loads(record.read_text())["pid"], signal.SIGKILL)
            database = Catalog(store, tmp_path / "cache").open_index(key)
            assert database is not None
            assert queries.tasks(database).total == 16
    finally:
        plane.run("down", "--purge")


def _kept(plane: Plane, environment: dict[str, str]) -> None:
    """Run the Pod until it has posted its events."""
    meta = {"name": names.SECRET_HISTORY}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "stringData": environment}
    plane.run("apply", "-f", "-", text=json.dumps(secret))
    plane.run("apply", "-f", "-", text=json.dumps(pod()))
    name = pod()["metadata"]["name"]
    plane.until(
        lambda: (
            "posted" in plane.run("logs", name, "-c", "ray").stdout if _running(plane) else False
        )
    )
