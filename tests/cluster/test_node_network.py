"""Names, Service addresses and ways into Pods, with real packets."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.resources import ENDPOINT_SLICES, NODES, SERVICES
from manta.localplane.apiserver.streaming.connector import ContainerUnavailable
from support.nodeplane import NodePlane, a_container, node_plane

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: namespaces and a bridge"),
]

SERVE = (
    "import socket, sys\n"
    "s = socket.create_server(('', 8000))\n"
    "while True:\n"
    "  c, _ = s.accept(); c.recv(9); c.send(sys.argv[1].encode()); c.close()"
)
RESOLVE = "import socket, sys; print(socket.gethostbyname(sys.argv[1]))"
FETCH = (
    "import socket, sys\n"
    "c = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)\n"
    "c.send(b'x'); print(c.recv(99).decode())"
)


async def serve(node: NodePlane, name: str, number: int | None, **port: Any) -> None:
    """A Pod that says its name, and a Service before it (its slice is written by hand)."""
    probe = {"tcpSocket": {"port": 8000}, "periodSeconds": 1}
    await node.create(name, a_container("python3", "-c", SERVE, name, readinessProbe=probe))
    pod = await node.until_ready(name)
    service = {
        "metadata": {"name": name},
        "spec": {
            "clusterIP": node.service_address(number) if number else "None",
            "type": "NodePort" if "nodePort" in port else "ClusterIP",
            "ports": [{"name": "web", "port": 80, "targetPort": 8000, **port}],
        },
    }
    await node.client.create(SERVICES, "default", service)
    endpoints = {
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": name}},
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": [pod["status"]["podIP"]],
                "hostname": f"{name}-0",
                "conditions": {"ready": True},
            }
        ],
        "ports": [{"name": "web", "port": 8000}],
    }
    await node.client.create(ENDPOINT_SLICES, "default", endpoints)


async def ask(node: NodePlane, script: str, *words: str) -> str:
    """What a Pod of its own gets; tried again until the watch has brought the Service."""
    for _ in range(100):
        answer = (await node.execute("python3", "-c", script, *words, name="client")).strip()
        if answer:
            return answer
    raise AssertionError(f"no answer for {words}")


async def test_services_are_reached_by_name_and_address_from_pods(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.create("client", a_container("sleep", "1000"))
        await node.until_ready("client")
        await serve(node, "web", 77)
        address = node.service_address(77)
        assert await ask(node, RESOLVE, "web") == address
        assert await ask(node, RESOLVE, "web.default.svc.cluster.local") == address
        assert await ask(node, FETCH, "web", "80") == "web"


async def test_a_headless_service_is_its_pods(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.create("client", a_container("sleep", "1000"))
        await node.until_ready("client")
        await serve(node, "head", None)
        address = (await node.get("head"))["status"]["podIP"]
        assert await ask(node, RESOLVE, "head.default.svc") == address
        assert await ask(node, RESOLVE, "head-0.head.default.svc.cluster.local") == address
        assert await ask(node, FETCH, "head", "8000") == "head"
        reader, writer = await node.agent._network.dial(Key("default", "head"), "web")
        writer.write(b"x")
        assert await reader.read() == b"head"
        writer.close()


async def test_a_node_port_is_open_on_the_machines_loopback(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await serve(node, "web", 78, nodePort=31987)
        for _ in range(200):
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", 31987)
                break
            except OSError:
                await asyncio.sleep(0.02)
        else:
            raise AssertionError("the node port never opened")
        writer.write(b"x")
        assert await reader.read() == b"web"
        writer.close()


async def test_the_machine_reaches_the_services_of_every_plane(tmp_path: Path) -> None:
    async with node_plane(tmp_path / "one") as one, node_plane(tmp_path / "two") as two:
        for plane, name in ((one, "first"), (two, "second")):
            await plane.create("client", a_container("sleep", "1000"))
            await plane.until_ready("client")
            await serve(plane, name, 79)
            address = plane.service_address(79)
            assert await ask(plane, FETCH, address, "80") == name
            assert await fetch_from_machine(address) == name


async def fetch_from_machine(address: str) -> str:
    reader, writer = await asyncio.open_connection(address, 80)
    writer.write(b"x")
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.decode()


async def test_a_port_of_a_pod_is_dialled_inside_its_network(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        local = SERVE.replace("('', 8000)", "('127.0.0.1', 8000)")
        probe = {
            "exec": {"command": ["python3", "-c", FETCH, "127.0.0.1", "8000"]},
            "periodSeconds": 1,
        }
        await node.create("pod", a_container("python3", "-c", local, "me", readinessProbe=probe))
        await node.until_ready()
        reader, writer = await node.agent.connector.dial("default", "pod", 8000)
        writer.write(b"x")
        assert await reader.read() == b"me"
        writer.close()
        with pytest.raises(OSError, match="Connect"):
            await node.agent.connector.dial("default", "pod", 1)


async def test_exec_carries_input_output_and_the_exit_code(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000")
        await node.until_ready()
        session = await node.agent.connector.exec(
            "default",
            "pod",
            "main",
            ["sh", "-c", "cat; echo bad >&2; exit 5"],
            stdin=True,
            tty=False,
        )
        assert session.stdin is not None
        assert session.stderr is not None
        big = b"0123456789abcdef" * 20000
        session.stdin.write(big)
        copied = asyncio.create_task(read_all(session.stdout))
        await session.stdin.drain()
        session.stdin.close()
        assert await copied == big
        assert await read_all(session.stderr) == b"bad\n"
        assert await session.wait() == 5
        await session.close()


async def test_exec_with_a_terminal_has_its_size(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000")
        await node.until_ready()
        session = await node.agent.connector.exec(
            "default", "pod", "main", ["sh", "-c", "read x; stty size; tty"], stdin=True, tty=True
        )
        assert session.stderr is None
        session.resize(100, 40)
        assert session.stdin is not None
        session.stdin.write(b"go\n")
        await session.stdin.drain()
        words = (await read_all(session.stdout)).decode()
        assert "40 100" in words
        assert "/dev/pts/" in words
        await session.close()


async def read_all(reader: Any) -> bytes:
    output = b""
    while data := await reader.read(65536):
        output += data
    return output


async def test_exec_into_what_does_not_run_is_refused(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "true", restartPolicy="Never")
        await node.until_phase("Succeeded")
        with pytest.raises(ContainerUnavailable, match="is not running"):
            await node.execute("true")
        with pytest.raises(ContainerUnavailable, match="not on this node"):
            await node.execute("true", name="other")


async def test_exec_of_a_command_that_is_not_there_says_so(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000")
        await node.until_ready()
        with pytest.raises(ContainerUnavailable, match="executable file not found"):
            await node.execute("nosuchcommand")


async def test_a_session_that_is_closed_ends_its_process(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000")
        await node.until_ready()
        session = await node.agent.connector.exec(
            "default", "pod", "main", ["sleep", "987"], stdin=False, tty=False
        )
        await session.close()
        assert await session.wait() == 137
        assert "987" not in await node.execute("ps", "ax")


async def test_logs_by_tail_bytes_time_and_stream(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sh", "-c", "for i in 1 2 3; do echo $i; done", restartPolicy="Never")
        await node.until_phase("Succeeded")
        assert await node.logs() == "1\n2\n3\n"
        assert await node.logs(tail_lines=1) == "3\n"
        assert await node.logs(limit_bytes=3) == "1\n2"
        assert await node.logs(since_time="2100-01-01T00:00:00Z") == ""
        assert await node.logs(since_seconds=3600) == "1\n2\n3\n"
        stamped = (await node.logs(timestamps=True)).splitlines()[0]
        assert stamped.endswith("Z 1")
        with pytest.raises(ContainerUnavailable, match="previous terminated container"):
            await node.logs(previous=True)


async def test_a_followed_log_ends_with_the_container(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        script = "echo a; until [ -e /tmp/go ]; do sleep 0.02; done; echo b; printf c"
        await node.run("pod", "sh", "-c", script, restartPolicy="Never")
        await node.until_phase("Running")
        followed = asyncio.create_task(node.logs(follow=True))
        await node.execute("touch", "/tmp/go")
        assert await asyncio.wait_for(followed, 10) == "a\nb\nc"


async def test_attach_joins_the_containers_own_input_and_output(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        container = {"stdin": True}
        script = "while read line; do echo got $line; [ $line = end ] && exit 4; done"
        await node.run("pod", "bash", "-c", script, container=container, restartPolicy="Never")
        await node.until_phase("Running")
        session = await node.agent.connector.attach("default", "pod", "main", stdin=True, tty=False)
        assert session.stdin is not None
        session.stdin.write(b"one\nend\n")
        await session.stdin.drain()
        assert await read_all(session.stdout) == b"got one\ngot end\n"
        assert await session.wait() == 4
        await session.close()


async def test_a_taken_dns_address_is_reported_and_pods_run_without_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: object) -> None:
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))

    monkeypatch.setattr("manta.localplane.node.net.sockets.PodSockets.datagrams", refuse)
    async with node_plane(tmp_path) as node:
        await node.run("pod", "sleep", "1000")
        await node.until_ready()
        found = await node.client.get(NODES, Key("", "manta"))
        conditions = {one["type"]: one["message"] for one in found["status"]["conditions"]}
        assert "bind-interfaces" in conditions["DnsUnavailable"]
        while "DnsUnavailable" not in await node.reasons():
            await asyncio.sleep(0.02)


ECHO = (
    "import socket\n"
    "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('', 8000))\n"
    "while True:\n"
    "  data, who = s.recvfrom(999); s.sendto(b'echo ' + data, who)"
)
SAY = (
    "import socket, sys\n"
    "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1)\n"
    "s.connect((sys.argv[1], int(sys.argv[2]))); s.send(b'hello'); print(s.recv(99).decode())"
)


def say_from_machine(host: str, port: int) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SAY, host, str(port)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


async def until_answered(host: str, port: int) -> str:
    for _ in range(50):
        if answer := await asyncio.to_thread(say_from_machine, host, port):
            return answer
    raise AssertionError(f"no answer from {host}:{port}")


async def test_udp_services_are_reached_from_pods_and_from_the_machine(tmp_path: Path) -> None:
    async with node_plane(tmp_path) as node:
        await node.create("client", a_container("sleep", "1000"))
        await node.until_ready("client")
        await node.create("echo", a_container("python3", "-c", ECHO))
        pod = await node.until_ready("echo")
        port = {"name": "echo", "port": 53, "targetPort": 8000, "protocol": "UDP"}
        service = {
            "metadata": {"name": "echo"},
            "spec": {
                "type": "NodePort",
                "clusterIP": node.service_address(90),
                "ports": [{**port, "nodePort": 31988}],
            },
        }
        await node.client.create(SERVICES, "default", service)
        endpoints = {
            "metadata": {"name": "echo", "labels": {"kubernetes.io/service-name": "echo"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [pod["status"]["podIP"]], "conditions": {"ready": True}}],
            "ports": [{"name": "echo", "port": 8000, "protocol": "UDP"}],
        }
        await node.client.create(ENDPOINT_SLICES, "default", endpoints)
        address = node.service_address(90)
        assert await ask(node, SAY, address, "53") == "echo hello"
        assert await until_answered(address, 53) == "echo hello"
        assert await until_answered("127.0.0.1", 31988) == "echo hello"


async def test_host_ports_lead_into_the_pod_also_after_a_restart_of_the_agent(
    tmp_path: Path,
) -> None:
    async with node_plane(tmp_path) as node:
        tcp = {"containerPort": 8000, "hostPort": 31989}
        probe = {"tcpSocket": {"port": 8000}, "periodSeconds": 1}
        served = a_container("python3", "-c", SERVE, "me", ports=[tcp], readinessProbe=probe)
        udp = {"containerPort": 8000, "hostPort": 31989, "protocol": "UDP"}
        echo = a_container("python3", "-c", ECHO, name="echo", ports=[udp])
        await node.create("pod", served, echo)
        await node.until_ready()
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", 31989)
            writer.write(b"x")
            assert await reader.read() == b"me"
            writer.close()
            await writer.wait_closed()
            assert await until_answered("127.0.0.1", 31989) == "echo hello"
            await node.restart_agent()
        await node.delete(grace=0)
        await until_refused(31989)


async def until_refused(port: int) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionRefusedError:
                return
            writer.close()
            await asyncio.sleep(0.02)
