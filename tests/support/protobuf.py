"""Enough protobuf to write Kubernetes request bodies by hand."""

from __future__ import annotations

MAGIC = b"k8s\x00"


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def bytes_field(number: int, value: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(value)) + value


def text_field(number: int, value: str) -> bytes:
    return bytes_field(number, value.encode())


def number_field(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def envelope(api_version: str, kind: str, message: bytes) -> bytes:
    """A message as Kubernetes sends it: magic bytes, then its type, then itself."""
    type_meta = text_field(1, api_version) + text_field(2, kind)
    return MAGIC + bytes_field(1, type_meta) + bytes_field(2, message)
