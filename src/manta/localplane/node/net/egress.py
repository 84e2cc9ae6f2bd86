"""Packet rules of the Pod network, for planes of root; `user_egress.py` is for unprivileged users.

Egress: packets of Pods leave with the machine's own address. Ingress: connections from other machines to
Pods and Services are dropped, because the forwarding that egress needs would otherwise let them in.

Each plane has one nftables table. Forwarding is switched on for the interfaces concerned, never without
the ingress rules. Without nftables in the kernel, Pods have no egress. `close_egress` removes the table,
and the last plane of the machine restores the interfaces' forwarding.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from manta.localplane.node.host import nftables, wire
from manta.localplane.node.host.netlink import Netlink

log = logging.getLogger(__name__)

NO_PACKET_RULES = (
    "Pods cannot reach the network outside of the plane: this kernel or container lets us write no"
    " packet rules (nftables NAT) or no forwarding. Cure: load nf_tables and nft_masq on the machine"
)


@dataclass(frozen=True, slots=True)
class PlaneNetwork:
    """The network of one plane, as packet rules name it."""

    name: str
    """Name of the nftables table."""
    pods: IPv4Network
    services: IPv4Network
    bridge: str


def open_egress(network: PlaneNetwork, *, out: bool = True) -> bool:
    """Drop connections from other machines; with `out`, let Pods reach what the machine reaches.

    Returns False if the kernel refuses that.
    """
    try:
        nftables.send([*nftables.new_table(network.name), *guard(network)])
    except OSError as error:
        log.warning(
            "no rules against packets from other machines: %s. Where this machine forwards packets,"
            " its neighbours may reach Pods. Pods reach only each other and the machine",
            error,
        )
        return False
    if not out:
        return True
    try:
        nftables.send(list(masquerading(network)))
        _switch_forwarding_on([network.bridge, *_uplinks()])
    except OSError as error:
        log.info("Pods reach only each other and the machine: %s", error)
        return False
    return True


def close_egress(name: str, *, last: bool) -> None:
    """Remove the rules. `last`: no other plane of this machine needs forwarding."""
    try:
        nftables.send([nftables.delete_table(name)])
    except OSError:
        log.debug("there was no table %s", name)
    if last:
        _put_forwarding_back()


# ── rules ────────────────────────────────────────────────────────────────────────────────
def guard(network: PlaneNetwork) -> Iterator[bytes]:
    """In nft syntax: `iifname != BRIDGE oifname BRIDGE ct state != established,related drop` for forwarded
    packets, and the same for packets to the machine itself (Service addresses, DNS)."""
    table, foreign = network.name, nftables.not_from_interface(network.bridge)
    filters = ("filter", nftables.FORWARD, nftables.FILTER_PRIORITY)
    yield nftables.new_chain(table, "forward", *filters)
    refused = (nftables.is_no_answer(), nftables.drop())
    to_pods = (foreign, nftables.to_interface(network.bridge), *refused)
    yield nftables.new_rule(table, "forward", to_pods)
    yield nftables.new_chain(table, "in", "filter", nftables.INPUT, nftables.FILTER_PRIORITY)
    not_local = nftables.not_from_interface("lo")
    for range_ in (network.pods, network.services):
        to_us = (foreign, not_local, nftables.destination_in(range_), *refused)
        yield nftables.new_rule(table, "in", to_us)


def masquerading(network: PlaneNetwork) -> Iterator[bytes]:
    """In nft syntax: `ip saddr SUBNET oifname != BRIDGE masquerade`."""
    table = network.name
    yield nftables.new_chain(table, "out", "nat", nftables.POST_ROUTING, nftables.SOURCE_NAT)
    leaving = nftables.not_to_interface(network.bridge)
    rule = (nftables.source_in(network.pods), leaving, nftables.masquerade())
    yield nftables.new_rule(table, "out", rule)


# ── forwarding ───────────────────────────────────────────────────────────────────────────
def _uplinks() -> list[str]:
    netlink = Netlink()
    try:
        numbers = netlink.default_interfaces()
        return [link.name for link in netlink.links() if link.number in numbers]
    finally:
        netlink.close()


def _forwarding(interface: str) -> Path:
    return Path("/proc/sys/net/ipv4/conf", interface, "forwarding")


def _memory() -> Path:
    return Path(tempfile.gettempdir(), f".manta-forwarding-{os.geteuid()}.json")


def _switch_forwarding_on(interfaces: Iterable[str]) -> None:
    before = wire.read_record(_memory()) or {}
    for interface in interfaces:
        setting = _forwarding(interface)
        value = setting.read_text().strip()
        if value != "1":
            before.setdefault(interface, value)
            setting.write_text("1")
    wire.write_record(_memory(), before)


def _put_forwarding_back() -> None:
    before = wire.read_record(_memory()) or {}
    for interface, value in before.items():
        setting = _forwarding(interface)
        if setting.exists():
            setting.write_text(str(value))
    _memory().unlink(missing_ok=True)
