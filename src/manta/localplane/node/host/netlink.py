"""A minimal rtnetlink client for the Pod network: links, addresses, routes. Calls block for microseconds.

Standard library only: the agent and the launcher need little memory, and a netlink library costs 16 MiB
and half a second to import.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import NamedTuple

_NEWLINK, _DELLINK, _GETLINK, _SETLINK = 16, 17, 18, 19
_NEWADDR, _GETADDR = 20, 22
_NEWROUTE, _GETROUTE = 24, 26

_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_EXCL, _CREATE, _APPEND = 0x200, 0x400, 0x800
_ERROR, _DONE = 2, 3

_IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO = 3, 10, 18
_IFLA_NET_NS_PID = 19
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_NESTED = 0x8000
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY = 1, 4, 5, 6
_UP = 0x1
_TABLE_MAIN, _TABLE_LOCAL = 254, 255
_SCOPE_UNIVERSE, _SCOPE_LINK, _SCOPE_HOST = 0, 253, 254
_UNICAST, _LOCAL = 1, 2
_PROTO_STATIC = 4


_ALL_ROUTES = struct.pack("=BBBBBBBBI", socket.AF_INET, *[0] * 8)
SOCKET = (socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)


class Link(NamedTuple):
    number: int
    name: str


class _Route(NamedTuple):
    prefix: int
    table: int
    kind: int
    attributes: dict[int, bytes]


class Netlink:
    """One rtnetlink socket, bound to the network namespace it was opened in."""

    def __init__(self, channel: socket.socket | None = None) -> None:
        """`channel`: a netlink socket of another network namespace, to work in that namespace."""
        self._socket = channel or socket.socket(*SOCKET)
        self._socket.bind((0, 0))
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    # ── links ──────────────────────────────────────────────────────────────────────────
    def links(self) -> list[Link]:
        found = []
        for payload in self._dump(_GETLINK, _link_header(0)):
            index = struct.unpack_from("=i", payload, 4)[0]
            attributes = dict(_attributes(payload[16:]))
            name = attributes.get(_IFLA_IFNAME, b"").rstrip(b"\0").decode()
            found.append(Link(index, name))
        return found

    def number(self, name: str) -> int:
        """The index of an interface in the namespace of the socket. Raises OSError (ENODEV)."""
        for link in self.links():
            if link.name == name:
                return link.number
        raise OSError(errno.ENODEV, f"netlink: no interface {name}")

    def add_bridge(self, name: str) -> None:
        info = attribute(_INFO_KIND, b"bridge")
        body = _link_header(0, up=True) + _name(name) + nested(_IFLA_LINKINFO, info)
        self._request(_NEWLINK, _CREATE | _EXCL, body)

    def add_veth(self, name: str, *, bridge: str, peer: str, pid: int) -> None:
        """Connect `bridge` to the interface `peer` in the network namespace of process `pid`.

        The kernel removes the pair together with that namespace.
        """
        far = _link_header(0) + _name(peer) + attribute(_IFLA_NET_NS_PID, struct.pack("=I", pid))
        info = attribute(_INFO_KIND, b"veth") + nested(_INFO_DATA, nested(_VETH_PEER, far))
        master = attribute(_IFLA_MASTER, struct.pack("=I", self.number(bridge)))
        body = _link_header(0, up=True) + _name(name) + master + nested(_IFLA_LINKINFO, info)
        self._request(_NEWLINK, _CREATE | _EXCL, body)

    def set_up(self, name: str) -> None:
        self._request(_SETLINK, 0, _link_header(self.number(name), up=True))

    def delete_link(self, number: int) -> None:
        self._request(_DELLINK, 0, _link_header(number))

    # ── addresses and routes ───────────────────────────────────────────────────────────
    def addresses(self) -> list[IPv4Interface]:
        found = []
        for payload in self._dump(_GETADDR, struct.pack("=BBBBi", socket.AF_INET, 0, 0, 0, 0)):
            attributes = dict(_attributes(payload[8:]))
            if local := attributes.get(_IFA_LOCAL):
                found.append(IPv4Interface((local, payload[1])))
        return found

    def add_address(self, name: str, address: IPv4Interface) -> None:
        packed = address.ip.packed
        header = struct.pack(
            "=BBBBi",
            socket.AF_INET,
            address.network.prefixlen,
            0,
            _SCOPE_UNIVERSE,
            self.number(name),
        )
        body = header + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)
        self._request(_NEWADDR, _CREATE | _EXCL, body)

    def routes(self) -> list[IPv4Network]:
        """The networks that have a route, without the default route and without single addresses of the
        machine itself."""
        found = []
        for route in self._routes():
            local_network = route.table == _TABLE_LOCAL and route.kind == _LOCAL
            counts = route.table == _TABLE_MAIN or (local_network and route.prefix < 32)
            if counts and (packed := route.attributes.get(_RTA_DST)):
                found.append(IPv4Network((packed, route.prefix)))
        return found

    def default_interfaces(self) -> set[int]:
        """The indexes of the interfaces with a default route."""
        found = set()
        for route in self._routes():
            is_default = route.table == _TABLE_MAIN and route.prefix == 0
            if is_default and _RTA_OIF in route.attributes:
                found.add(struct.unpack("=I", route.attributes[_RTA_OIF])[0])
        return found

    def _routes(self) -> Iterator[_Route]:
        for payload in self._dump(_GETROUTE, _ALL_ROUTES):
            _, prefix, _, _, table, _, _, kind = payload[:8]
            yield _Route(prefix, table, kind, dict(_attributes(payload[12:])))

    def add_default_route(self, gateway: IPv4Address) -> None:
        header = _route_header(0, _TABLE_MAIN, _SCOPE_UNIVERSE, _UNICAST)
        body = header + attribute(_RTA_GATEWAY, gateway.packed)
        self._request(_NEWROUTE, _CREATE | _EXCL, body)

    def add_local_route(self, network: IPv4Network, name: str, priority: int) -> None:
        """Make every address of `network` an address of this machine (AnyIP).

        The kernel removes the route together with interface `name`.
        """
        header = _route_header(network.prefixlen, _TABLE_LOCAL, _SCOPE_HOST, _LOCAL)
        body = (
            header
            + attribute(_RTA_DST, network.network_address.packed)
            + attribute(_RTA_OIF, struct.pack("=I", self.number(name)))
            + attribute(_RTA_PRIORITY, struct.pack("=I", priority))
        )
        self._request(_NEWROUTE, _CREATE | _APPEND, body)

    # ── messages ───────────────────────────────────────────────────────────────────────
    def _send(self, kind: int, flags: int, body: bytes) -> None:
        self._sequence += 1
        header = struct.pack("=IHHII", 16 + len(body), kind, flags, self._sequence, 0)
        self._socket.send(header + body)

    def _request(self, kind: int, flags: int, body: bytes) -> None:
        self._send(kind, _REQUEST | _ACK | flags, body)
        for message_kind, payload in _messages(self._socket.recv(65536)):
            if message_kind == _ERROR:
                _raise_error(payload)

    def _dump(self, kind: int, body: bytes) -> Iterator[bytes]:
        self._send(kind, _REQUEST | _DUMP, body)
        while True:
            for message_kind, payload in _messages(self._socket.recv(1 << 20)):
                if message_kind == _DONE:
                    return
                if message_kind == _ERROR:
                    _raise_error(payload)
                yield payload


def _raise_error(payload: bytes) -> None:
    code = -struct.unpack_from("=i", payload)[0]
    if code:
        raise OSError(code, f"netlink: {os.strerror(code)}")


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        yield kind, data[16:length]
        data = data[(length + 3) & ~3 :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            return
        yield kind & ~_NESTED, data[4:length]
        data = data[(length + 3) & ~3 :]


def attribute(kind: int, value: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def nested(kind: int, value: bytes) -> bytes:
    return attribute(kind | _NESTED, value)


def _name(name: str) -> bytes:
    return attribute(_IFLA_IFNAME, name.encode() + b"\0")


def _link_header(index: int, *, up: bool = False) -> bytes:
    flags = _UP if up else 0
    return struct.pack("=BBHiII", socket.AF_UNSPEC, 0, 0, index, flags, flags)


def _route_header(prefix: int, table: int, scope: int, kind: int) -> bytes:
    return struct.pack(
        "=BBBBBBBBI", socket.AF_INET, prefix, 0, 0, table, _PROTO_STATIC, scope, kind, 0
    )
