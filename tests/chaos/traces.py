"""Every trace of a plane that this machine still knows, found without asking the plane.

What is looked for: processes, namespaces and mounts that hold its files, interfaces, routes and packet
rules, cgroups, listening sockets, and settings of the machine that it changed.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from manta.localplane.node.host import plane_register
from manta.localplane.node.host.netlink import Netlink
from manta.localplane.node.host.plane_id import interface_prefix, plane_id
from manta.localplane.node.net.address_ranges import read_ranges
from manta.localplane.node.net.pod_network import planes_on_this_machine

_LISTENING = "0A"


@dataclass(frozen=True, slots=True)
class Machine:
    """What a plane may change for a while, as it was before."""

    forwarding: dict[str, str]
    planes: tuple[str, ...]

    @classmethod
    def look(cls) -> Machine:
        """While no other plane is half gone: its interfaces, but not yet its settings."""
        with plane_register.locked():
            return cls._look()

    @classmethod
    def _look(cls) -> Machine:
        places = sorted(Path("/proc/sys/net/ipv4/conf").glob("*/forwarding"))
        settings = {one.parent.name: one.read_text().strip() for one in places}
        return cls(settings, tuple(planes_on_this_machine()))

    def differences(self) -> Iterator[str]:
        now = Machine.look()
        if self.planes or now.planes:
            return  # other planes of this machine have changed it, or will change it back
        for name, before in self.forwarding.items():
            if now.forwarding.get(name, before) != before:
                yield f"forwarding of {name} is {now.forwarding[name]}, was {before}"


@dataclass(frozen=True, slots=True)
class Sockets:
    """Sockets on which processes of a plane listen: by inode, so that others' do not count."""

    inodes: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pids: list[int]) -> Sockets:
        found = set()
        for pid in pids:
            with contextlib.suppress(OSError):
                for entry in Path(f"/proc/{pid}/fd").iterdir():
                    target = str(entry.readlink())
                    if target.startswith("socket:["):
                        found.add(target[8:-1])
        return cls(frozenset(found))

    def still_listening(self) -> Iterator[str]:
        for table in ("/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp"):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                listens = fields[3] == _LISTENING or "udp" in table
                if listens and fields[9] in self.inodes:
                    yield f"socket {fields[1]} still listens"


def traces(directory: Path, *, forgotten: bool) -> list[str]:
    """Of the plane in `directory`. `forgotten`: it was purged, so nothing may remember it."""
    node = directory / "node"
    prefix = interface_prefix(node)
    return [
        *processes(directory),
        *(f"interface {name}" for _, name in socket.if_nameindex() if name.startswith(prefix)),
        *_routes(node),
        *(f"packet rules in table {name}" for name in _tables() if name == prefix),
        *(f"cgroup {one}" for one in Path("/sys/fs/cgroup").rglob(f"manta-{plane_id(node)}")),
        *_lines("mount", Path("/proc/self/mountinfo"), directory),
        *(_memories(directory) if forgotten else ()),
    ]


def processes(directory: Path) -> list[str]:
    """Those that name the directory on their command line or in their environment, or that live
    in a namespace with its files mounted."""
    needle = str(directory).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) in _ourselves():
            continue
        for file in ("cmdline", "environ", "mountinfo"):
            with contextlib.suppress(OSError):
                if needle in (entry / file).read_bytes():
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found.append(f"process {entry.name} (by its {file}): {words[:120]}")
                    break
    return found


def _ourselves() -> set[int]:
    """This process and those that started it: their command line may contain the directory."""
    family, pid = set(), os.getpid()
    while pid > 1:
        family.add(pid)
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
    return family


def _routes(node: Path) -> Iterator[str]:
    known = read_ranges(node)
    if known is None:
        return
    netlink = Netlink()
    try:
        used = netlink.routes()
    finally:
        netlink.close()
    for network in (known.services, known.pods):
        if _contains(used, network):
            yield f"route to {network}"


def _contains(used: list[IPv4Network], network: IPv4Network) -> bool:
    return any(one.overlaps(network) for one in used)


def _tables() -> list[str]:
    """Names of nftables tables: what `nft list tables` prints, without the program."""
    message = struct.pack("=IHHII", 20, 10 << 8 | 1, 0x301, 1, 0)
    names: list[str] = []
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as channel:
        channel.settimeout(2)
        channel.send(message + struct.pack("!BBH", socket.AF_UNSPEC, 0, 0))
        while True:
            data = channel.recv(65536)
            while len(data) >= 16:
                length, kind = struct.unpack_from("=IH", data)
                if kind in (2, 3):
                    return names
                size, attribute = struct.unpack_from("=HH", data, 20)
                if attribute & 0x3FFF == 1:
                    names.append(data[24 : 20 + size].rstrip(b"\0").decode())
                data = data[(length + 3) & ~3 :]


def _lines(what: str, file: Path, directory: Path) -> Iterator[str]:
    for line in file.read_text().splitlines():
        if str(directory) in line:
            yield f"{what} {line}"


def _memories(directory: Path) -> Iterator[str]:
    if directory.exists():
        yield f"directory {directory}"
    register = Path("/run/manta/planes")
    if register.exists() and str(directory) in register.read_text():
        yield f"{directory} in {register}"
