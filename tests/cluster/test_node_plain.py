"""`--isolation none`: Pods as plain processes, for machines that allow nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from manta.api.resources import ENDPOINT_SLICES, SERVICES
from manta.localplane.node.cleanup import marked_processes, remove_everything
from manta.localplane.node.machine import NodeOptions
from manta.localplane.node.net.shared_network import scratch_directory
from manta.localplane.node.sandbox.launcher import Launcher, NoNamespaces
from manta.localplane.node.sandbox.processes import find_processes
from support.nodeplane import is_ready, node_plane, restarts, state, stop


async def test_a_pod_runs_and_ends_without_namespaces(tmp_path: Path) -> None:
    async with node_plane(tmp_path, isolation="none") as node:
        script = (
            "echo $HOME; touch mine; sleep 1000 & echo $! > pid; [ -e go ] || sleep 0.1; exit 3"
        )
        await node.run("pod", "bash", "-c", script, restartPolicy="Never")
        pod = await node.until_phase("Failed")
        assert state(pod)["terminated"]["exitCode"] == 3
        assert pod["status"]["podIP"].startswith("127.")
        home = Path((await node.logs()).strip())
        assert (home / "mine").exists()
        child = int((home / "pid").read_text())
        while Path(f"/proc/{child}").exists():
            await asyncio.sleep(0.02)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


LISTEN = """
import http.server, sys
port = int(sys.argv[1].removeprefix("--metrics-export-port="))
http.server.HTTPServer(("0.0.0.0", port), http.server.SimpleHTTPRequestHandler).serve_forever()
"""


async def test_pods_that_open_the_same_port_for_themselves_live_side_by_side(
    tmp_path: Path,
) -> None:
    port = free_port()
    async with node_plane(tmp_path, isolation="none") as node:
        probe = {"httpGet": {"path": "/", "port": port}, "periodSeconds": 1}
        ports = [{"containerPort": port}]
        script = ("python3", "-c", LISTEN, f"--metrics-export-port={port}")
        for name in ("one", "two"):
            container = {"image": "python:3.11", "readinessProbe": probe, "ports": ports}
            await node.run(name, *script, container=container)
        one, two = [await node.until_ready(name) for name in ("one", "two")]
        assert one["status"]["podIP"] != two["status"]["podIP"]
        await node.restart_agent()
        assert [is_ready(await node.get(name)) for name in ("one", "two")] == [True, True]


async def test_a_pod_whose_clients_know_a_taken_port_is_refused_in_words(tmp_path: Path) -> None:
    port = free_port()
    async with node_plane(tmp_path, isolation="none") as node:
        ports = {"ports": [{"containerPort": port}]}
        await node.run("one", "sleep", "1000", container=ports)
        await node.until_ready("one")
        await node.run("two", "sleep", "1000", container=ports)
        pod = await node.until(lambda pod: state(pod).get("waiting", {}).get("message"), "two")
        words = state(pod)["waiting"]["message"]
        assert f"port {port} is taken by Pod default/one" in words
        assert "--isolation none" in words
        await node.delete("one", grace=0)
        await node.until_ready("two")


async def test_a_port_that_another_program_has_is_named(tmp_path: Path) -> None:
    async with node_plane(tmp_path, isolation="none") as node:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            ports = {"ports": [{"containerPort": port}]}
            await node.run("pod", "sleep", "1000", container=ports)
            pod = await node.until(lambda pod: state(pod).get("waiting", {}).get("message"))
            words = f"port {port} is taken by another program of this machine"
            assert words in state(pod)["waiting"]["message"]
        await node.until_ready()


async def test_names_of_services_become_addresses_where_no_dns_is_served(tmp_path: Path) -> None:
    async with node_plane(tmp_path, isolation="none") as node:
        service = {"metadata": {"name": "head"}, "spec": {"clusterIP": "None"}}
        await node.client.create(SERVICES, "default", service)
        env = [{"name": "HEAD", "value": "head.default.svc.cluster.local"}]
        script = "echo $HEAD head.default.svc.cluster.local:6379"
        await node.run("pod", "sh", "-c", script, container={"env": env}, restartPolicy="Never")
        pod = await node.until(lambda pod: state(pod).get("waiting", {}).get("message"))
        assert 'Service "head" has no Pod yet' in state(pod)["waiting"]["message"]
        slice_ = {
            "metadata": {"name": "head", "labels": {"kubernetes.io/service-name": "head"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": True}}],
            "ports": [],
        }
        await node.client.create(ENDPOINT_SLICES, "default", slice_)
        await node.until_phase("Succeeded")
        assert await node.logs() == "10.1.2.3 10.1.2.3:6379\n"


async def test_programs_keep_their_files_in_a_place_that_goes_with_the_plane(
    tmp_path: Path,
) -> None:
    async with node_plane(tmp_path, isolation="none") as node:
        await node.run("pod", "sh", "-c", "touch $RAY_TMPDIR/mine", restartPolicy="Never")
        await node.until_phase("Succeeded")
        assert (scratch_directory(tmp_path) / "mine").exists()
    assert not scratch_directory(tmp_path).exists()


async def test_volumes_that_cannot_be_mounted_are_reported(tmp_path: Path) -> None:
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


UNMARKED = "env -i setsid sleep 98765.{} &"
"""A process whose environment does not say whose it is: Ray's set their title over it."""


