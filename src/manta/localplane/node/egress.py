"""The way out of the Pods' network: their packets leave under the machine's own address.

One nftables table with one rule, written straight to the kernel, and forwarding switched on for the
interfaces concerned. Only as root; a kernel without nftables leaves Pods without the way out. Whatever
is changed is undone by `close_way`: the table goes by name, and the last plane of the machine puts the
interfaces' forwarding back as it was.
"""

from __future__ import annotations

import logging
import os
import socket
import struct
import tempfile
from collections.abc import Iterable
from ipaddress import IPv4Network
from pathlib import Path

from manta.localplane.node import wire
from manta.localplane.node.netlink import Netlink, attribute, nested

log = logging.getLogger(__name__)

_NETFILTER = 12
_SUBSYSTEM = 10
_BATCH_BEGIN, _BATCH_END = 16, 17
_NEW_TABLE, _DELETE_TABLE, _NEW_CHAIN, _NEW_RULE = 0, 2, 3, 6
_REQUEST, _ACK, _CREATE = 0x1, 0x4, 0x400
_IPV4 = socket.AF_INET
_POST_ROUTING, _SOURCE_NAT = 4, 100
_REGISTER = 1
_NETWORK_HEADER, _SOURCE_OFFSET = 1, 12
_OUTPUT_NAME = 7
_EQUAL, _UNEQUAL = 0, 1
_INTERFACE_NAME = 16


def open_way(name: str, subnet: IPv4Network, bridge: str) -> bool:
    """Let Pods reach what the machine reaches. False: this kernel or machine does not let us."""
    try:
        _send(_table_messages(name, subnet, bridge))
        _switch_forwarding_on([bridge, *_uplinks()])
    except OSError as error:
        log.info("Pods reach only each other and the machine: %s", error)
        return False
    return True


def close_way(name: str, *, last: bool) -> None:
    """Undo it. `last`: no other plane of this machine needs the forwarding."""
    try:
        _send([_message(_DELETE_TABLE, 0, _text(1, name))])
    except OSError:
        log.debug("there was no table %s", name)
    if last:
        _put_forwarding_back()


# ── nftables ─────────────────────────────────────────────────────────────────────────────
def _table_messages(name: str, subnet: IPv4Network, bridge: str) -> list[bytes]:
    """Written as nft does: `ip saddr SUBNET oifname != BRIDGE masquerade`. A table of this name
    that is there already is made anew."""
    table = _text(1, name)
    hook = nested(4, _number(1, _POST_ROUTING) + _number(2, _SOURCE_NAT))
    chain = _text(1, name) + _text(3, "out") + hook + _text(7, "nat")
    rule = _text(1, name) + _text(2, "out") + nested(4, b"".join(_expressions(subnet, bridge)))
    return [
        _message(_NEW_TABLE, _CREATE, table),
        _message(_DELETE_TABLE, 0, table),
        _message(_NEW_TABLE, _CREATE, table),
        _message(_NEW_CHAIN, _CREATE, chain),
        _message(_NEW_RULE, _CREATE, rule),
    ]


def _expressions(subnet: IPv4Network, bridge: str) -> Iterable[bytes]:
    source = (
        _number(1, _REGISTER)
        + _number(2, _NETWORK_HEADER)
        + _number(3, _SOURCE_OFFSET)
        + _number(4, 4)
    )
    yield _expression("payload", source)
    mask = nested(4, attribute(1, subnet.netmask.packed)) + nested(5, attribute(1, b"\0" * 4))
    yield _expression(
        "bitwise", _number(1, _REGISTER) + _number(2, _REGISTER) + _number(3, 4) + mask
    )
    yield _expression("cmp", _comparison(_EQUAL, subnet.network_address.packed))
    yield _expression("meta", _number(1, _REGISTER) + _number(2, _OUTPUT_NAME))
    padded = bridge.encode().ljust(_INTERFACE_NAME, b"\0")
    yield _expression("cmp", _comparison(_UNEQUAL, padded))
    yield _expression("masq", b"")


def _comparison(operation: int, value: bytes) -> bytes:
    return _number(1, _REGISTER) + _number(2, operation) + nested(3, attribute(1, value))


def _expression(name: str, data: bytes) -> bytes:
    return nested(1, _text(1, name) + nested(2, data))


def _text(kind: int, text: str) -> bytes:
    return attribute(kind, text.encode() + b"\0")


def _number(kind: int, number: int) -> bytes:
    return attribute(kind, struct.pack("!I", number))


def _message(kind: int, flags: int, body: bytes) -> bytes:
    head = struct.pack("!BBH", _IPV4, 0, 0)
    return _framed(_SUBSYSTEM << 8 | kind, _REQUEST | _ACK | flags, head + body)


def _framed(kind: int, flags: int, content: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(content), kind, flags, 1, 0) + content


def _send(messages: list[bytes]) -> None:
    """All of them or none: the kernel takes a batch as one change."""
    subsystem = struct.pack("!BBH", socket.AF_UNSPEC, 0, _SUBSYSTEM)
    batch = [
        _framed(_BATCH_BEGIN, _REQUEST, subsystem),
        *messages,
        _framed(_BATCH_END, _REQUEST, subsystem),
    ]
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER) as channel:
        channel.settimeout(2.0)
        channel.bind((0, 0))
        channel.send(b"".join(batch))
        answered = 0
        while answered < len(messages):
            answered += _read_answers(channel.recv(65536))


def _read_answers(data: bytes) -> int:
    count = 0
    while len(data) >= 20:
        (length,) = struct.unpack_from("=I", data)
        code = -struct.unpack_from("=i", data, 16)[0]
        if code:
            raise OSError(code, f"nftables: {os.strerror(code)}")
        count += 1
        data = data[(length + 3) & ~3 :]
    return count


# ── forwarding ───────────────────────────────────────────────────────────────────────────
def _uplinks() -> list[str]:
    netlink = Netlink()
    try:
        numbers = netlink.default_interfaces()
        return [link.name for link in netlink.links() if link.number in numbers]
    finally:
        netlink.close()


def _forwarding(interface: str) -> Path:
    return Path("/proc/sys/net/ipv4/conf", interface, "forwarding")


def _memory() -> Path:
    return Path(tempfile.gettempdir(), f".manta-forwarding-{os.geteuid()}.json")


def _switch_forwarding_on(interfaces: Iterable[str]) -> None:
    before = wire.read_record(_memory()) or {}
    for interface in interfaces:
        setting = _forwarding(interface)
        value = setting.read_text().strip()
        if value != "1":
            before.setdefault(interface, value)
            setting.write_text("1")
    wire.write_record(_memory(), before)


def _put_forwarding_back() -> None:
    before = wire.read_record(_memory()) or {}
    for interface, value in before.items():
        setting = _forwarding(interface)
        if setting.exists():
            setting.write_text(str(value))
    _memory().unlink(missing_ok=True)
