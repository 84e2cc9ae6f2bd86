"""An address to listen on, as `--metrics-addr` and similar flags spell it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Address:
    host: str | None
    """None: all interfaces."""
    port: int

    @classmethod
    def parse(cls, text: str) -> Address | None:
        """Read `:8080`, `127.0.0.1:8080` or `[::1]:8080`; return None for '0' and '' (disabled).

        Raises ValueError for anything else.
        """
        if text in {"", "0"}:
            return None
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > 65535:
            raise ValueError(f"{text!r} is no address such as :8080 or 127.0.0.1:8080")
        return cls(host.strip("[]") or None, int(port))
