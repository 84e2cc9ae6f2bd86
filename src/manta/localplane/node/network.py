"""The Pod network of one plane: a bridge, a cable to every Pod, and who has which address.

Several planes may live on one machine: every interface name starts with a prefix made from the
plane's directory, and the subnet is the first that the machine does not use. A Pod's cable goes away
with its network namespace, so the bridge is all that has to be removed.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import re
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from manta.localplane.node import wire
from manta.localplane.node.netlink import Netlink

POOL = IPv4Network("10.88.0.0/13")
"""Subnets are cut from here: eight /16 below the usual service range 10.96.0.0/16."""
SUBNET_PREFIX = 20
_LOCAL_ROUTE_PRIORITY_SPACE = 1 << 20


def plane_id(directory: Path) -> str:
    """Six hex digits that name the plane of `directory` in everything the kernel keeps."""
    return hashlib.sha256(str(directory.resolve()).encode()).hexdigest()[:6]


def interface_prefix(directory: Path) -> str:
    return f"mt{plane_id(directory)}"


def choose_subnet(seed: str, used: Iterable[IPv4Network]) -> IPv4Network:
    """The first free subnet of the pool, looking from a place that depends on the plane."""
    taken = tuple(used)
    subnets = list(POOL.subnets(new_prefix=SUBNET_PREFIX))
    first = int(seed, 16) % len(subnets)
    for subnet in subnets[first:] + subnets[:first]:
        if not any(subnet.overlaps(other) for other in taken):
            return subnet
    raise OSError(errno.EADDRNOTAVAIL, f"every subnet of {POOL} is in use on this machine")


class Addresses:
    """Which addresses of the subnet are given out. The last given is remembered over restarts,
    so that a new Pod does not get the address that clients still know as another's."""

    def __init__(self, subnet: IPv4Network, last: int = 1) -> None:
        self._subnet = subnet
        self._last = last
        self._taken: set[IPv4Address] = set()

    @property
    def last(self) -> int:
        return self._last

    def reserve(self, address: IPv4Address) -> None:
        self._taken.add(address)

    def allocate(self) -> IPv4Address:
        size = self._subnet.num_addresses
        for step in range(1, size):
            index = (self._last + step) % size
            address = self._subnet[index]
            if 1 < index < size - 1 and address not in self._taken:
                self._last = index
                self._taken.add(address)
                return address
        raise OSError(errno.EADDRNOTAVAIL, f"no free Pod address in {self._subnet}")

    def release(self, address: IPv4Address) -> None:
        self._taken.discard(address)


@dataclass(frozen=True, slots=True)
class Cable:
    """What a Pod needs to know of its network."""

    address: IPv4Interface
    gateway: IPv4Address


class PodNetwork:
    """Made by `open`; blocking calls of microseconds."""

    def __init__(self, directory: Path, subnet: IPv4Network, last: int, netlink: Netlink) -> None:
        self._record = directory / "network.json"
        self._prefix = interface_prefix(directory)
        self.subnet = subnet
        self.gateway = subnet[1]
        self.bridge = f"{self._prefix}br"
        self._addresses = Addresses(subnet, last)
        self._netlink = netlink

    @classmethod
    def open(
        cls, directory: Path, service_cidr: IPv4Network, netlink: Netlink | None = None
    ) -> PodNetwork:
        """Find or make the plane's bridge. The subnet stays the same over restarts if it can."""
        directory.mkdir(parents=True, exist_ok=True)
        record = wire.read_record(directory / "network.json") or {}
        # A network namespace of our own is nobody else's: no lock is needed there.
        with _machine_lock() if netlink is None else nullcontext():
            netlink = netlink or Netlink()
            bridge = f"{interface_prefix(directory)}br"
            exists = any(link.name == bridge for link in netlink.links())
            used = [*netlink.routes(), *(known.network for known in netlink.addresses())]
            known = IPv4Network(record["subnet"]) if "subnet" in record else None
            if known is None or (not exists and any(known.overlaps(net) for net in used)):
                known = choose_subnet(plane_id(directory), used)
            network = cls(directory, known, int(record.get("last", 1)), netlink)
            if not exists:
                network._make_bridge(service_cidr)
        network._remember()
        return network

    def _make_bridge(self, service_cidr: IPv4Network) -> None:
        address = IPv4Interface((self.gateway, self.subnet.prefixlen))
        self._netlink.add_bridge(self.bridge)
        self._netlink.add_address(self.bridge, address)
        self._netlink.set_up(self.bridge)
        self._netlink.set_up("lo")
        priority = 1 + int(plane_id(self._record.parent), 16) % _LOCAL_ROUTE_PRIORITY_SPACE
        self._netlink.add_local_route(service_cidr, self.bridge, priority)

    def _remember(self) -> None:
        wire.write_record(self._record, {"subnet": str(self.subnet), "last": self._addresses.last})

    def reserve(self, address: IPv4Address) -> None:
        """An adopted Pod has this address."""
        self._addresses.reserve(address)

    def allocate(self) -> IPv4Address:
        address = self._addresses.allocate()
        self._remember()
        return address

    def release(self, address: IPv4Address) -> None:
        self._addresses.release(address)

    def attach(self, address: IPv4Address, pid: int) -> Cable:
        """Lay the cable between the bridge and the network namespace of process `pid`."""
        index = int(address) - int(self.subnet.network_address)
        self._netlink.add_veth(
            f"{self._prefix}p{index:x}", bridge=self.bridge, peer="eth0", pid=pid
        )
        return Cable(IPv4Interface((address, self.subnet.prefixlen)), self.gateway)

    def close(self) -> None:
        """Stop speaking to the kernel. Bridge and Pods stay, for the next agent."""
        self._netlink.close()


def remove_interfaces(directory: Path) -> list[str]:
    """Take away everything that a plane left in the kernel's network. Returns the names."""
    prefix = interface_prefix(directory)
    netlink = Netlink()
    try:
        found = [link for link in netlink.links() if link.name.startswith(prefix)]
        for link in found:
            try:
                netlink.delete_link(link.number)
            except OSError as error:
                if error.errno != errno.ENODEV:
                    raise
        return [link.name for link in found]
    finally:
        netlink.close()


def other_planes() -> list[str]:
    """Bridges of planes that are still on this machine."""
    names = (name for _, name in socket.if_nameindex())
    return [name for name in names if re.fullmatch(r"mt[0-9a-f]{6}br", name)]


@contextmanager
def _machine_lock() -> Iterator[None]:
    """Two planes that start at once must not choose the same subnet."""
    path = Path(tempfile.gettempdir()) / f".manta-network-{socket.gethostname()}.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
