"""A plane in a thread, and `kubectl ray` (ours and KubeRay's) run against it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import subprocess
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import DEPLOYMENTS, NAMESPACES, PODS, SECRETS, Resource
from manta.cli.plugin.main import main
from manta.localplane.plane import Plane, PlaneOptions
from support.connector import LocalConnector
from support.raycluster import container, group, ray_cluster, template
from support.raycrds import ray_crds

T = TypeVar("T")
PEER = os.environ.get("MANTA_KUBERAY_PLUGIN", "")
"""KubeRay's own plugin, if there is one."""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


@dataclass
class PlaneThread:
    """A plane whose loop runs in a thread of its own, so that tests may block."""

    plane: Plane
    loop: asyncio.AbstractEventLoop
    connector: LocalConnector
    made: set[str] = field(default_factory=set)

    @property
    def kubeconfig(self) -> Path:
        return self.plane.kubeconfig

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self.start(work).result(60)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def get(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        return self.wait(self.plane.client.get(resource, Key(namespace, name)))

    def exists(self, resource: Resource, namespace: str, name: str) -> bool:
        items = self.wait(self.plane.client.list(resource, namespace)).items
        return any(one["metadata"]["name"] == name for one in items)

    def namespace(self, name: str) -> str:
        """A namespace with one object of every kind that commands show."""
        if name not in self.made:
            self.made.add(name)
            self.wait(seed(self.plane, name))
        return name

    def ours(self, *words: str, stdin: str = "") -> Ran:
        return run_ours("--kubeconfig", str(self.kubeconfig), *words, stdin=stdin)

    def theirs(self, *words: str, stdin: str = "") -> Ran:
        done = subprocess.run(
            [PEER, *words],
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)


def _stream() -> io.TextIOWrapper:
    """A text stream with a `buffer`, as standard output has one."""
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def run_ours(*words: str, stdin: str = "") -> Ran:
    out, err = _stream(), _stream()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _input(stdin):
        try:
            code = main(words)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
    return Ran(code, _text(out), _text(err))


@contextlib.contextmanager
def _input(text: str) -> Iterator[None]:
    import sys

    before, sys.stdin = sys.stdin, io.StringIO(text)
    try:
        yield
    finally:
        sys.stdin = before


@contextlib.contextmanager
def plane_thread(directory: Path) -> Iterator[PlaneThread]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="plane", daemon=True)
    thread.start()
    stop = asyncio.Event()

    async def serve(ready: Future[PlaneThread]) -> None:
        try:
            async with Plane(PlaneOptions(directory, memory=True, controllers=False)) as plane:
                plane.connector = LocalConnector()
                for crd in ray_crds():
                    plane.app.put("apiextensions.k8s.io/v1", "CustomResourceDefinition", dict(crd))
                ready.set_result(PlaneThread(plane, loop, plane.connector))
                await stop.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(error)
            raise

    ready: Future[PlaneThread] = Future()
    serving = asyncio.run_coroutine_threadsafe(serve(ready), loop)
    try:
        yield ready.result(60)
    finally:
        loop.call_soon_threadsafe(stop.set)
        serving.result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


# ── objects ──────────────────────────────────────────────────────────────────────────────

