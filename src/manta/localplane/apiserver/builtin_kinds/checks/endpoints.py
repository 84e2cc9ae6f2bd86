"""Endpoints and EndpointSlices. Special addresses are checked by `endpoint_addresses`."""

from __future__ import annotations

from manta.api.names import label_value_errors, qualified_name_errors
from manta.localplane.apiserver.builtin_kinds.checks import rules
from manta.localplane.apiserver.builtin_kinds.checks.rules import Causes, Json
from manta.localplane.apiserver.schema.causes import duplicate, invalid, required, too_many

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_MAX_ENDPOINTS, _MAX_ADDRESSES, _MAX_PORTS, _MAX_HINTS = 1000, 100, 20_000, 8
_BAD_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


# ── Endpoints ────────────────────────────────────────────────────────────────────────────
def check_endpoints(endpoints: Json, old: Json | None) -> Causes:
    subsets = endpoints.get("subsets") or []
    if old is not None and subsets == (old.get("subsets") or []):
        return
    for index, subset in enumerate(subsets):
        yield from _check_subset(subset, f"subsets[{index}]")


def _check_subset(subset: Json, field: str) -> Causes:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        yield required(field, "must specify `addresses` or `notReadyAddresses`")
    for part in ("addresses", "notReadyAddresses"):
        for number, address in enumerate(subset.get(part) or []):
            yield from _check_subset_address(address, f"{field}.{part}[{number}]")
    ports = subset.get("ports") or []
    for number, port in enumerate(ports):
        path = f"{field}.ports[{number}]"
        if port.get("name"):
            yield from rules.label(f"{path}.name", port["name"])
        elif len(ports) > 1:
            yield required(f"{path}.name")
        yield from rules.port_number(f"{path}.port", port.get("port", 0))
        yield from _check_protocols(port, path)


def _check_subset_address(address: Json, field: str) -> Causes:
    text = address.get("ip", "")
    if not rules.is_ip(text):
        yield invalid(f"{field}.ip", text, _BAD_IP)
        yield invalid(f"{field}.ip", text, "must be a valid IP address")
    if address.get("hostname"):
        yield from rules.label(f"{field}.hostname", address["hostname"])
    if address.get("nodeName") is not None:
        yield from rules.subdomain(f"{field}.nodeName", address["nodeName"])


def _check_protocols(port: Json, field: str) -> Causes:
    yield from rules.protocol(f"{field}.protocol", port.get("protocol", ""))
    if port.get("appProtocol") is not None:
        name = port["appProtocol"]
        yield from rules.all_invalid(f"{field}.appProtocol", name, qualified_name_errors(name))


# ── EndpointSlices ───────────────────────────────────────────────────────────────────────
def check_endpoint_slice(endpoint_slice: Json, old: Json | None) -> Causes:
    kind = endpoint_slice.get("addressType", "")
    yield from rules.one_of("addressType", kind, _ADDRESS_TYPES)
    endpoints = endpoint_slice.get("endpoints") or []
    if old is None or endpoints != (old.get("endpoints") or []):
        yield from _check_slice_endpoints(endpoints, kind)
    ports = endpoint_slice.get("ports") or []
    if old is None or ports != (old.get("ports") or []):
        yield from _check_slice_ports(ports)
    if old is not None:
        yield from rules.immutable("addressType", kind, old.get("addressType", ""))


def _check_slice_endpoints(endpoints: list[Json], kind: str) -> Causes:
    if len(endpoints) > _MAX_ENDPOINTS:
        yield too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)
        return
    for index, endpoint in enumerate(endpoints):
        field = f"endpoints[{index}]"
        addresses = endpoint.get("addresses") or []
        if not addresses:
            yield required(f"{field}.addresses", "must contain at least 1 address")
        elif len(addresses) > _MAX_ADDRESSES:
            yield too_many(f"{field}.addresses", len(addresses), _MAX_ADDRESSES)
        for number, address in enumerate(addresses):
            yield from _check_slice_address(address, kind, f"{field}.addresses", number)
        if endpoint.get("nodeName") is not None:
            yield from rules.subdomain(f"{field}.nodeName", endpoint["nodeName"])
        yield from rules.labels(f"{field}.deprecatedTopology", endpoint.get("deprecatedTopology"))
        if endpoint.get("hostname") is not None:
            yield from rules.label(f"{field}.hostname", endpoint["hostname"])
        yield from _check_hints(endpoint.get("hints") or {}, f"{field}.hints")


def _check_slice_address(address: str, kind: str, field: str, number: int) -> Causes:
    if kind == "FQDN":
        yield from _check_domain(f"{field}[{number}]", address)
    elif kind in {"IPv4", "IPv6"}:
        if not rules.is_ip(address):
            yield invalid(f"{field}[{number}]", address, _BAD_IP)
        elif not rules.is_ip(address, kind):
            yield invalid(f"{field}[{number}]", address, f"must be an {kind} address")


def _check_domain(field: str, name: str) -> Causes:
    if not name:
        yield required(field)
        return
    domain = name.removesuffix(".")
    errors = list(rules.subdomain(field, domain))
    yield from errors
    if not errors and domain.count(".") < 1:
        detail = "should be a domain with at least two segments separated by dots"
        yield invalid(field, name, detail)


def _check_slice_ports(ports: list[Json]) -> Causes:
    if len(ports) > _MAX_PORTS:
        yield too_many("ports", len(ports), _MAX_PORTS)
        return
    seen: set[str] = set()
    for index, port in enumerate(ports):
        field = f"ports[{index}]"
        name = port.get("name") or ""
        if name:
            yield from rules.label(f"{field}.name", name)
        if name in seen:
            yield duplicate(f"{field}.name", name)
        seen.add(name)
        yield from _check_protocols(port, field)


def _check_hints(hints: Json, field: str) -> Causes:
    for part in ("forZones", "forNodes"):
        found = hints.get(part) or []
        if len(found) > _MAX_HINTS:
            yield too_many(f"{field}.{part}", len(found), _MAX_HINTS)
            return
        seen: set[str] = set()
        for index, hint in enumerate(found):
            name, path = hint.get("name", ""), f"{field}.{part}[{index}].name"
            if name in seen:
                yield duplicate(path, name)
            seen.add(name)
            if part == "forZones":
                yield from rules.all_invalid(path, name, label_value_errors(name))
            else:
                yield from rules.subdomain(path, name)
