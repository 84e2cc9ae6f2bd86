"""Services."""

from __future__ import annotations

from manta.api.addresses import special_address
from manta.localplane.apiserver.builtin_kinds.checks import rules
from manta.localplane.apiserver.builtin_kinds.checks.rules import Causes, Json
from manta.localplane.apiserver.schema.causes import (
    Cause,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_NODE_PORTS = range(30000, 32768)
_NO_ADDRESS = "may not be set for ExternalName services"


def check_service(service: Json, old: Json | None) -> Causes:
    spec = service.get("spec") or {}
    if old is not None:
        yield from _check_addresses(spec, old.get("spec") or {})
    type_ = spec.get("type", "")
    headless = spec.get("clusterIP") == "None"
    ports = spec.get("ports") or []
    if not ports and not headless and type_ != "ExternalName":
        yield required("spec.ports")
    yield from _check_type(spec, type_, headless=headless)
    names: set[str] = set()
    for index, port in enumerate(ports):
        yield from _check_port(port, f"spec.ports[{index}]", names, named=len(ports) > 1)
    yield from rules.labels("spec.selector", spec.get("selector"))
    affinity = spec.get("sessionAffinity", "")
    yield from rules.one_of("spec.sessionAffinity", affinity, ("ClientIP", "None"))
    yield from _check_families(spec)
    yield from _check_external_addresses(spec, (old or {}).get("spec") or {})
    if type_ not in _TYPES:
        yield not_supported("spec.type", type_, _TYPES)
    yield from _check_node_ports(ports, type_)
    yield from _check_duplicates(ports)


def _check_type(spec: Json, type_: str, *, headless: bool) -> Causes:
    if headless and type_ in {"LoadBalancer", "NodePort"}:
        detail = f"may not be set to 'None' for {type_} services"
        yield invalid("spec.clusterIPs[0]", "None", detail)
    if type_ != "ExternalName":
        return
    for name in ("clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if spec.get(name):
            yield forbidden(f"spec.{name}", _NO_ADDRESS)
    target = spec.get("externalName", "").removesuffix(".")
    if target:
        yield from rules.subdomain("spec.externalName", target)
    else:
        yield required("spec.externalName")


def _check_families(spec: Json) -> Causes:
    addresses = spec.get("clusterIPs") or []
    for index, address in enumerate(addresses):
        if address != "None" and not rules.is_ip(address):
            detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
            yield invalid(f"spec.clusterIPs[{index}]", address, detail)
    if addresses and addresses[0] != spec.get("clusterIP"):
        yield invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    pairs = zip(addresses, spec.get("ipFamilies") or [], strict=False)
    for index, (address, family) in enumerate(pairs):
        if rules.is_ip(address) and (":" in address) != (family == "IPv6"):
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield invalid(f"spec.clusterIPs[{index}]", address, detail)


def _check_external_addresses(spec: Json, before: Json) -> Causes:
    """Addresses that are already stored stay valid."""
    known = before.get("externalIPs") or []
    for index, address in enumerate(spec.get("externalIPs") or []):
        problem = special_address(address)
        if problem and address not in known:
            yield invalid(f"spec.externalIPs[{index}]", address, problem)


def _check_port(port: Json, field: str, names: set[str], *, named: bool) -> Causes:
    name = port.get("name", "")
    if named and not name:
        yield required(f"{field}.name")
    elif name:
        yield from rules.label(f"{field}.name", name)
        if name in names:
            yield duplicate(f"{field}.name", name)
        names.add(name)
    yield from rules.port_number(f"{field}.port", port.get("port", 0))
    yield from rules.protocol(f"{field}.protocol", port.get("protocol", ""))
    yield from rules.port_number_or_name(f"{field}.targetPort", port.get("targetPort", 0))


def _check_node_ports(ports: list[Json], type_: str) -> Causes:
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        number, field = port.get("nodePort"), f"spec.ports[{index}].nodePort"
        if not number:
            continue
        if type_ == "ClusterIP":
            yield forbidden(field, "may not be used when `type` is 'ClusterIP'")
        elif number not in _NODE_PORTS:
            detail = (
                "provided port is not in the valid range. The range of valid ports is 30000-32767"
            )
            yield invalid(field, number, detail)
        key = (port.get("protocol", ""), number)
        if key in seen:
            yield duplicate(field, number)
        seen.add(key)


def _check_duplicates(ports: list[Json]) -> Causes:
    seen: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        key = (port.get("protocol", ""), port.get("port", 0))
        if key in seen:
            # kube-apiserver shows its internal form of a port here.
            shown = (
                f'{{"Name":"","Protocol":"{key[0]}","AppProtocol":null,"Port":{key[1]},'
                '"TargetPort":0,"NodePort":0}'
            )
            field = f"spec.ports[{index}]"
            yield Cause("FieldValueDuplicate", f"Duplicate value: {shown}", field)
        seen.add(key)


def _check_addresses(spec: Json, old: Json) -> Causes:
    """The first address of a Service is immutable."""
    if "ExternalName" in {spec.get("type"), old.get("type")}:
        return
    new_ips, old_ips = spec.get("clusterIPs") or [], old.get("clusterIPs") or []
    if old_ips and (not new_ips or new_ips[0] != old_ips[0]):
        detail = "may not change once set" if new_ips else "primary clusterIP can not be unset"
        yield invalid("spec.clusterIPs[0]", new_ips, detail)
