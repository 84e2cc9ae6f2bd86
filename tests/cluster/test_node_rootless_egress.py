"""Pods of ordinary users reach the network outside of the plane, and nothing reaches them (U3)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from manta.api.core import EGRESS_UNAVAILABLE
from manta.api.meta import Key
from manta.api.resources import NODES
from manta.localplane.node.cleanup import marked_processes
from manta.localplane.node.net import user_egress
from manta.localplane.node.sandbox.processes import find_processes
from support.nodeplane import node_plane

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: to open /dev/net/tun anywhere"),
]

TRY = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 3) as channel:
        print(channel.recv(100).decode())
except OSError as error:
    print("failed:", error)
"""


OUTSIDE = "198.51.100.77"
"""Of a range for documentation: no network of this machine has it."""


@pytest.fixture
def outside() -> Iterator[str]:
    """An address that is outside of the plane; not the machine's main one, which pasta gives to the
    namespace."""
    tool = shutil.which("ip")
    if tool is None:
        pytest.skip("no `ip` to add an address")
    subprocess.run([tool, "address", "add", f"{OUTSIDE}/32", "dev", "lo"], check=True)
    try:
        yield OUTSIDE
    finally:
        subprocess.run([tool, "address", "del", f"{OUTSIDE}/32", "dev", "lo"], check=True)


def default_gateways() -> list[str]:
    """What pasta would map to the machine's loopback by default."""
    rows = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    return [
        socket.inet_ntoa(bytes.fromhex(row[2])[::-1])
        for row in rows
        if row[1] == "00000000" and row[2] != "00000000"
    ]


@contextmanager
def a_server(address: str, greeting: bytes) -> Iterator[int]:
    """Greets whoever connects."""
    with socket.create_server((address, 0)) as server:

        def serve() -> None:
            while True:
                try:
                    channel, _ = server.accept()
                except OSError:
                    return
                with channel:
                    channel.sendall(greeting)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@pytest.fixture(params=user_egress.PROGRAMS)
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    found = shutil.which(request.param)
    if found is None:
        pytest.skip(f"{request.param} is not installed")
    if not Path("/dev/net/tun").exists():
        pytest.skip("no /dev/net/tun")
    monkeypatch.setattr(user_egress, "PROGRAMS", (request.param,))
    return str(request.param)


def programs_of(directory: Path, launcher: int, name: str) -> list[int]:
    """The egress programs of one plane, by the namespace that their command line names."""
    mark = (
        f"\0{launcher}\0{user_egress.INTERFACE}\0"
        if name == "slirp4netns"
        else f"/proc/{launcher}/ns/net"
    )
    keepers = set(marked_processes(directory))
    return [pid for pid in find_processes("cmdline", mark.encode()) if pid not in keepers]


async def test_a_pod_reaches_the_outside_but_not_the_machines_loopback(
    tmp_path: Path, program: str, outside: str
) -> None:
    """U3."""
    with a_server(outside, b"outside") as port, a_server("127.0.0.1", b"loopback") as private:
        async with node_plane(tmp_path, rootless=True) as node:
            assert node.agent._machine.egress_error == ""
            launcher = node.agent._machine.launcher.pid
            await node.run("pod", "sleep", "1000")
            await node.until_ready()
            reached = await node.execute("python3", "-c", TRY, outside, str(port))
            assert reached.strip() == "outside"
            bridge = str(node.agent._machine.network.gateway)
            for gateway in ("127.0.0.1", "198.18.0.2", bridge, *default_gateways()):
                answer = await node.execute("python3", "-c", TRY, gateway, str(private))
                assert "loopback" not in answer
            before = programs_of(tmp_path, launcher, program)
            assert before
            await node.restart_agent()
            assert programs_of(tmp_path, launcher, program) == before
    assert marked_processes(tmp_path) == []
    assert programs_of(tmp_path, launcher, program) == []


async def test_a_node_says_that_its_pods_have_no_egress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U3."""
    monkeypatch.setattr(user_egress, "PROGRAMS", ("manta-no-such-program",))
    async with node_plane(tmp_path, rootless=True) as node:
        found = await node.client.get(NODES, Key("", "manta"), into=dict)
        said = {one["type"]: one for one in found["status"]["conditions"]}
        assert said[EGRESS_UNAVAILABLE]["status"] == "True"
        assert "apt-get install slirp4netns" in said[EGRESS_UNAVAILABLE]["message"]
        assert said["Ready"]["status"] == "True"


async def test_an_egress_program_that_dies_is_started_again_and_ends_with_the_network(
    tmp_path: Path, program: str
) -> None:
    """U3."""
    async with node_plane(tmp_path, rootless=True) as node:
        launcher = node.agent._machine.launcher.pid
        [first] = programs_of(tmp_path, launcher, program)
        os.kill(first, signal.SIGKILL)
        async with asyncio.timeout(20):
            while programs_of(tmp_path, launcher, program) in ([], [first]):
                await asyncio.sleep(0.05)
        os.kill(launcher, signal.SIGKILL)
        async with asyncio.timeout(20):
            while programs_of(tmp_path, launcher, program):
                await asyncio.sleep(0.05)
