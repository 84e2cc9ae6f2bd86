"""Parses, changes and writes the head of an HTTP/1.1 request. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

_HOP = ("connection", "proxy-connection", "keep-alive", "te")
"""Headers of one connection, which a proxy does not forward."""


class MalformedHead(ValueError):  # noqa: N818 - a state of the request
    """This is not the head of an HTTP/1 request."""


@dataclass(frozen=True, slots=True)
class Head:
    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def host(self) -> str:
        """Lower case, without the port."""
        return self.header("host").lower().partition(":")[0]

    @property
    def upgrades(self) -> bool:
        return "upgrade" in self.header("connection").lower() and bool(self.header("upgrade"))

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")

    def with_path(self, path: str) -> Head:
        query = self.target.partition("?")[2]
        return replace(self, target=f"{path}?{query}" if query else path)

    def with_headers(
        self, put: Mapping[str, str], add: Mapping[str, str], remove: frozenset[str]
    ) -> Head:
        replaced = {name.lower() for name in (*put, *remove)}
        kept = tuple(pair for pair in self.headers if pair[0].lower() not in replaced)
        return replace(self, headers=(*kept, *put.items(), *add.items()))

    def forwarded(self, client: str) -> Head:
        """The head that the proxy forwards; the connection carries one request only."""
        known = self.header("x-forwarded-for")
        add = {
            "X-Forwarded-For": f"{known}, {client}" if known else client,
            "X-Forwarded-Proto": "http",
            "X-Forwarded-Host": self.header("host"),
            "Connection": "Upgrade" if self.upgrades else "close",
        }
        return self.with_headers(add, {}, frozenset(_HOP))

    def encode(self) -> bytes:
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def parse_head(data: bytes) -> Head:
    """`data` ends with the empty line. Raises MalformedHead."""
    first, *rest = data.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise MalformedHead(first[:100])
    headers = []
    for line in rest:
        if not line:
            continue
        name, colon, value = line.partition(":")
        if not colon or name != name.strip():
            raise MalformedHead(line[:100])
        headers.append((name, value.strip()))
    return Head(words[0], words[1], tuple(headers))


def plain_response(status: int, reason: str, text: str) -> bytes:
    body = f"{text}\n".encode()
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
