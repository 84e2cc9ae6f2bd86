"""Addresses for fake Pods: each one once, also after a restart."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

from manta.localplane.builtin.views import Pod

RANGE = IPv4Network("10.128.0.0/9")


class Addresses:
    def __init__(self) -> None:
        self._next = int(RANGE.network_address) + 1
        self._given: dict[str, str] = {}

    def note(self, pod: Pod) -> None:
        """An address that is in use is never given again."""
        if pod.status.pod_ip and IPv4Address(pod.status.pod_ip) in RANGE:
            self._given[pod.metadata.uid] = pod.status.pod_ip
            self._next = max(self._next, int(IPv4Address(pod.status.pod_ip)) + 1)

    def of(self, uid: str) -> str:
        if uid not in self._given:
            self._given[uid] = str(IPv4Address(self._next))
            self._next += 1
        return self._given[uid]

    def forget(self, uid: str) -> None:
        self._given.pop(uid, None)
