"""The addresses of dashboards. Pure."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from urllib.parse import SplitResult

from manta.api.meta import Key

_MAX_NAME = 40
_NO_LABEL = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Site:
    """`scheme://LABEL.domain[:port]`, where the label is of one cluster."""

    scheme: str
    domain: str
    port: int | None = None

    @classmethod
    def of(cls, url: SplitResult) -> Site:
        return cls(url.scheme, (url.hostname or "").lower(), url.port)

    @property
    def hosts(self) -> str:
        """The pattern of host names for `HttpServer`: all names one label below the domain."""
        return f".{self.domain}"

    def address(self, key: Key) -> str:
        port = f":{self.port}" if self.port is not None else ""
        return f"{self.scheme}://{label_of(key)}.{self.domain}{port}"

    def label(self, host: str) -> str:
        """The label of a Host header; empty if it is no dashboard's."""
        name = host.partition(":")[0].lower()
        label, _, domain = name.partition(".")
        return label if domain == self.domain else ""


def label_of(key: Key) -> str:
    """One DNS label, so that one wildcard certificate is enough: the name for people, a hash for the rest."""
    digest = hashlib.sha256(f"{key.namespace}/{key.name}".encode()).hexdigest()[:16]
    name = _NO_LABEL.sub("-", key.name.lower())[:_MAX_NAME].strip("-")
    return f"{name}-{digest}" if name else digest
