"""Address ranges of Pods and Services, from the flags of `manta up`."""

from __future__ import annotations

from ipaddress import IPv4Network

from manta.api.usage import UsageError

SHORTEST_PREFIX, LONGEST_PREFIX = 8, 26
"""Limits of the prefix length of address ranges."""


def parse_range(flag: str, text: str | None) -> IPv4Network | None:
    """An address range in CIDR notation; None for None. Raises UsageError."""
    if text is None:
        return None
    try:
        network = IPv4Network(text)
    except ValueError as error:
        raise UsageError(f"{flag} {text}: {error}; write it as 10.96.0.0/16") from error
    if not SHORTEST_PREFIX <= network.prefixlen <= LONGEST_PREFIX:
        raise UsageError(
            f"{flag} {text}: choose a prefix between /{SHORTEST_PREFIX} and /{LONGEST_PREFIX}"
        )
    return network