CLUSTER_STATUS = {
    "state": "ready",
    "desiredWorkerReplicas": 2,
    "availableWorkerReplicas": 1,
    "desiredCPU": "5",
    "desiredMemory": "10Gi",
    "desiredGPU": "2",
    "desiredTPU": "0",
    "head": {"serviceName": "demo-head-svc"},
    "conditions": [
        {
            "type": kind,
            "status": "True",
            "reason": "Test",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind in ("HeadPodReady", "RayClusterProvisioned")
    ],
}


async def seed(plane: Plane, namespace: str) -> None:
    client = plane.client
    await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    amounts = {"cpu": "1500m", "memory": "4Gi", "nvidia.com/gpu": "1"}
    gpu = {**container("ray-worker"), "resources": {"requests": amounts, "limits": amounts}}
    groups = [
        group("gpu", 2, minReplicas=1, maxReplicas=4, template=template(gpu)),
        group("cpu", 0),
    ]
    for name, more in (("demo", {"labels": {"team": "a"}}), ("other", {})):
        body = ray_cluster(name, groups if name == "demo" else None, **more)
        body["metadata"]["namespace"] = namespace
        await client.create(RAY_CLUSTERS, namespace, body)
    key = Key(namespace, "demo")
    await client.patch(RAY_CLUSTERS, key, {"status": CLUSTER_STATUS}, subresource="status")
    await _pods(plane, namespace)
    await _others(plane, namespace)


async def _pods(plane: Plane, namespace: str) -> None:
    for name, kind, one in (
        ("demo-head", "head", "headgroup"),
        ("demo-gpu-1", "worker", "gpu"),
        ("demo-gpu-2", "worker", "gpu"),
    ):
        labels = {
            "ray.io/cluster": "demo",
            "ray.io/node-type": kind,
            "ray.io/group": one,
            "ray.io/is-ray-node": "yes",
        }
        containers = [container(f"ray-{kind}")]
        containers += [container("sidecar")] if kind == "head" else []
        pod = {
            "metadata": {"name": name, "labels": labels},
            "spec": {"containers": containers, "nodeName": "n1"},
        }
        await plane.client.create(PODS, namespace, pod)
        ready = "False" if name == "demo-gpu-2" else "True"
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}
        await plane.client.patch(
            PODS, Key(namespace, name), {"status": status}, subresource="status"
        )


async def _others(plane: Plane, namespace: str) -> None:
    client, spec = plane.client, ray_cluster()["spec"]
    job = {"entrypoint": "python -c 1", "rayClusterSpec": spec}
    service = {"rayClusterConfig": spec, "serveConfigV2": "applications: []"}
    cron = {"schedule": "0 3 * * *", "jobTemplate": job}
    for resource, name, body in (
        (RAY_JOBS, "train", job),
        (RAY_SERVICES, "web", service),
        (RAY_CRON_JOBS, "nightly", cron),
    ):
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        await client.create(resource, namespace, {**kind, "metadata": {"name": name}, "spec": body})
    head = {"head": {"serviceName": "demo-head-svc"}}
    status: dict[str, Any] = {"rayClusterName": "demo", "rayClusterStatus": head}
    await client.patch(RAY_JOBS, Key(namespace, "train"), {"status": status}, subresource="status")
    applications = {
        "app": {"status": "RUNNING", "serveDeploymentStatuses": {"echo": {"status": "HEALTHY"}}}
    }
    active = {"activeServiceStatus": {**status, "applicationStatuses": applications}}
    await client.patch(
        RAY_SERVICES, Key(namespace, "web"), {"status": active}, subresource="status"
    )
    await client.create(
        SECRETS,
        namespace,
        {"metadata": {"name": "mine"}, "stringData": {"auth_token": "named"}},
    )
    await client.create(
        SECRETS,
        namespace,
        {"metadata": {"name": "locked"}, "stringData": {"auth_token": "s3cret"}},
    )
    for name, options in (("locked", {}), ("named", {"secretName": "mine"})):
        auth: dict[str, str] = {"mode": "token", **options}
        cluster = ray_cluster(name, [], authOptions=auth, labels={"auth": "token"})
        cluster["metadata"]["namespace"] = namespace
        await client.create(RAY_CLUSTERS, namespace, cluster)


async def add_operator(plane: Plane, image: str) -> None:
    """An operator's Deployment, as the chart makes it."""
    labels = {"app.kubernetes.io/name": "kuberay-operator"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "o", "image": image}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    body = {"metadata": {"name": "manta", "labels": labels}, "spec": spec}
    await plane.client.create(DEPLOYMENTS, "default", body)
