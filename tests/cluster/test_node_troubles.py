"""Whatever keeps a Pod from running is named in its status, and in what `manta status` prints."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import NODES, SERVICES
from manta.cli.output.status import node_trouble
from manta.client.readiness import judge
from support.disks import fill, small_disk
from support.nodeplane import NodePlane, a_container, node_plane

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]


async def until_reported(node: NodePlane, *words: str) -> str:
    """What `manta status` says of the Pod, once it says all of this."""
    pod = await node.until(lambda pod: all(word in judge("Pod", pod).why for word in words))
    return judge("Pod", pod).why


async def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "no-such-program")
        await until_reported(node, "StartError", "exit code", "no-such-program")


async def test_an_image_that_nobody_mapped(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.create("pod", a_container("true", image="example.com/who/knows:1"))
        await until_reported(node, "example.com/who/knows:1", "images.yaml")


async def test_a_ray_version_that_the_package_index_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_NO_INDEX", "1")  # an index that has nothing
    async with node_plane(tmp_path) as node:
        await node.create("pod", a_container("true", image="rayproject/ray:99.9.9-py311"))
        await until_reported(node, "the package index has no", "ray[default,serve]==99.9.9")


@pytest.mark.parametrize(
    ("volume", "words"),
    [
        ({"persistentVolumeClaim": {"claimName": "gone"}}, '"gone" not found'),
        ({"configMap": {"name": "gone"}}, '"gone" not found'),
        ({"secret": {"secretName": "gone"}}, '"gone" not found'),
        ({"hostPath": {"path": "/no/such/place", "type": "Directory"}}, "/no/such/place"),
    ],
)
async def test_a_volume_that_is_missing(tmp_path: Path, volume: dict[str, Any], words: str) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "true", volumes=[{"name": "data", **volume}])
        await until_reported(node, "MountVolume.SetUp failed", words)


async def test_a_host_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with node_plane(tmp_path) as node:
            ports = [{"containerPort": 80, "hostPort": port}]
            await node.create("pod", a_container("sleep", "1000", ports=ports))
            await until_reported(node, f"hostPort {port}/TCP", "choose another hostPort")
            taken.close()
            await node.until_ready()


async def test_a_dns_address_that_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket.bind

    def bind(self: socket.socket, address: Any) -> None:
        if address[-1] == 53:
            raise OSError(98, "Address already in use")
        real(self, address)

    monkeypatch.setattr("socket.socket.bind", bind)
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000")
        await node.until_ready()
        await until_reported(node, "no DNS for Pods", "bind-interfaces")
        found = await node.client.get(NODES, Key("", "manta"))
        assert "no DNS for Pods" in node_trouble(found)


async def test_a_disk_that_is_full_when_a_pod_comes(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "2m") as disk:
        async with node_plane(disk / "plane") as node:
            fill(disk)
            await node.run("pod", "sleep", "1000")
            await until_reported(node, "No space left on device")
            found = await node.client.get(NODES, Key("", "manta"))
            assert "MiB are free below" in node_trouble(found)
            (disk / "full").unlink()
            await node.until_ready()


async def test_a_disk_that_is_full_when_an_image_is_made(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "300k") as disk:
        async with node_plane(tmp_path / "plane", cache=disk / "images") as node:
            await node.create("pod", a_container("true", image="rayproject/ray:2.60.0-py311"))
            await until_reported(node, "rayproject/ray:2.60.0-py311", "No space left on device")


async def test_a_container_that_takes_more_memory_than_it_may(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        script = "x = bytearray(200_000_000)"
        limits = {"limits": {"memory": "50Mi"}}
        await node.create(
            "pod", a_container("python3", "-c", script, resources=limits), restartPolicy="Never"
        )
        await until_reported(node, "OOMKilled, exit code 137")


async def test_a_machine_without_free_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manta.localplane.node.host.pressure._free_memory", lambda: 50 << 20)
    async with node_plane(tmp_path) as node:
        found = await node.client.get(NODES, Key("", "manta"))
        assert "only 50 MiB of memory are free" in node_trouble(found)


async def test_a_machine_that_falls_short_of_memory_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manta.localplane.node.registration.RENEW_SECONDS", 0.05)
    async with node_plane(tmp_path) as node:
        monkeypatch.setattr("manta.localplane.node.host.pressure._free_memory", lambda: 50 << 20)
        async with asyncio.timeout(20):
            while not node_trouble(await node.client.get(NODES, Key("", "manta"))):
                await asyncio.sleep(0.02)


async def test_a_node_port_that_is_taken_is_reported_of_the_service(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 31990))
        taken.listen()
        async with node_plane(tmp_path) as node:
            port = {"port": 80, "nodePort": 31990}
            spec = {"type": "NodePort", "ports": [port], "selector": {"app": "web"}}
            await node.client.create(
                SERVICES, "default", {"metadata": {"name": "web"}, "spec": spec}
            )
            async with asyncio.timeout(20):
                while "127.0.0.1:31990/TCP" not in (await node.reasons("web")).get("PortTaken", ""):
                    await asyncio.sleep(0.02)
