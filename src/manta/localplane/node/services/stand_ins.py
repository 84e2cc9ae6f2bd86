"""Addresses that stand in for headless Services while their Pods sleep.

A headless Service has no address of its own, so its name leads nowhere while it has no Pods. When somebody asks for the
name of one that sleeps, it gets an address of the Service range here: connections to it wake the Service, and are
passed on. The address stays as long as the Service, because clients may remember it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network

import msgspec

from manta.api.core import Service
from manta.api.meta import Key


class StandIns:
    def __init__(self, network: IPv4Network, services: Callable[[], Iterable[Service]]) -> None:
        self._network = network
        self._services = services
        self._addresses: dict[Key, str] = {}

    def add(self, service: Service) -> str:
        """The address of this Service; empty if the range is full."""
        self._forget()
        key = service.metadata.key
        if key not in self._addresses:
            address = self._free()
            if not address:
                return ""
            self._addresses[key] = address
        return self._addresses[key]

    def listening(self) -> list[Service]:
        """All Services, with these addresses."""
        self._forget()
        return [self._with_address(one) for one in self._services()]

    def _with_address(self, service: Service) -> Service:
        address = self._addresses.get(service.metadata.key)
        if address is None:
            return service
        spec = msgspec.structs.replace(service.spec, cluster_ip=address)
        return msgspec.structs.replace(service, spec=spec)

    def _forget(self) -> None:
        """What belongs to no headless Service any more, or to another Service by now."""
        headless = {one.metadata.key for one in self._services() if one.headless}
        taken = self._taken()
        self._addresses = {
            key: address
            for key, address in self._addresses.items()
            if key in headless and address not in taken
        }

    def _taken(self) -> set[str]:
        return {one.spec.cluster_ip for one in self._services()}

    def _free(self) -> str:
        """A free address from the end of the range, which the API server hardly ever reaches."""
        used = self._taken() | set(self._addresses.values())
        first, last = int(self._network.network_address), int(self._network.broadcast_address)
        candidates = (str(IPv4Address(number)) for number in range(last - 1, first, -1))
        return next((one for one in candidates if one not in used), "")
