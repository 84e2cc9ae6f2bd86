"""Who reaches Pods from outside: a machine, its Pod and its neighbour, each in a network namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: network namespaces"),
]

SCENARIO = """
import json, os, signal, socket, sys, threading, time
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path
from manta.localplane.node.host import libc
from manta.localplane.node.net.egress import PlaneNetwork, open_egress
from manta.localplane.node.sandbox.launch import configure_network
from manta.localplane.node.host.netlink import Netlink

PODS, SERVICES, LAN = (IPv4Network(one) for one in ("10.77.0.0/24", "10.78.0.0/24", "192.168.77.0/24"))

def another_host(bridge, network):
    ready, signal_ready = os.pipe()
    pid = os.fork()
    if pid == 0:
        libc.end_with_parent()
        libc.unshare(libc.CLONE_NEWNET)
        os.write(signal_ready, b"x")
        signal.pause()
    os.read(ready, 1)
    machine.add_veth(f"v{bridge}", bridge=bridge, peer="eth0", pid=pid)
    inside(None, lambda: configure_network(pid, f"{network[2]}/24", str(network[1])))
    return pid

def inside(pid, work):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if pid:
                libc.setns(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY), libc.CLONE_NEWNET)
            answer = work()
        except OSError as error:
            answer = f"{type(error).__name__}"
        os.write(writing, json.dumps(answer).encode())
        os._exit(0)
    os.close(writing)
    answer = os.read(reading, 999)
    os.close(reading)
    os.waitpid(child, 0)
    return json.loads(answer)

def serve(pid, address, port):
    ready, signal_ready = os.pipe()
    child = os.fork()
    if child == 0:
        libc.end_with_parent()
        if pid:
            libc.setns(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY), libc.CLONE_NEWNET)
        listener = socket.create_server((address, port))
        os.write(signal_ready, b"x")
        while True:
            channel, who = listener.accept()
            channel.send(who[0].encode())
            channel.close()
    os.read(ready, 1)
    return child

def ask(pid, address, port):
    def work():
        with socket.create_connection((str(address), port), 1.5) as channel:
            return channel.recv(99).decode()
    return inside(pid, work)

libc.unshare(libc.CLONE_NEWNET)
machine = Netlink()
machine.set_up("lo")
for name, network in (("pods", PODS), ("lan", LAN)):
    machine.add_bridge(name)
    machine.add_address(name, IPv4Interface(f"{network[1]}/24"))
    machine.set_up(name)
machine.add_local_route(SERVICES, "pods", 1)
pod, neighbour = another_host("pods", PODS), another_host("lan", LAN)
machine.add_default_route(LAN[2])
children = [serve(pod, "", 7000), serve(neighbour, "", 7000), serve(None, "", 7001)]
if sys.argv[1] == "forwarding only":
    for name in ("pods", "lan"):
        Path(f"/proc/sys/net/ipv4/conf/{name}/forwarding").write_text("1")
else:
    out = sys.argv[1] == "guarded"
    assert open_egress(PlaneNetwork("test", PODS, SERVICES, "pods"), out=out)
    if not out:  # the machine forwards for reasons of its own
        for name in ("pods", "lan"):
            Path(f"/proc/sys/net/ipv4/conf/{name}/forwarding").write_text("1")
print(json.dumps({
    "neighbour to pod": ask(neighbour, PODS[2], 7000),
    "neighbour to gateway": ask(neighbour, PODS[1], 7001),
    "neighbour to service": ask(neighbour, SERVICES[5], 7001),
    "neighbour to machine": ask(neighbour, LAN[1], 7001),
    "machine to pod": ask(None, PODS[2], 7000),
    "machine to service": ask(None, SERVICES[5], 7001),
    "pod to neighbour": ask(pod, LAN[2], 7000),
    "pod to service": ask(pod, SERVICES[5], 7001),
    "pod to gateway": ask(pod, PODS[1], 7001),
}))
for child in (*children, pod, neighbour):
    os.kill(child, signal.SIGKILL)
"""
REFUSED = "TimeoutError"


def reached(directory: Path, how: str) -> dict[str, str]:
    """Who got through, and under which address."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(directory)}
    command = [sys.executable, "-c", SCENARIO, how]
    run = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    if "nftables" in run.stderr:
        pytest.skip("this kernel does not let us write nftables rules")
    assert run.returncode == 0, run.stderr
    found: dict[str, str] = json.loads(run.stdout)
    return found


def test_a_neighbour_that_routes_through_the_machine_would_reach_pods(tmp_path: Path) -> None:
    """What the rules are against: without them everybody gets through."""
    found = reached(tmp_path, "forwarding only")
    assert found["neighbour to pod"] == found["neighbour to service"] == "192.168.77.2"


@pytest.mark.parametrize("how", ["guarded", "guarded, no egress"])
def test_nothing_that_a_neighbour_begins_reaches_pods_or_services(tmp_path: Path, how: str) -> None:
    """X21."""
    found = reached(tmp_path, how)
    for regarding in ("pod", "gateway", "service"):
        assert found[f"neighbour to {regarding}"] == REFUSED
    assert found["neighbour to machine"] == "192.168.77.2"


def test_the_machine_and_its_pods_go_on_and_answers_come_back(tmp_path: Path) -> None:
    """X21: Pods leave under the machine's address."""
    found = reached(tmp_path, "guarded")
    assert found["pod to neighbour"] == "192.168.77.1"
    assert found["pod to gateway"] == found["pod to service"] == "10.77.0.2"
    assert found["machine to pod"] == "10.77.0.1"
    assert found["machine to service"] == "10.78.0.5"
