"""Unmodified clients on the embedded server: kubectl, the official Python client, the async one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from manta.api.resources import CONFIG_MAPS
from manta.localplane.plane import Plane, PlaneOptions
from support.peers import KUBERAY_CRDS

pytestmark = pytest.mark.embedded_only

OUR_CRDS = Path(__file__).parents[2] / "src/manta/api/schemas"


@pytest.fixture
async def plane(tmp_path: Path) -> AsyncIterator[Plane]:
    async with Plane(PlaneOptions(tmp_path / "plane", fake_nodes=1)) as served:
        yield served


async def kubectl(plane: Plane, *arguments: str, stdin: bytes = b"") -> str:
    home = plane.options.dir
    process = await asyncio.create_subprocess_exec(
        "kubectl",
        *arguments,
        env={**os.environ, "KUBECONFIG": str(plane.kubeconfig), "HOME": str(home)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(90):
        out, err = await process.communicate(stdin)
    assert process.returncode == 0, (arguments, err)
    return out.decode()


needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl here")

MANIFEST = b"""
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {app: x}}
data: {k: "1"}
"""


@needs_kubectl
async def test_kubectl_applies_changes_and_deletes(plane: Plane) -> None:
    assert "created" in await kubectl(plane, "apply", "-f", "-", stdin=MANIFEST)
    assert "unchanged" in await kubectl(plane, "apply", "-f", "-", stdin=MANIFEST)
    changed = MANIFEST.replace(b'"1"', b'"2"')
    assert "configured" in await kubectl(plane, "apply", "-f", "-", stdin=changed)
    assert "serverside-applied" in await kubectl(
        plane, "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=changed
    )
    assert "labeled" in await kubectl(plane, "label", "cm", "a", "l=1")
    patch = '[{"op":"replace","path":"/data/missing","value":"x"}]'
    await kubectl(plane, "patch", "cm", "a", "--type=json", "-p", patch)
    assert await kubectl(plane, "get", "cm", "a", "-o", "jsonpath={.data.missing}") == "x"
    assert "a" in await kubectl(plane, "get", "cm", "-l", "l=1", "-o", "name")
    assert "deleted" in await kubectl(plane, "delete", "cm", "a")


@needs_kubectl
async def test_kubectl_creates_what_it_sends_as_protobuf(plane: Plane) -> None:
    await kubectl(plane, "create", "ns", "n1")
    await kubectl(plane, "create", "secret", "generic", "s", "--from-literal=a=b")
    assert await kubectl(plane, "get", "secret", "s", "-o", "jsonpath={.data.a}") == "Yg=="
    await kubectl(plane, "create", "deployment", "d", "--image=x", "--replicas=0")
    assert await kubectl(plane, "get", "deploy", "d", "-o", "jsonpath={.spec.replicas}") == "0"
    await kubectl(plane, "create", "ingress", "i", "--rule=a/b=svc:80")
    await kubectl(plane, "create", "job", "j", "--image=x", "--", "echo", "hi")
    await kubectl(plane, "wait", "--for=condition=complete", "job/j", "--timeout=60s")
    assert (await kubectl(plane, "auth", "can-i", "create", "pods")).strip() == "yes"
    assert "admin" in await kubectl(plane, "auth", "whoami")
    assert (await kubectl(plane, "create", "token", "default")).count(".") == 2
    await kubectl(plane, "-n", "n1", "run", "p", "--image=i")
    await kubectl(plane, "delete", "ns", "n1", "--timeout=60s")


@needs_kubectl
@pytest.mark.parametrize("place", [OUR_CRDS, KUBERAY_CRDS], ids=["ours", "kuberays"])
async def test_kubectl_applies_the_large_definitions(plane: Plane, place: Path) -> None:
    if not place.exists():
        pytest.skip("KubeRay's definitions are not on this machine")
    out = await kubectl(plane, "apply", "--server-side", "-f", str(place))
    assert out.count("serverside-applied") == 4
    await kubectl(plane, "wait", "--for=condition=established", "crd", "--all", "--timeout=30s")
    assert "No resources found" not in await kubectl(plane, "api-resources", "--api-group=ray.io")
    assert "KIND:       RayCluster" in await kubectl(plane, "explain", "raycluster.spec")


TALK = """
import json, sys
from kubernetes import client, config, watch

