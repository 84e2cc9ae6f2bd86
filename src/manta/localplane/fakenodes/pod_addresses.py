"""Allocates the addresses of fake Pods. No address is used twice, also after a restart."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address

from manta.localplane.builtin.views import Pod

RANGE = IPv4Network("10.128.0.0/9")


def _parse(text: str) -> IPv4Address | IPv6Address | None:
    """The address, or None. Any client may have written the status, so the text may be invalid."""
    try:
        return ip_address(text)
    except ValueError:
        return None


class PodAddresses:
    def __init__(self) -> None:
        self._next = int(RANGE.network_address) + 1
        self._by_uid: dict[str, str] = {}

    def reserve(self, pod: Pod) -> None:
        """Keep the address in the Pod's status from being allocated again."""
        address = _parse(pod.status.pod_ip)
        if address is not None and address in RANGE:
            self._by_uid[pod.metadata.uid] = str(address)
            self._next = max(self._next, int(address) + 1)

    def allocate(self, uid: str) -> str:
        """The address of the Pod: always the same one for the same UID."""
        if uid not in self._by_uid:
            self._by_uid[uid] = str(IPv4Address(self._next))
            self._next += 1
        return self._by_uid[uid]

    def release(self, uid: str) -> None:
        self._by_uid.pop(uid, None)
