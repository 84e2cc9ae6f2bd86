"""Egress for Pods of unprivileged users: `slirp4netns` or `pasta` at the plane's network namespace.

The network namespace of an unprivileged user has no uplink. One of these programs gives it a tap interface
and opens connections as the user for packets that leave through it. It forwards no ports inwards, and does
not lead to the machine's loopback. The plane's own DNS server resolves names.

A keeper process (`egress_keeper.py`) runs the program while the launcher, which holds the namespace, runs.
Like the launcher it outlives the agent; `cleanup` finds it by its command line.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from manta.localplane.node.host import nftables
from manta.localplane.node.host.netlink import SOCKET, Netlink
from manta.localplane.node.host.process_tree import kill
from manta.localplane.node.net.egress import PlaneNetwork, guard, masquerading
from manta.localplane.node.sandbox.channel import Gone, Refused
from manta.localplane.node.sandbox.launcher import Launcher
from manta.localplane.node.sandbox.processes import MARK, find_processes

log = logging.getLogger(__name__)

INTERFACE = "manta-out"
PROGRAMS = ("slirp4netns", "pasta")
"""In order of preference."""
TUN = Path("/dev/net/tun")
_SUBNET = "198.18.0.0/24"
"""Reserved for benchmarks (RFC 2544), so it hides no network that a Pod may need."""
_KEEPER = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from manta.localplane.node.net.egress_keeper import main; main()"
)
_CHECKS, _CHECK_PERIOD = 200, 0.05
"""A program has ten seconds to bring the interface up."""
_BEGIN = "Pods of an unprivileged user cannot reach the network outside of the plane"
CURE = (
    "install slirp4netns or passt (for example: apt-get install slirp4netns), then `manta down` and"
    " `manta up`; or run the plane as root"
)


def problem() -> str:
    """Why Pods of an unprivileged user have no egress here, and what to do; empty if they have."""
    if not _installed():
        return f"{_BEGIN}: neither slirp4netns nor pasta is installed. Cure: {CURE}"
    if not os.access(TUN, os.R_OK | os.W_OK):
        return (
            f"{_BEGIN}: {TUN} is missing or not usable by user {os.geteuid()}. Cure: as root,"
            " `modprobe tun` and `chmod 0666 /dev/net/tun`; or run the plane as root"
        )
    return ""


def _installed() -> list[str]:
    found = (shutil.which(name) for name in PROGRAMS)
    return [path for path in found if path is not None]


def command(program: str, pid: int) -> list[str]:
    """The command line of `program` for the namespaces of process `pid`."""
    if Path(program).name == "slirp4netns":
        flags = ["--configure", "--mtu=65520", "--disable-host-loopback", "--disable-dns"]
        flags += ["--enable-sandbox", "--enable-seccomp", f"--cidr={_SUBNET}"]
        return [program, *flags, str(pid), INTERFACE]
    flags = ["--foreground", "--quiet", "--config-net", "--ipv4-only", "--no-map-gw"]
    no_ports = ["-t", "none", "-u", "none", "-T", "none", "-U", "none"]
    user = ["--runas", f"{os.geteuid()}:{os.getegid()}"] if os.geteuid() == 0 else []
    where = ["--userns", f"/proc/{pid}/ns/user", "--netns", f"/proc/{pid}/ns/net"]
    return [program, *flags, *no_ports, *user, "--ns-ifname", INTERFACE, *where]


async def open_user_egress(directory: Path, launcher: Launcher, network: PlaneNetwork) -> str:
    """Returns why Pods have no egress, and what to do; empty on success.

    The rules against inbound connections come first: the interface never exists without them.
    """
    if error := problem():
        return error
    try:
        channel = await launcher.make_socket(socket.AF_NETLINK, socket.SOCK_RAW, nftables.NETFILTER)
        nftables.send(list(_rules(network)), channel)
        await launcher.switch_forwarding_on()
        netlink = Netlink(await launcher.make_socket(*SOCKET))
    except (OSError, Refused, Gone) as error:
        return (
            f"{_BEGIN}: this kernel refuses packet rules or forwarding ({error}). Cure: run as root"
        )
    try:
        return await _start(directory, launcher.pid, netlink)
    finally:
        netlink.close()


def _rules(network: PlaneNetwork) -> Iterator[bytes]:
    yield from nftables.new_table(network.name)
    yield from guard(network)
    yield from masquerading(network)


async def _start(directory: Path, launcher: int, netlink: Netlink) -> str:
    """Use the program of an earlier agent, or the first one that brings the interface up."""
    if _keepers(directory, launcher) and await _is_up(netlink):
        return ""
    for program in _installed():
        kill(_keepers(directory, launcher))
        await asyncio.to_thread(_spawn, directory, launcher, command(program, launcher))
        if await _is_up(netlink):
            return ""
        log.warning("%s did not connect the Pods' network; see %s", program, _log(directory))
    kill(_keepers(directory, launcher))
    return f"{_BEGIN}: {' and '.join(_installed())} did not start; see {_log(directory)}"


async def _is_up(netlink: Netlink) -> bool:
    for _ in range(_CHECKS):
        if any(link.name == INTERFACE for link in netlink.links()):
            return True
        await asyncio.sleep(_CHECK_PERIOD)
    return False


def _keepers(directory: Path, launcher: int) -> list[int]:
    return find_processes("cmdline", f"\0{MARK}\0{directory}\0egress\0{launcher}\0".encode())


def _log(directory: Path) -> Path:
    return directory / "egress.log"


def _spawn(directory: Path, launcher: int, line: Sequence[str]) -> None:
    """Start a keeper; returns when it has gone into the background."""
    keeper = [sys.executable, "-I", "-S", "-c", _KEEPER, str(Path(__file__).parents[4])]
    with _log(directory).open("ab") as log_file:
        subprocess.run(
            [*keeper, MARK, str(directory), "egress", str(launcher), *line],
            stdin=subprocess.DEVNULL,
            stdout=log_file,
            stderr=log_file,
            start_new_session=True,
            cwd="/",
            check=True,
        )
