"""The Pod network of one plane: a bridge, a cable to every Pod, and who has which address.

Several planes may live on one machine: every interface name starts with a prefix made from the
plane's directory, and no two planes share addresses (see ranges.py). A Pod's cable goes away with its
network namespace, so the bridge is all that has to be removed.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from manta.localplane.node import wire
from manta.localplane.node.netlink import Netlink
from manta.localplane.node.planeid import bridge_name, id_of_bridge, interface_prefix
from manta.localplane.node.ranges import RECORD, Ranges, RangeTaken, has_bridge

_LOCAL_ROUTE_PRIORITY = 1


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

    def __init__(self, directory: Path, ranges: Ranges, netlink: Netlink) -> None:
        self._record = directory / RECORD
        self._prefix = interface_prefix(directory)
        self.subnet = ranges.pods
        self.services = ranges.services
        self.gateway = ranges.pods[1]
        self.bridge = bridge_name(directory)
        known = wire.read_record(self._record) or {}
        self._addresses = Addresses(ranges.pods, int(known.get("last", 1)))
        self._netlink = netlink

    @classmethod
    def open(cls, directory: Path, ranges: Ranges, netlink: Netlink | None = None) -> PodNetwork:
        """Find or make the plane's bridge. `netlink`: of the user namespace that holds it."""
        netlink = netlink or Netlink()
        network = cls(directory, ranges, netlink)
        if not has_bridge(directory, netlink):
            network._make_bridge()
        elif not any(known.ip == network.gateway for known in netlink.addresses()):
            raise RangeTaken(
                errno.EBUSY,
                f"the bridge of this plane has another subnet than {ranges.pods}, and Pods on it:"
                " run `manta down` first",
            )
        return network

    def _make_bridge(self) -> None:
        address = IPv4Interface((self.gateway, self.subnet.prefixlen))
        self._netlink.add_bridge(self.bridge)
        self._netlink.add_address(self.bridge, address)
        self._netlink.set_up(self.bridge)
        self._netlink.set_up("lo")
        self._netlink.add_local_route(self.services, self.bridge, _LOCAL_ROUTE_PRIORITY)

    def _remember(self) -> None:
        known = wire.read_record(self._record) or {}
        wire.write_record(self._record, known | {"last": self._addresses.last})

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


def remove_interfaces(prefix: str) -> list[str]:
    """Take away everything that a plane left in the kernel's network. Returns the names."""
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


def planes_on_this_machine() -> list[str]:
    """Identities of the planes that have a bridge here."""
    found = (id_of_bridge(name) for _, name in socket.if_nameindex())
    return [identity for identity in found if identity is not None]
