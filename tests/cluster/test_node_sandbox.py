"""Pods as real processes in namespaces: what a container sees, and what is left when it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest

from manta.localplane.node.host import wire
from manta.localplane.node.host.plane_id import interface_prefix
from manta.localplane.node.sandbox.sandbox import adopt, is_running
from support.node import bench, container_spec, log_text

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]


def interfaces(directory: Path) -> list[str]:
    prefix = interface_prefix(directory)
    return [name for _, name in socket.if_nameindex() if name.startswith(prefix)]


async def test_a_container_has_its_own_host_name_processes_and_address(tmp_path: Path) -> None:
    async with bench(tmp_path) as node:
        pod = await node.sandbox("raycluster-head")
        script = "hostname; echo $$; cat /proc/net/fib_trie | grep -c 10.; exit 3"
        await node.run(pod, "bash", "-c", script)
        ended = await node.next("exited")
        assert ended["code"] == 3
        assert log_text(pod).splitlines()[:2] == ["raycluster-head", "1"]


async def test_what_a_container_writes_stays_off_the_machine(tmp_path: Path) -> None:
    async with bench(tmp_path) as node:
        pod = await node.sandbox()
        script = "for d in / /etc /usr /root /tmp /opt; do touch $d/manta-was-here || exit 1; done"
        await node.run(pod, "bash", "-c", script)
        assert (await node.next("exited"))["code"] == 0
    for directory in ("/", "/etc", "/usr", "/root", "/tmp", "/opt"):
        assert not (Path(directory) / "manta-was-here").exists()


async def test_volumes_appear_where_they_are_mounted_also_on_new_paths(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "file").write_text("content")
    volume = str(tmp_path / "volume")
    mounts = [
        {"source": volume, "target": "/no/such/path"},
        {"source": volume, "target": "/var/run/secrets/kubernetes.io/serviceaccount"},
        {"source": f"{volume}/file", "target": "/etc/hosts", "read_only": True},
    ]
    async with bench(tmp_path / "plane") as node:
        pod = await node.sandbox()
        script = (
            "cat /no/such/path/file /etc/hosts; echo more > /no/such/path/new;"
            "cat /run/secrets/kubernetes.io/serviceaccount/new; echo x > /etc/hosts || echo refused"
        )
        await node.run(pod, "bash", "-c", script, mounts=mounts)
        assert (await node.next("exited"))["code"] == 0
        assert "contentcontentmore\n" in log_text(pod)
        assert "refused" in log_text(pod).splitlines()
    assert (tmp_path / "volume" / "new").read_text() == "more\n"


async def test_containers_of_a_pod_share_its_network_and_shared_memory(tmp_path: Path) -> None:
    async with bench(tmp_path) as node:
        pod = await node.sandbox()
        serve = (
            "import socket; s = socket.create_server(('127.0.0.1', 9)); open('/dev/shm/up', 'w');"
            "s.accept()[0].send(b'hello')"
        )
        ask = (
            "import socket, os, time\n"
            "while not os.path.exists('/dev/shm/up'): time.sleep(0.01)\n"
            "print(socket.create_connection(('127.0.0.1', 9)).recv(9).decode())"
        )
        await node.run(pod, "python3", "-c", serve, name="server")
        await node.run(pod, "python3", "-c", ask, name="client")
        await node.next("exited")
        await node.next("exited")
        assert log_text(pod, "client") == "hello"


async def test_two_pods_reach_each_other_by_address(tmp_path: Path) -> None:
    async with bench(tmp_path) as node:
        one, two = await node.sandbox("one"), await node.sandbox("two")
        record = wire.read_record(one.directory / "sandbox.json")
        assert record is not None
        serve = "import socket; socket.create_server(('', 7)).accept()[0].send(b'hi')"
        ask = (
            "import socket, time\n"
            "while True:\n"
            "  try: s = socket.create_connection(('%s', 7)); break\n"
            "  except OSError: time.sleep(0.01)\n"
            "print(s.recv(9).decode())"
        )
        await node.run(one, "python3", "-c", serve)
        await node.run(two, "python3", "-c", ask % record["address"])
        await node.next("exited")
        await node.next("exited")
        assert log_text(two) == "hi"


async def test_a_command_that_is_not_there_is_reported_as_a_start_error(tmp_path: Path) -> None:
    async with bench(tmp_path) as node:
        pod = await node.sandbox()
        await node.run(pod, "nosuchcommand")
        ended = await node.next("exited")
        assert ended["code"] == 128
        assert ended["error"] == 'exec: "nosuchcommand": executable file not found in $PATH'


async def test_the_end_of_a_container_takes_its_children_along(tmp_path: Path) -> None:
    async with bench(tmp_path) as node:
        pod = await node.sandbox()
        await node.run(pod, "bash", "-c", "sleep 1000 & sleep 1000 & disown; exec sleep 0.1")
        await node.next("exited")
        left = Path(f"/proc/{pod.pid}/task/{pod.pid}/children").read_text()
        assert left.strip() == ""


async def test_exec_joins_the_containers_namespaces_and_returns_its_code(tmp_path: Path) -> None:
    async with bench(tmp_path) as node:
        pod = await node.sandbox("podname")
        running = await node.run(pod, "bash", "-c", "echo mine > /tmp/mark; exec sleep 1000")
        await node.next("started")
        reader, writer = os.pipe()
        script = "until cat /tmp/mark; do sleep 0.01; done 2>/dev/null; hostname; pwd; exit 9"
        run = await pod.execute(
            running, {"argv": ["sh", "-c", script], "cwd": "/tmp"}, (reader, writer, writer)
        )
        os.close(writer)
        assert await run.exit_code == 9
        assert os.read(reader, 100).decode() == "mine\npodname\n/tmp\n"
        os.close(reader)


async def test_a_new_agent_adopts_a_running_pod_and_learns_what_ended_meanwhile(
    tmp_path: Path,
) -> None:
    async with bench(tmp_path) as node:
        pod = await node.sandbox()
        await node.run(pod, "sleep", "1000", name="long")
        await node.next("started")
        pod.detach()
        await_exit = tmp_path / "pods" / "pod" / "containers" / "short" / "0" / "exit.json"
        second = adopt(pod.directory, node.news.put_nowait)
        assert second is not None
        node.sandboxes[:] = [second]
        await second.start(container_spec(second, "bash", "-c", "exit 4", name="short"))
        await node.next("exited")
        assert list(await second.running()) == ["long/0"]
        assert (wire.read_record(await_exit) or {})["code"] == 4


async def test_killing_pid_one_removes_processes_and_network(tmp_path: Path) -> None:
    async with bench(tmp_path) as node:
        pod = await node.sandbox()
        await node.run(pod, "bash", "-c", "trap '' TERM; sleep 1000 & sleep 1000")
        await node.next("started")
        record = wire.read_record(pod.directory / "sandbox.json") or {}
        assert len(interfaces(tmp_path)) == 2
        os.kill(pod.pid, signal.SIGKILL)
        await asyncio.wait_for(pod.ended.wait(), 10)
        assert not is_running(record)
        assert adopt(pod.directory, node.news.put_nowait) is None
    assert interfaces(tmp_path) == []


async def test_the_launcher_may_be_killed_without_harm(tmp_path: Path) -> None:
    async with bench(tmp_path) as node:
        await node.sandbox("one")
        assert node.launcher._process is not None
        node.launcher._process.kill()
        node.launcher._process.wait()
        await node.sandbox("two")
        assert all(not sandbox.ended.is_set() for sandbox in node.sandboxes)
