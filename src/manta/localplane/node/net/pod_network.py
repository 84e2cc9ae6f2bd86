"""The Pod network of one plane: a bridge, a veth pair to each Pod, and the Pods' addresses.

Several planes can run on one machine: interface names start with a prefix made from the plane's directory,
and no two planes share addresses (see address_ranges.py). The kernel removes a Pod's veth pair with its
network namespace, so only the bridge has to be removed.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from pathlib import Path

from manta.localplane.node.host import wire
from manta.localplane.node.host.netlink import Netlink
from manta.localplane.node.host.plane_id import bridge_name, id_of_bridge, interface_prefix
from manta.localplane.node.net.address_ranges import RECORD, Ranges, RangeTaken, has_bridge

_LOCAL_ROUTE_PRIORITY = 1


class Addresses:
    """Allocates the addresses of a subnet. The last one is remembered over restarts, so that a new Pod
    does not get an address that clients still know as another Pod's."""

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
        """Take a free address, after the last one that was taken. Raises OSError if none is free."""
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
class Attachment:
    """The address and gateway of an attached Pod."""

    address: IPv4Interface
    gateway: IPv4Address


class PodNetwork:
    """Created by `open`. Calls block for microseconds."""

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
        """Find or create the plane's bridge. `netlink`: a socket of the namespace that holds it.

        Raises RangeTaken if the existing bridge has another subnet."""
        netlink = netlink or Netlink()
        network = cls(directory, ranges, netlink)
        try:
            network._find_or_make_bridge(directory)
        except BaseException:
            netlink.close()
            raise
        return network

    def _find_or_make_bridge(self, directory: Path) -> None:
        if not has_bridge(directory, self._netlink):
            self._make_bridge()
        elif not any(known.ip == self.gateway for known in self._netlink.addresses()):
            raise RangeTaken(
                errno.EBUSY,
                f"the bridge of this plane has another subnet than {self.subnet}, and Pods on it:"
                " run `manta down` first",
            )

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
        """Record the address of a Pod that an earlier agent started."""
        self._addresses.reserve(address)

    def allocate(self) -> IPv4Address:
        address = self._addresses.allocate()
        self._remember()
        return address

    def release(self, address: IPv4Address) -> None:
        self._addresses.release(address)

    def attach(self, address: IPv4Address, pid: int) -> Attachment:
        """Connect the network namespace of process `pid` to the bridge."""
        index = int(address) - int(self.subnet.network_address)
        self._netlink.add_veth(
            f"{self._prefix}p{index:x}", bridge=self.bridge, peer="eth0", pid=pid
        )
        return Attachment(IPv4Interface((address, self.subnet.prefixlen)), self.gateway)

    def close(self) -> None:
        """Close the netlink socket. The bridge and the Pods stay for the next agent."""
        self._netlink.close()


def remove_interfaces(prefix: str) -> list[str]:
    """Remove all interfaces of a plane. Returns their names."""
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
    """The IDs of the planes that have a bridge here."""
    found = (id_of_bridge(name) for _, name in socket.if_nameindex())
    return [identity for identity in found if identity is not None]
