"""The state of the server that a single write depends on: free addresses, accounts, classes."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

from manta.api.names import SUFFIX_ALPHABET
from manta.localplane.apiserver.core import Core
from manta.localplane.apiserver.schema import causes
from manta.localplane.apiserver.selectors import fields_reader
from manta.localplane.apiserver.status_errors import StatusError, internal, invalid
from manta.localplane.store.objects import Record, key_of

SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)
_RESERVED = (0, 1, 10, -1)
"""Network, broadcast, and the addresses of the Service `kubernetes` and of cluster DNS."""
_PRIORITIES = "priorityclasses.scheduling.k8s.io"

_read_service = fields_reader(("spec.clusterIP", "spec.type"))


class AdmissionContext:
    def __init__(
        self, core: Core, *, demand_accounts: bool, network: ipaddress.IPv4Network = SERVICE_NETWORK
    ) -> None:
        self._core = core
        self._demand_accounts = demand_accounts
        self._network = network
        self._reserved = frozenset(str(network[index]) for index in _RESERVED)
        self._last_address = int(network.network_address) + 1

    def now(self) -> str:
        return self._core.now_text()

    def cluster_ip(self, metadata: Mapping[str, Any], wanted: str) -> str:
        """The wanted address, or the next free one. Raises a 422 if the wanted one cannot be allocated."""
        own = key_of(metadata.get("namespace", ""), metadata.get("name", ""))
        used = {self._address_of(record): record.key for record in self._services()}
        if not wanted:
            return self._free_address(used)
        if own in used.values() and used.get(wanted) != own:
            return wanted  # an address never changes: validation reports it
        problem = ""
        if used.get(wanted, own) != own:
            problem = "provided IP is already allocated"
        elif ipaddress.ip_address(wanted) not in self._network:
            problem = (
                f"the provided IP ({wanted}) is not in the valid range. The range of valid IPs is "
                f"{self._network}"
            )
        if problem:
            detail = f"failed to allocate IP {wanted}: {problem}"
            raise _invalid(metadata, causes.invalid("spec.clusterIPs", [wanted], detail))
        return wanted

    def _free_address(self, used: Mapping[str, str]) -> str:
        for _ in range(self._network.num_addresses):
            self._last_address += 1
            if self._last_address > int(self._network.broadcast_address):
                self._last_address = int(self._network.network_address) + 1
            candidate = str(ipaddress.ip_address(self._last_address))
            if candidate not in used and candidate not in self._reserved:
                return candidate
        raise internal("failed to allocate a serviceIP: range is full")

    def node_port(self, metadata: Mapping[str, Any], wanted: int) -> int:
        own = key_of(metadata.get("namespace", ""), metadata.get("name", ""))
        used = {
            port["nodePort"]: record.key
            for record in self._services()
            if b'"nodePort"' in record.raw
            for port in (record.decode().get("spec") or {}).get("ports") or ()
            if port.get("nodePort")
        }
        if wanted:
            if used.get(wanted, own) != own:
                problem = "provided port is already allocated"
                raise _invalid(metadata, causes.invalid("spec.ports[0].nodePort", wanted, problem))
            return wanted
        free = [port for port in NODE_PORTS if port not in used]
        if not free:
            raise internal("failed to allocate a nodePort: range is full")
        return free[self._core.random.randrange(len(free))]

    def service_account(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        record = self._core.store.get("serviceaccounts", key_of(namespace, name))
        if record is not None:
            return record.decode()
        return None if self._demand_accounts else {"metadata": {"name": name}}

    def priority_class(self, name: str) -> Mapping[str, Any] | None:
        record = self._core.store.get(_PRIORITIES, name)
        return record.decode() if record is not None else None

    def default_priority_class(self) -> Mapping[str, Any] | None:
        for record in self._core.store.select(_PRIORITIES):
            if b'"globalDefault":true' in record.raw:
                return record.decode()
        return None

    def random_suffix(self) -> str:
        return "".join(self._core.random.choice(SUFFIX_ALPHABET) for _ in range(5))

    def _services(self) -> Iterable[Record]:
        return self._core.store.select("services")

    @staticmethod
    def _address_of(record: Record) -> str:
        if record.fields is None:
            named = {"metadata.name": record.name, "metadata.namespace": record.namespace}
            record.fields = named | dict(_read_service(record.raw))
        return record.fields["spec.clusterIP"]


def _invalid(metadata: Mapping[str, Any], cause: causes.Cause) -> StatusError:
    return invalid("Service", "", metadata.get("name", ""), [cause])