config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="a"), data={"k": "1"})
api.create_namespaced_config_map("default", body)
version = api.list_namespaced_config_map("default").metadata.resource_version
api.patch_namespaced_config_map("a", "default", {"data": {"k": "2"}})
api.delete_namespaced_config_map("a", "default")
seen = watch.Watch().stream(
    api.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=2
)
print(json.dumps([[one["type"], one["object"].metadata.name] for one in seen]))
"""


async def test_the_official_python_client_reads_writes_and_watches(plane: Plane) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", TALK, str(plane.kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(90):
        out, err = await process.communicate()
    assert process.returncode == 0, err
    assert json.loads(out) == [["MODIFIED", "a"], ["DELETED", "a"]]


async def test_the_asynchronous_python_client_works_too(plane: Plane) -> None:
    from kubernetes_asyncio import client, config

    loaded: Any = client.Configuration()
    await config.load_kube_config(str(plane.kubeconfig), client_configuration=loaded)
    async with client.ApiClient(loaded) as session:
        api = client.CoreV1Api(session)
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="b"), data={"k": "1"})
        await api.create_namespaced_config_map("default", body)
        found = await api.read_namespaced_config_map("b", "default")
        assert found.data == {"k": "1"}
        nodes = await api.list_node()
        assert [node.metadata.name for node in nodes.items] == ["fake-node-0"]


FOLLOW = """
import sys
from kubernetes import client, config, watch

config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
version = api.list_namespaced_config_map("default").metadata.resource_version
print("ready", flush=True)
names = []
while len(names) < 30:
    for one in watch.Watch().stream(
        api.list_namespaced_config_map, "default", resource_version=version, timeout_seconds=1
    ):
        version = one["object"].metadata.resource_version
        if one["type"] == "ADDED":
            names.append(one["object"].metadata.name)
print(" ".join(names))
"""


async def test_a_python_client_follows_through_many_ends_of_its_watch(plane: Plane) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", FOLLOW, str(plane.kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with asyncio.timeout(90):
        assert (await process.stdout.readline()).strip() == b"ready"
        for number in range(30):
            body = {"metadata": {"name": f"c{number:02}"}}
            await plane.client.create(CONFIG_MAPS, "default", body)
            await asyncio.sleep(0.1)
        names = (await process.stdout.read()).decode().split()
        await process.wait()
    assert names == [f"c{number:02}" for number in range(30)]


async def test_the_asynchronous_client_watches_without_a_gap(plane: Plane) -> None:
    from kubernetes_asyncio import client, config, watch

    loaded: Any = client.Configuration()
    await config.load_kube_config(str(plane.kubeconfig), client_configuration=loaded)
    async with client.ApiClient(loaded) as session:
        api = client.CoreV1Api(session)
        async with asyncio.timeout(60):  # a controller creates one in every namespace
            while not (listed := await api.list_namespaced_config_map("default")).items:
                await asyncio.sleep(0.05)
        version = listed.metadata.resource_version

        async def write() -> None:
            for number in range(20):
                body = {"metadata": {"name": f"c{number:02}"}}
                await plane.client.create(CONFIG_MAPS, "default", body)
                await asyncio.sleep(0.1)

        writing = asyncio.create_task(write())
        names: list[str] = []
        async with asyncio.timeout(60):
            while len(names) < 20:
                async with watch.Watch().stream(
                    api.list_namespaced_config_map,
                    "default",
                    resource_version=version,
                    timeout_seconds=1,
                ) as events:
                    async for one in events:
                        version = one["object"].metadata.resource_version
                        names.append(one["object"].metadata.name)
        await writing
    assert names == [f"c{number:02}" for number in range(20)]