def unmarked(number: int) -> list[int]:
    return find_processes("cmdline", f"\0sleep\x0098765.{number}\0".encode())


async def test_a_deleted_pod_takes_children_without_marks_along(tmp_path: Path) -> None:
    """U11."""
    async with node_plane(tmp_path, isolation="none") as node:
        await node.run("pod", "bash", "-c", UNMARKED.format(1) + "exec sleep 1000")
        await node.until_ready()
        await node.until(lambda _: unmarked(1))
        await node.delete(grace=0)
        await node.until_gone()
        async with asyncio.timeout(10):
            while unmarked(1):
                await asyncio.sleep(0.02)


@pytest.mark.parametrize("init", ["lives", "was killed"])
async def test_the_end_of_a_plane_takes_children_without_marks_along(
    tmp_path: Path, init: str
) -> None:
    """U11: four of Ray's agents went on for a minute and a half after `manta down --purge`."""
    number = 2 if init == "lives" else 3
    async with node_plane(tmp_path, isolation="none") as node:
        if init == "was killed" and not node.agent._machine.cgroups.works:
            pytest.skip("without cgroups nothing tells whose the process is")
        script = UNMARKED.format(number) + "exec sleep 1000"
        await node.run("pod", "bash", "-c", script, restartPolicy="Never")
        uid = (await node.until_ready())["metadata"]["uid"]
        await node.until(lambda _: unmarked(number))
        await stop(node.task)
        if init == "was killed":
            record = json.loads((tmp_path / "pods" / uid / "sandbox.json").read_text())
            os.kill(record["pid"], signal.SIGKILL)
        removed = remove_everything(tmp_path, purge=True)
        assert unmarked(number) == []
        assert removed.running == ()


async def test_a_pod_whose_init_was_killed_gets_its_port_back_from_its_own_children(
    tmp_path: Path,
) -> None:
    async with node_plane(tmp_path, isolation="none") as node:
        port = free_port()
        container = {
            "image": "python:3.11",
            "ports": [{"containerPort": port}],
            "readinessProbe": {"tcpSocket": {"port": port}, "periodSeconds": 1},
        }
        await node.run("pod", "python3", "-c", LISTEN, str(port), container=container)
        uid = (await node.until_ready())["metadata"]["uid"]
        record = json.loads((tmp_path / "pods" / uid / "sandbox.json").read_text())
        os.kill(record["pid"], signal.SIGKILL)
        await node.until(lambda pod: is_ready(pod) and restarts(pod) == 1)


def commands(directory: Path) -> list[bytes]:
    found = []
    for pid in marked_processes(directory):
        with suppress(FileNotFoundError):  # it ends just now
            found.append(Path(f"/proc/{pid}/cmdline").read_bytes())
    return found


async def test_a_machine_without_namespaces_is_reported_the_cure(
    tmp_path: Path, monkeypatch
) -> None:
    launcher = Launcher(tmp_path, "user")
    monkeypatch.setattr(
        "manta.localplane.node.sandbox.launcher._LAUNCH",
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "from manta.localplane.node.sandbox import launch;"
        "launch._enter_user_namespace = lambda: 'no user namespace: forbidden';"
        "launch.main()",
    )
    with pytest.raises(NoNamespaces, match=r"forbidden.*Run as root.*--isolation none"):
        await launcher.open()
    launcher.close()


async def test_another_system_than_linux_gets_an_error(tmp_path: Path, monkeypatch) -> None:
    from manta.localplane.node.machine import Machine

    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(NoNamespaces, match="need Linux"):
        await Machine.open(NodeOptions(dir=tmp_path))
