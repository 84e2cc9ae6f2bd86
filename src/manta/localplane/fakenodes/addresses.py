"""Addresses for fake Pods: each one once, also after a restart."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address

from manta.localplane.builtin.views import Pod

RANGE = IPv4Network("10.128.0.0/9")


def _read(text: str) -> IPv4Address | IPv6Address | None:
    """Anyone may write a status: an address of another family, or none at all."""
    try:
        return ip_address(text)
    except ValueError:
        return None


class Addresses:
    def __init__(self) -> None:
        self._next = int(RANGE.network_address) + 1
        self._given: dict[str, str] = {}

    def note(self, pod: Pod) -> None:
        """An address that is in use is never given again."""
        address = _read(pod.status.pod_ip)
        if address is not None and address in RANGE:
            self._given[pod.metadata.uid] = str(address)
            self._next = max(self._next, int(address) + 1)

    def of(self, uid: str) -> str:
        if uid not in self._given:
            self._given[uid] = str(IPv4Address(self._next))
            self._next += 1
        return self._given[uid]

    def forget(self, uid: str) -> None:
        self._given.pop(uid, None)
