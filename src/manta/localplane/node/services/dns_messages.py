"""DNS messages: parses queries with one question, renders A, SRV, PTR and CNAME records. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

A, CNAME, PTR, AAAA, SRV, ANY = 1, 5, 12, 28, 33, 255
IN = 1
NOERROR, FORMERR, SERVFAIL, NXDOMAIN = 0, 1, 2, 3
_RESPONSE, _AUTHORITATIVE, _RECURSION_AVAILABLE, _TRUNCATED = 0x8000, 0x0400, 0x0080, 0x0200
_RECURSION_DESIRED = 0x0100
MAX_UDP = 512


class MalformedQuery(ValueError):  # noqa: N818 - a state of the packet
    """This is not a DNS query that can be answered."""


@dataclass(frozen=True, slots=True)
class Question:
    id: int
    name: str
    """Lower case, without the final dot."""
    type: int
    flags: int
    raw: bytes
    """The question section of the query, repeated in the response."""

    @property
    def wants_address(self) -> bool:
        return self.type in (A, ANY)


@dataclass(frozen=True, slots=True)
class Service:
    """The data of an SRV record."""

    priority: int
    weight: int
    port: int
    target: str


@dataclass(frozen=True, slots=True)
class Record:
    name: str
    value: IPv4Address | Service | str
    """An address (A), a service (SRV), or a name (CNAME, or PTR when `pointer`)."""
    ttl: int
    pointer: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    code: int = NOERROR
    records: tuple[Record, ...] = ()
    extra: tuple[Record, ...] = ()


def parse_question(packet: bytes) -> Question:
    """The question of a DNS query. Raises MalformedQuery."""
    if len(packet) < 12:
        raise MalformedQuery("too short")
    identity, flags, questions = struct.unpack_from("!HHH", packet)
    if flags & _RESPONSE or questions != 1:
        raise MalformedQuery("not a query with one question")
    labels: list[str] = []
    position = 12
    while True:
        if position >= len(packet):
            raise MalformedQuery("the name does not end")
        length = packet[position]
        position += 1
        if length == 0:
            break
        if length > 63 or position + length > len(packet):
            raise MalformedQuery("a label is too long")
        labels.append(packet[position : position + length].decode("ascii", "replace"))
        position += length
    if position + 4 > len(packet):
        raise MalformedQuery("the question does not end")
    kind, _ = struct.unpack_from("!HH", packet, position)
    raw = packet[12 : position + 4]
    return Question(identity, ".".join(labels).lower(), kind, flags, raw)


def render(question: Question, reply: Reply, *, limit: int = MAX_UDP) -> bytes:
    """The response; one longer than `limit` is cut, with the bit that sends the client to TCP."""
    answers = [*_render_all(reply.records)]
    extra = [*_render_all(reply.extra)]
    whole = _assemble(question, reply.code, answers, extra, 0)
    if len(whole) <= limit:
        return whole
    while answers and len(_assemble(question, reply.code, answers, [], 0)) > limit:
        answers.pop()
    return _assemble(question, reply.code, answers, [], _TRUNCATED)


def _assemble(
    question: Question, code: int, answers: Sequence[bytes], extra: Sequence[bytes], more: int
) -> bytes:
    flags = _RESPONSE | _AUTHORITATIVE | _RECURSION_AVAILABLE | more | code
    flags |= question.flags & _RECURSION_DESIRED
    counts = (1, len(answers), 0, len(extra))
    header = struct.pack("!HHHHHH", question.id, flags, *counts)
    return header + question.raw + b"".join(answers) + b"".join(extra)


def _render_all(records: Sequence[Record]) -> Iterator[bytes]:
    for record in records:
        kind, data = _data(record)
        head = struct.pack("!HHIH", kind, IN, record.ttl, len(data))
        yield encode_name(record.name) + head + data


def _data(record: Record) -> tuple[int, bytes]:
    match record.value:
        case IPv4Address() as address:
            return A, address.packed
        case Service(priority, weight, port, target):
            return SRV, struct.pack("!HHH", priority, weight, port) + encode_name(target)
        case str() as name:
            return (PTR if record.pointer else CNAME), encode_name(name)


def encode_name(name: str) -> bytes:
    labels = [label.encode("idna" if not label.isascii() else "ascii") for label in name.split(".")]
    return b"".join(bytes([len(label)]) + label for label in labels if label) + b"\0"


def render_failure(packet: bytes, code: int) -> bytes:
    """An error response for a malformed query: its ID and nothing else."""
    identity = packet[:2].ljust(2, b"\0")
    return identity + struct.pack("!HHHHH", _RESPONSE | _RECURSION_AVAILABLE | code, 0, 0, 0, 0)
