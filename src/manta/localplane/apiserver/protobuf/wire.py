"""The wire format: a message is a sequence of (number, value)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """The bytes are not a valid message."""


def read_fields(data: bytes) -> Iterator[tuple[int, int | float | bytes]]:
    """Yield (number, value): an int for varints, a float for fixed-width values, otherwise bytes.

    Raises ProtobufError.
    """
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, wire_type = key >> 3, key & 7
        if number == 0:
            raise ProtobufError("illegal tag 0")
        value: int | float | bytes
        if wire_type == _VARINT:
            value, at = read_varint(data, at)
        elif wire_type == _BYTES:
            size, at = read_varint(data, at)
            value, at = _take(data, at, size), at + size
        elif wire_type == _FIXED64:
            value, at = struct.unpack("<d", _take(data, at, 8))[0], at + 8
        elif wire_type == _FIXED32:
            value, at = struct.unpack("<f", _take(data, at, 4))[0], at + 4
        else:
            raise ProtobufError(f"illegal wire type {wire_type} of field {number}")
        yield number, value


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint, and the position after it. Raises ProtobufError."""
    result = shift = 0
    while True:
        if at >= len(data):
            raise ProtobufError("unexpected EOF")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
        if shift > 63:
            raise ProtobufError("integer overflow")


def signed(number: int) -> int:
    """Return a signed number from its 64-bit two's complement."""
    return number - (1 << 64) if number >= 1 << 63 else number


def packed_numbers(data: bytes) -> list[int]:
    numbers: list[int] = []
    at = 0
    while at < len(data):
        number, at = read_varint(data, at)
        numbers.append(signed(number))
    return numbers


def _take(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise ProtobufError("unexpected EOF")
    return data[at : at + size]
