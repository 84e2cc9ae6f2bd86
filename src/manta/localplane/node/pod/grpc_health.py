"""The gRPC health check (grpc.health.v1.Health/Check), with a minimal HTTP/2 client for one call.

It sends headers as literals, so it needs no compression tables, and reads only the message of the response.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from enum import IntEnum

from manta.localplane.node.net.relay import Streams

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_STREAM = 1
_END_STREAM, _END_HEADERS, _ACK, _PADDED = 0x1, 0x4, 0x1, 0x8
_LARGEST = 1 << 20
_FRAME_LIMIT = 16384
"""Default limit of bytes in one frame."""
_NAMES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")


class _Frame(IntEnum):
    DATA = 0
    HEADERS = 1
    RESET = 3
    SETTINGS = 4
    PING = 6
    GO_AWAY = 7


async def check_health(streams: Streams, authority: str, service: str) -> str:
    """The status of a service, such as SERVING. Raises OSError if the server lacks the protocol."""
    reader, writer = streams
    try:
        writer.write(_PREFACE + _frame(_Frame.SETTINGS, 0, b"", stream=0))
        writer.write(_frame(_Frame.HEADERS, _END_HEADERS, _headers(authority)))
        writer.write(_data_frames(_message(service)))
        await writer.drain()
        body = b""
        while True:
            head = await reader.readexactly(9)
            length, kind, flags = int.from_bytes(head[:3]), head[3], head[4]
            if length > _LARGEST:
                raise OSError("this is not an HTTP/2 server")
            payload = await reader.readexactly(length)
            if reply := _reply(kind, flags, payload):
                writer.write(reply)
            if int.from_bytes(head[5:]) & 0x7FFFFFFF == _STREAM:
                body += _content(kind, flags, payload)
                if flags & _END_STREAM and kind in (_Frame.DATA, _Frame.HEADERS):
                    return _status(body)
            if kind in (_Frame.RESET, _Frame.GO_AWAY):
                raise OSError("the server ended the call")
    except EOFError as error:
        raise OSError("the server closed the connection") from error
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


def _reply(kind: int, flags: int, payload: bytes) -> bytes:
    """The acknowledgement of settings and pings."""
    if kind in (_Frame.SETTINGS, _Frame.PING) and not flags & _ACK:
        return _frame(kind, _ACK, payload if kind == _Frame.PING else b"", stream=0)
    return b""


def _content(kind: int, flags: int, payload: bytes) -> bytes:
    if kind != _Frame.DATA:
        return b""
    return payload[1 : len(payload) - payload[0]] if flags & _PADDED else payload


def _status(body: bytes) -> str:
    """Field 1 of a HealthCheckResponse, a small number; absent if 0."""
    if len(body) < 5:
        raise OSError("this server does not implement the gRPC health protocol (grpc.health.v1)")
    message = body[5:]
    number = message[1] if message[:1] == b"\x08" and len(message) > 1 else 0
    return _NAMES[number] if number < len(_NAMES) else str(number)


def _frame(kind: int, flags: int, payload: bytes, stream: int = _STREAM) -> bytes:
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def _data_frames(message: bytes) -> bytes:
    parts = [message[at : at + _FRAME_LIMIT] for at in range(0, len(message), _FRAME_LIMIT)]
    whole = [_frame(_Frame.DATA, 0, part) for part in parts[:-1]]
    return b"".join([*whole, _frame(_Frame.DATA, _END_STREAM, parts[-1])])


def _headers(authority: str) -> bytes:
    pairs = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/grpc.health.v1.Health/Check",
        ":authority": authority,
        "te": "trailers",
        "content-type": "application/grpc",
        "user-agent": "kube-probe/manta",
    }
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in pairs.items())


def _text(text: str) -> bytes:
    """An uncompressed HPACK string."""
    data = text.encode()
    if len(data) < 0x7F:
        return bytes([len(data)]) + data
    return b"\x7f" + _varint(len(data) - 0x7F) + data


def _varint(number: int) -> bytes:
    """Seven bits per byte, lowest first, as HPACK and protobuf write lengths."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _message(service: str) -> bytes:
    """A HealthCheckRequest: field 1 is the name of the service."""
    name = service.encode()
    message = b"\x0a" + _varint(len(name)) + name if name else b""
    return b"\0" + struct.pack("!I", len(message)) + message
