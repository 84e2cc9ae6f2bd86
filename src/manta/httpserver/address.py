"""An address to listen on, as `--metrics-addr` and similar flags spell it."""

from __future__ import annotations

from dataclasses import dataclass

from manta.api.usage import UsageError


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
            raise ValueError(f"{text!r} is not an address such as :8080 or 127.0.0.1:8080")
        return cls(host.strip("[]") or None, int(port))


def listen_address(flag: str, text: str, example: str) -> Address:
    """The address of a server that must have one. Raises UsageError, which names the flag."""
    try:
        found = Address.parse(text)
    except ValueError as error:
        raise UsageError(f"{flag} {text}: {error}") from error
    if found is None:
        raise UsageError(f"{flag} {text}: must be HOST:PORT, such as {example}")
    return found
