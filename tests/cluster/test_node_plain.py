"""`--isolation none`: Pods as plain processes, for machines that allow nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from manta.localplane.node.cleanup import marked_processes
from manta.localplane.node.machine import NodeOptions
from manta.localplane.node.processes import Launcher, NoNamespaces
from support.nodeplane import node_plane, state


async def test_a_pod_runs_and_ends_without_namespaces(tmp_path: Path) -> None:
    async with node_plane(tmp_path, isolation="none") as node:
        script = (
            "echo $HOME; touch mine; sleep 1000 & echo $! > pid; [ -e go ] || sleep 0.1; exit 3"
        )
        await node.run("pod", "bash", "-c", script, restartPolicy="Never")
        pod = await node.until_phase("Failed")
        assert state(pod)["terminated"]["exitCode"] == 3
        assert pod["status"]["podIP"] == "127.0.0.1"
        home = Path((await node.logs()).strip())
        assert (home / "mine").exists()
        child = int((home / "pid").read_text())
        while Path(f"/proc/{child}").exists():
            await asyncio.sleep(0.02)


async def test_volumes_that_cannot_be_mounted_are_told(tmp_path: Path) -> None:
    async with node_plane(tmp_path, isolation="none") as node:
        container = {"volumeMounts": [{"name": "v", "mountPath": "/no/such/place"}]}
        volumes = [{"name": "v", "emptyDir": {}}]
        await node.run("pod", "sleep", "1000", container=container, volumes=volumes)
        await node.until_ready()
        while "VolumesNotMounted" not in await node.reasons():
            await asyncio.sleep(0.02)
        assert "/no/such/place" in (await node.reasons())["VolumesNotMounted"]
        assert len(marked_processes(tmp_path)) >= 2
    assert marked_processes(tmp_path) == []


async def test_a_deleted_pod_takes_its_runaway_children_along(tmp_path: Path) -> None:
    async with node_plane(tmp_path, isolation="none") as node:
        await node.run("pod", "bash", "-c", "setsid sleep 1234 & exec sleep 1000")
        await node.until_ready()
        await node.delete(grace=0)
        await node.until_gone()
        while any(b"1234" in command for command in commands(tmp_path)):
            await asyncio.sleep(0.02)


def commands(directory: Path) -> list[bytes]:
    return [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in marked_processes(directory)]


async def test_a_machine_without_namespaces_is_told_the_cure(tmp_path: Path, monkeypatch) -> None:
    launcher = Launcher(tmp_path, "user")
    monkeypatch.setattr(
        "manta.localplane.node.processes._LAUNCH",
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from manta.localplane.node import launch;"
        "launch._enter_user_namespace = lambda: 'no user namespace: forbidden';"
        "launch.main()",
    )
    with pytest.raises(NoNamespaces, match=r"forbidden.*Run as root.*--isolation none"):
        await launcher.open()
    launcher.close()


async def test_another_system_than_linux_is_told_so(tmp_path: Path, monkeypatch) -> None:
    from manta.localplane.node.machine import Machine

    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(NoNamespaces, match="need Linux"):
        await Machine.open(NodeOptions(dir=tmp_path))
