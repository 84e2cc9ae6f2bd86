"""Egress for the Pods of ordinary users: `slirp4netns` or `pasta` behind the plane's network namespace.

A network namespace of an ordinary user has no uplink. One of these programs gives it a tap interface and
opens connections in the user's own name for what leaves through it. It forwards no port inwards, and the
machine's loopback is not reachable through it. Names are resolved by the plane's own DNS server.

A keeper process (`egress_keeper.py`) runs the program for as long as the launcher, which holds the
namespace, exists. Like the launcher it outlives the agent, and `cleanup` finds it by its command line.
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

from manta.localplane.node import nftables
from manta.localplane.node.channel import Gone, Refused
from manta.localplane.node.egress import PlaneNetwork, guard, masquerading
from manta.localplane.node.netlink import SOCKET, Netlink
from manta.localplane.node.processes import MARK, Launcher, find_processes
from manta.localplane.node.processtree import kill

log = logging.getLogger(__name__)

INTERFACE = "manta-out"
PROGRAMS = ("slirp4netns", "pasta")
"""In order of preference."""
TUN = Path("/dev/net/tun")
_SUBNET = "198.18.0.0/24"
"""Reserved for benchmarks (RFC 2544): hides no network that a Pod may want to reach."""
_KEEPER = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from manta.localplane.node.egress_keeper import main; main()"
)
_LOOKS, _LOOK_AGAIN = 200, 0.05
"""Ten seconds for a program to bring the interface up."""
_BEGIN = "Pods of an ordinary user cannot reach the network outside of the plane"
CURE = (
    "install slirp4netns or passt (for example: apt-get install slirp4netns), then `manta down` and"
    " `manta up`; or run the plane as root"
)


def problem() -> str:
    """Why Pods of an ordinary user have no egress on this machine, and the cure; empty if they can."""
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
    """The command line that connects the namespaces of process `pid`. Pure but for the user's ids."""
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
    """Let Pods out. Returns why not, and the cure; empty on success.

    The rules that keep others out come first: the interface never exists without them.
    """
    if trouble := problem():
        return trouble
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
    """The first program that brings the interface up stays; one that an earlier agent started, too."""
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
    for _ in range(_LOOKS):
        if any(link.name == INTERFACE for link in netlink.links()):
            return True
        await asyncio.sleep(_LOOK_AGAIN)
    return False


def _keepers(directory: Path, launcher: int) -> list[int]:
    return find_processes("cmdline", f"\0{MARK}\0{directory}\0egress\0{launcher}\0".encode())


def _log(directory: Path) -> Path:
    return directory / "egress.log"


def _spawn(directory: Path, launcher: int, line: Sequence[str]) -> None:
    """The keeper puts itself into the background: this returns when it has."""
    keeper = [sys.executable, "-I", "-S", "-c", _KEEPER, str(Path(__file__).parents[3])]
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
