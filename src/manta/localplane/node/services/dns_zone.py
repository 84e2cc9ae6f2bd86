"""The DNS records of the cluster. Pure.

SERVICE.NAMESPACE.svc.DOMAIN                 ClusterIP, or the ready Pods of a headless Service, or what stands in for
                                             them while they sleep
HOSTNAME.SERVICE.NAMESPACE.svc.DOMAIN        one Pod of a headless Service
_PORT._PROTOCOL.SERVICE.NAMESPACE.svc.DOMAIN SRV
1-2-3-4.NAMESPACE.pod.DOMAIN                 the Pod with that address
4.3.2.1.in-addr.arpa                         PTR
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from manta.api.core import Service
from manta.api.discovery import Endpoint, EndpointSlice
from manta.api.well_known import LABEL_SERVICE_NAME
from manta.localplane.node.services import dns_messages
from manta.localplane.node.services.dns_messages import (
    ANY,
    NXDOMAIN,
    PTR,
    SRV,
    Question,
    Record,
    Reply,
)
from manta.localplane.node.services.proxy import own_endpoints

TTL = 5
"""Seconds. Short, because a restarted Pod gets another address."""
_REVERSE = ".in-addr.arpa"


@dataclass(frozen=True, slots=True)
class Zone:
    """Answers from the Services and EndpointSlices that the functions return."""

    domain: str
    service: Callable[[str, str], Service | None]
    slices: Callable[[str, str], Iterable[EndpointSlice]]
    all_slices: Callable[[], Iterable[EndpointSlice]]
    all_services: Callable[[], Iterable[Service]]
    networks: tuple[IPv4Network, ...] = ()
    """The plane's own networks: reverse queries for them are never forwarded."""

    def answer(self, question: Question) -> Reply | None:
        """The reply, or None if the name does not belong to the cluster."""
        if question.name.endswith(_REVERSE):
            return self._reverse(question)
        suffix = f".{self.domain}"
        if question.name != self.domain and not question.name.endswith(suffix):
            return None
        labels = question.name.removesuffix(suffix).split(".")
        match labels:
            case [*rest, namespace, "svc"] if rest:
                return self._of_service(question, rest, namespace)
            case [dashed, _, "pod"]:
                return self._of_pod(question, dashed)
            case [_, "svc"] | ["svc" | "pod"]:
                return Reply()  # the name exists because names below it do, but has no records
            case _:
                return Reply() if question.name == self.domain else Reply(NXDOMAIN)

    def without_endpoints(self, question: Question) -> Service | None:
        """The headless Service whose address is asked for, if it has none."""
        match question.name.removesuffix(f".{self.domain}").split("."):
            case [name, namespace, "svc"] if question.wants_address:
                service = self.service(namespace, name)
            case _:
                return None
        if service is None or not service.headless or any(self.endpoints(service)):
            return None
        return service

    # ── Services ───────────────────────────────────────────────────────────────────────
    def _of_service(self, question: Question, rest: Sequence[str], namespace: str) -> Reply:
        service = self.service(namespace, rest[-1])
        if service is None:
            return Reply(NXDOMAIN)
        if service.spec.type == "ExternalName":
            alias = Record(question.name, service.spec.external_name.rstrip("."), TTL)
            return Reply(records=(alias,)) if len(rest) == 1 else Reply(NXDOMAIN)
        match rest[:-1]:
            case []:
                return self._addresses(question, service)
            case [hostname] if not hostname.startswith("_"):
                return self._one_pod(question, service, hostname)
            case [port, protocol] if port.startswith("_") and protocol.startswith("_"):
                return self._ports(question, service, port[1:], protocol[1:])
            case _:
                return Reply(NXDOMAIN)

    def _addresses(self, question: Question, service: Service) -> Reply:
        if not question.wants_address:
            return Reply()  # such as AAAA: the name exists, but has no such record
        if not service.headless:
            address = service.spec.cluster_ip
            return addresses_reply(question.name, [address] if address else [])
        return addresses_reply(question.name, [one for one, _ in self.endpoints(service)])

    def _one_pod(self, question: Question, service: Service, hostname: str) -> Reply:
        found = [
            address
            for address, endpoint in self.endpoints(service)
            if hostname in (endpoint.hostname, address.replace(".", "-"))
        ]
        if not found:
            return Reply(NXDOMAIN)
        return addresses_reply(question.name, found) if question.wants_address else Reply()

    def _ports(self, question: Question, service: Service, port: str, protocol: str) -> Reply:
        numbers = [
            one.port
            for one in service.spec.ports
            if one.name == port and one.protocol.lower() == protocol
        ]
        if not numbers:
            return Reply(NXDOMAIN)
        if question.type not in (SRV, ANY):
            return Reply()
        base = f"{service.metadata.name}.{service.metadata.namespace}.svc.{self.domain}"
        if not service.headless:
            record = Record(question.name, dns_messages.Service(0, 100, numbers[0], base), TTL)
            extra = addresses_reply(base, [service.spec.cluster_ip]).records
            return Reply(records=(record,), extra=extra)
        records, extra_records = [], []
        for address, endpoint in self.endpoints(service):
            name = f"{endpoint.hostname or address.replace('.', '-')}.{base}"
            records.append(
                Record(question.name, dns_messages.Service(0, 100, numbers[0], name), TTL)
            )
            extra_records.append(Record(name, IPv4Address(address), TTL))
        return Reply(records=tuple(records), extra=tuple(extra_records))

    def endpoints(self, service: Service) -> Iterator[tuple[str, Endpoint]]:
        """The usable addresses of a Service's endpoints, each once."""
        seen: set[str] = set()
        open_early = service.spec.publish_not_ready_addresses
        for one in self.slices(service.metadata.namespace, service.metadata.name):
            for endpoint in own_endpoints(one):
                if not (endpoint.ready or open_early):
                    continue
                for address in endpoint.addresses:
                    if address not in seen and _is_ipv4(address):
                        seen.add(address)
                        yield address, endpoint

    # ── Pods and reverse queries ───────────────────────────────────────────────────────
    def _of_pod(self, question: Question, dashed: str) -> Reply:
        try:
            address = IPv4Address(dashed.replace("-", "."))
        except ValueError:
            return Reply(NXDOMAIN)
        if not any(address in network for network in self.networks):
            return Reply(NXDOMAIN)
        return addresses_reply(question.name, [str(address)]) if question.wants_address else Reply()

    def _reverse(self, question: Question) -> Reply | None:
        digits = question.name.removesuffix(_REVERSE).split(".")
        try:
            address = IPv4Address(".".join(reversed(digits)))
        except ValueError:
            return None
        if not any(address in network for network in self.networks):
            return None
        if question.type not in (PTR, ANY):
            return Reply()
        names = [*self._names_of(str(address))]
        if not names:
            return Reply(NXDOMAIN)
        return Reply(records=(Record(question.name, names[0], TTL, pointer=True),))

    def _names_of(self, address: str) -> Iterator[str]:
        for service in self.all_services():
            if service.spec.cluster_ip == address:
                meta = service.metadata
                yield f"{meta.name}.{meta.namespace}.svc.{self.domain}"
        for one in self.all_slices():
            name = one.metadata.labels.get(LABEL_SERVICE_NAME, "")
            for endpoint in one.endpoints:
                if address in endpoint.addresses and name:
                    host = endpoint.hostname or address.replace(".", "-")
                    yield f"{host}.{name}.{one.metadata.namespace}.svc.{self.domain}"


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True


def addresses_reply(name: str, addresses: Iterable[str]) -> Reply:
    return Reply(records=tuple(Record(name, IPv4Address(one), TTL) for one in addresses))
