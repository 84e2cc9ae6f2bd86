"""Exec, attach, port-forward, logs and proxies through real clients: kubectl and Python."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from manta.api.meta import Key
from manta.api.resources import ENDPOINT_SLICES, PODS, SERVICES
from manta.localplane.plane import Plane, PlaneOptions
from support.connector import LocalConnector
from support.contract import pod

pytestmark = [
    pytest.mark.embedded_only,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]

SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
WIRES = pytest.mark.parametrize("wire", [{}, SPDY], ids=["websocket", "spdy"])


@dataclass(frozen=True, slots=True)
class Served:
    plane: Plane
    connector: LocalConnector

    async def kubectl(
        self, *arguments: str, stdin: bytes = b"", wire: dict[str, str] | None = None
    ) -> tuple[int, bytes, bytes]:
        environment = {**os.environ, "KUBECONFIG": str(self.plane.kubeconfig), **(wire or {})}
        process = await asyncio.create_subprocess_exec(
            "kubectl",
            *arguments,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            out, err = await process.communicate(stdin)
        return process.returncode or 0, out, err


async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An HTTP server of one line: it says which path was asked."""
    head = await reader.readuntil(b"\r\n\r\n")
    body = b"hello " + head.split(b" ")[1]
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    await writer.drain()
    writer.close()


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    options = PlaneOptions(tmp_path / "plane", memory=True, controllers=False)
    async with Plane(options) as plane:
        connector = LocalConnector()
        plane.connector = connector
        server = await asyncio.start_server(greet, "127.0.0.1", 0)
        connector.ports[8000] = server.sockets[0].getsockname()[1]
        body = pod("p", nodeName="n1")
        body["spec"]["containers"][0]["ports"] = [{"containerPort": 8000}]
        await plane.client.create(PODS, "default", body)
        running = {"status": {"phase": "Running"}}
        await plane.client.patch(PODS, Key("default", "p"), running, subresource="status")
        try:
            yield Served(plane, connector)
        finally:
            server.close()


@WIRES
async def test_exec_brings_output_and_exit_code(served: Served, wire: dict[str, str]) -> None:
    command = ("exec", "p", "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    code, out, err = await served.kubectl(*command, wire=wire)
    assert (code, out) == (3, b"out\n")
    assert err.startswith(b"err\n")
    assert b"command terminated with exit code 3" in err


@WIRES
async def test_exec_carries_megabytes_both_ways(served: Served, wire: dict[str, str]) -> None:
    data = os.urandom(1024) * 4096
    code, out, _ = await served.kubectl("exec", "-i", "p", "--", "cat", stdin=data, wire=wire)
    assert code == 0
    assert hashlib.sha256(out).digest() == hashlib.sha256(data).digest()


@WIRES
async def test_attach_joins_the_running_container(served: Served, wire: dict[str, str]) -> None:
    code, out, _ = await served.kubectl("attach", "p", wire=wire)
    assert (code, out) == (0, b"attached\n")


@WIRES
async def test_port_forward_carries_connections(served: Served, wire: dict[str, str]) -> None:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    environment = {**os.environ, "KUBECONFIG": str(served.plane.kubeconfig), **wire}
    process = await asyncio.create_subprocess_exec(
        "kubectl",
        *("port-forward", "p", f"{port}:8000", "--address", "127.0.0.1"),
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            await process.stdout.readline()
            for number in range(3):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number)
                assert (await reader.read()).endswith(b"hello /%d" % number)
                writer.close()
    finally:
        process.kill()
        await process.communicate()


async def test_logs_are_read_and_refused(served: Served) -> None:
    code, out, _ = await served.kubectl("logs", "p", "--tail=2")
    assert (code, out) == (0, b"line 3\nline 4\n")
    code, _, err = await served.kubectl("logs", "p", "--previous")
    assert code == 1
    assert b'previous terminated container "c" not found' in err


async def test_files_are_copied(served: Served, tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"content")
    code, _, err = await served.kubectl("cp", str(source), f"p:{target}")
    assert code == 0, err
    assert target.read_bytes() == b"content"


async def test_pods_and_services_are_proxied(served: Served) -> None:
    client = served.plane.client
    base = "/api/v1/namespaces/default"
    pod_answer = await client.send("GET", f"{base}/pods/p:8000/proxy/a/b", query=(("x", "1"),))
    assert (pod_answer.status, pod_answer.body) == (200, b"hello /a/b?x=1")
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"name": "web", "port": 80}]}}
    await client.create(SERVICES, "default", service)
    slice_ = {
        "metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
        "addressType": "IPv4",
        "ports": [{"name": "web", "port": 8000, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": ["10.1.1.1"],
                "conditions": {"ready": True},
                "targetRef": {"kind": "Pod", "name": "p", "namespace": "default"},
            }
        ],
    }
    await client.create(ENDPOINT_SLICES, "default", slice_)
    for port in ("web", "80"):
        answer = await client.send("GET", f"{base}/services/s:{port}/proxy/c")
        assert (answer.status, answer.body) == (200, b"hello /c")


TALK = """
import json, sys
from kubernetes import client, config
from kubernetes.stream import portforward, stream

config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
answer = stream(
    api.connect_get_namespaced_pod_exec, "p", "default",
    command=["sh", "-c", "echo hi; exit 4"],
    stdout=True, stderr=True, stdin=False, tty=False, _preload_content=False,
)
answer.run_forever(timeout=30)
text, code = answer.read_stdout(), answer.returncode
forwarded = portforward(
    api.connect_get_namespaced_pod_portforward, "p", "default", ports="8000"
)
channel = forwarded.socket(8000)
channel.settimeout(30)
channel.sendall(b"GET /py HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
received = b""
while not received.endswith(b"hello /py"):
    received += channel.recv(4096)
print(json.dumps([text, code, received.decode()]), flush=True)
"""


async def test_the_python_client_executes_and_forwards(served: Served) -> None:
    """In a process of its own: the client leaves threads and sockets behind."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", TALK, str(served.plane.kubeconfig)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(90):
        out, err = await process.communicate()
    assert process.returncode == 0, err
    text, code, received = json.loads(out)
    assert (text, code) == ("hi\n", 4)
    assert received.endswith("hello /py")
