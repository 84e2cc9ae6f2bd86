"""A minimal nftables client over netlink: tables, chains and the expressions that the Pod network needs."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterable, Sequence
from ipaddress import IPv4Network

from manta.localplane.node.host.netlink import attribute, nested

INPUT, FORWARD, POST_ROUTING = 1, 2, 4
"""Hooks."""
FILTER_PRIORITY, SOURCE_NAT = 0, 100

NETFILTER = 12
_SUBSYSTEM = 10
_BATCH_BEGIN, _BATCH_END = 16, 17
_NEW_TABLE, _DELETE_TABLE, _NEW_CHAIN, _NEW_RULE = 0, 2, 3, 6
_REQUEST, _ACK, _CREATE = 0x1, 0x4, 0x400
_REGISTER, _VERDICT_REGISTER = 1, 0
_NETWORK_HEADER, _SOURCE_OFFSET, _DESTINATION_OFFSET = 1, 12, 16
_INPUT_NAME, _OUTPUT_NAME = 6, 7
_CONNECTION_STATE = 0
_ESTABLISHED, _RELATED = 2, 4
_DROP = 0
_EQUAL, _UNEQUAL = 0, 1
_INTERFACE_NAME = 16


# ── tables ───────────────────────────────────────────────────────────────────────────────
def new_table(name: str) -> list[bytes]:
    """Messages that create an empty table; an existing table of this name is replaced."""
    table = _text(1, name)
    return [
        _message(_NEW_TABLE, _CREATE, table),
        _message(_DELETE_TABLE, 0, table),
        _message(_NEW_TABLE, _CREATE, table),
    ]


def delete_table(name: str) -> bytes:
    return _message(_DELETE_TABLE, 0, _text(1, name))


def new_chain(table: str, name: str, kind: str, hook: int, priority: int) -> bytes:
    where = nested(4, _number(1, hook) + _number(2, priority))
    return _message(_NEW_CHAIN, _CREATE, _text(1, table) + _text(3, name) + where + _text(7, kind))


def new_rule(table: str, chain: str, expressions: Iterable[bytes]) -> bytes:
    body = _text(1, table) + _text(2, chain) + nested(4, b"".join(expressions))
    return _message(_NEW_RULE, _CREATE, body)


# ── expressions ──────────────────────────────────────────────────────────────────────────
def source_in(network: IPv4Network) -> bytes:
    return _address_in(network, _SOURCE_OFFSET)


def destination_in(network: IPv4Network) -> bytes:
    return _address_in(network, _DESTINATION_OFFSET)


def _address_in(network: IPv4Network, offset: int) -> bytes:
    place = _number(2, _NETWORK_HEADER) + _number(3, offset) + _number(4, 4)
    return (
        _expression("payload", _number(1, _REGISTER) + place)
        + _masked(network.netmask.packed)
        + _compared(_EQUAL, network.network_address.packed)
    )


def not_from_interface(interface: str) -> bytes:
    return _interface(_INPUT_NAME, _UNEQUAL, interface)


def to_interface(interface: str) -> bytes:
    return _interface(_OUTPUT_NAME, _EQUAL, interface)


def not_to_interface(interface: str) -> bytes:
    return _interface(_OUTPUT_NAME, _UNEQUAL, interface)


def _interface(key: int, operation: int, name: str) -> bytes:
    read = _expression("meta", _number(1, _REGISTER) + _number(2, key))
    return read + _compared(operation, name.encode().ljust(_INTERFACE_NAME, b"\0"))


def is_no_answer() -> bytes:
    """Matches packets that do not belong to an established or related connection."""
    read = _expression("ct", _number(1, _REGISTER) + _number(2, _CONNECTION_STATE))
    mask = struct.pack("=I", _ESTABLISHED | _RELATED)
    return read + _masked(mask) + _compared(_EQUAL, b"\0" * 4)


def drop() -> bytes:
    verdict = nested(2, nested(2, _number(1, _DROP)))
    return _expression("immediate", _number(1, _VERDICT_REGISTER) + verdict)


def masquerade() -> bytes:
    return _expression("masq", b"")


def _masked(mask: bytes) -> bytes:
    data = nested(4, attribute(1, mask)) + nested(5, attribute(1, b"\0" * 4))
    return _expression(
        "bitwise", _number(1, _REGISTER) + _number(2, _REGISTER) + _number(3, 4) + data
    )


def _compared(operation: int, value: bytes) -> bytes:
    data = _number(1, _REGISTER) + _number(2, operation) + nested(3, attribute(1, value))
    return _expression("cmp", data)


def _expression(name: str, data: bytes) -> bytes:
    return nested(1, _text(1, name) + nested(2, data))


def _text(kind: int, text: str) -> bytes:
    return attribute(kind, text.encode() + b"\0")


def _number(kind: int, number: int) -> bytes:
    return attribute(kind, struct.pack("!I", number))


# ── messages ─────────────────────────────────────────────────────────────────────────────
def _message(kind: int, flags: int, body: bytes) -> bytes:
    head = struct.pack("!BBH", socket.AF_INET, 0, 0)
    return _framed(_SUBSYSTEM << 8 | kind, _REQUEST | _ACK | flags, head + body)


def _framed(kind: int, flags: int, content: bytes) -> bytes:
    return struct.pack("=IHHII", 16 + len(content), kind, flags, 1, 0) + content


def send(messages: Sequence[bytes], channel: socket.socket | None = None) -> None:
    """All of them or none: the kernel takes a batch as one change. `channel`: a netlink socket of
    another network namespace, which is closed."""
    subsystem = struct.pack("!BBH", socket.AF_UNSPEC, 0, _SUBSYSTEM)
    batch = [
        _framed(_BATCH_BEGIN, _REQUEST, subsystem),
        *messages,
        _framed(_BATCH_END, _REQUEST, subsystem),
    ]
    with channel or socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETFILTER) as netlink:
        netlink.settimeout(2.0)
        netlink.bind((0, 0))
        netlink.send(b"".join(batch))
        answered = 0
        while answered < len(messages):
            answered += _read_answers(netlink.recv(65536))


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
