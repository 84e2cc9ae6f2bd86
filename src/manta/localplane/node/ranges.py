"""Which addresses a plane uses: a range for its Services and a subnet for its Pods.

They are chosen when the plane first starts, kept in its directory, and overlap neither a route of the
machine nor another plane's, so that programs of the machine reach the Services of every plane. An
ordinary user's plane has a network namespace of its own, and nobody to collide with.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from manta.localplane.node import planeregister, wire
from manta.localplane.node.netlink import Netlink
from manta.localplane.node.planeid import bridge_name, plane_id

POD_POOL = IPv4Network("10.88.0.0/13")
"""Subnets are cut from here: eight /16 below the usual service ranges."""
SERVICE_POOL = IPv4Network("10.96.0.0/12")
"""The usual range of Kubernetes: sixteen planes find a place in it."""
POD_PREFIX, SERVICE_PREFIX = 20, 16
RECORD = "network.json"


class RangeTaken(OSError):  # noqa: N818 - a state of the machine
    """A range that was asked for cannot be had; says who has it, and the cure."""


@dataclass(frozen=True, slots=True)
class Ranges:
    services: IPv4Network
    pods: IPv4Network


@dataclass(frozen=True, slots=True)
class Wish:
    """What the user asked for. None: anything that is free."""

    services: IPv4Network | None = None
    pods: IPv4Network | None = None

    def differs_from(self, ranges: Ranges) -> bool:
        return (self.services or ranges.services, self.pods or ranges.pods) != (
            ranges.services,
            ranges.pods,
        )


def claim_ranges(directory: Path, wish: Wish, *, shared: bool) -> Ranges:
    """The ranges of the plane in `directory`: those of last time if they are still free.

    `shared`: the plane's network is the machine's own, where others are. Blocking, milliseconds.
    """
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    if not shared:
        return _choose(directory, wish, (), ())
    with planeregister.locked() as register:
        others = [known for one in register.others(directory) if (known := read_ranges(one))]
        ranges = _claim_beside(directory, wish, others)
        register.add(directory)
    return ranges


def read_ranges(directory: Path) -> Ranges | None:
    """What the plane in `directory` chose, whether it runs or not."""
    record = wire.read_record(directory / RECORD) or {}
    try:
        return Ranges(IPv4Network(record["services"]), IPv4Network(record["subnet"]))
    except (KeyError, ValueError):
        return None


def lost_planes() -> list[Path]:
    """Planes of this machine whose directory was removed without `manta down`. Whatever of them is
    left can be removed by `cleanup.remove_lost`. The record tells, not the directory: a plane that
    still runs may have made parts of that anew. A record that is damaged or cannot be read does not
    count: what else is in that directory may be a user's only copy."""
    if os.geteuid() != 0:
        return []
    with planeregister.locked() as register:
        return [one for one in register.directories() if _is_gone(one / RECORD)]


def _is_gone(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # it cannot be looked at: who knows
    return False


def _claim_beside(directory: Path, wish: Wish, others: Iterable[Ranges]) -> Ranges:
    known = read_ranges(directory)
    netlink = Netlink()
    try:
        if known is not None and has_bridge(directory, netlink):
            refuse_change(known, wish)
            return known
        machine = [*netlink.routes(), *(address.network for address in netlink.addresses())]
    finally:
        netlink.close()
    kept = [network for one in others for network in (one.services, one.pods)]
    return _choose(directory, wish, machine, kept)


def _choose(
    directory: Path, wish: Wish, machine: Sequence[IPv4Network], kept: Sequence[IPv4Network]
) -> Ranges:
    last = read_ranges(directory) or Ranges(SERVICE_POOL, POD_POOL)
    seed = int(plane_id(directory), 16)
    services = wish.services or _pick(last.services, SERVICE_PREFIX, machine, kept)
    refuse_taken("--service-cidr", services, machine)
    machine = [*machine, services]
    pods = wish.pods or _pick(last.pods, POD_PREFIX, machine, kept, seed)
    refuse_taken("--pod-cidr", pods, machine)
    ranges = Ranges(services, pods)
    _remember(directory, ranges)
    return ranges


def refuse_change(known: Ranges, wish: Wish) -> None:
    if wish.differs_from(known):
        raise RangeTaken(
            errno.EBUSY,
            f"Pods of this plane still use {known.pods} and {known.services}: run `manta down`"
            " first, then choose other ranges",
        )


def _pick(
    last: IPv4Network,
    prefix: int,
    machine: Sequence[IPv4Network],
    kept: Sequence[IPv4Network],
    seed: int = 0,
) -> IPv4Network:
    """The range of last time; else one that nobody has; else one whose plane does not run."""
    pool = SERVICE_POOL if prefix == SERVICE_PREFIX else POD_POOL
    if last != pool and not _overlapping(last, machine):
        return last
    for used in ([*machine, *kept], machine):
        if (free := first_free(pool, prefix, used, seed)) is not None:
            return free
    raise RangeTaken(
        errno.EADDRNOTAVAIL,
        f"every /{prefix} of {pool} is in use on this machine: stop a plane (`manta down`), or"
        f" name a free range with {'--service-cidr' if pool is SERVICE_POOL else '--pod-cidr'}",
    )


def first_free(
    pool: IPv4Network, prefix: int, used: Iterable[IPv4Network], seed: int
) -> IPv4Network | None:
    """The first free part of the pool, looking from a place that depends on the plane. Pure."""
    taken = tuple(used)
    parts = list(pool.subnets(new_prefix=prefix))
    first = seed % len(parts)
    for part in parts[first:] + parts[:first]:
        if not _overlapping(part, taken):
            return part
    return None


def refuse_taken(flag: str, network: IPv4Network, used: Iterable[IPv4Network]) -> None:
    if (other := _overlapping(network, used)) is not None:
        raise RangeTaken(
            errno.EADDRINUSE,
            f"{flag} {network} overlaps {other}, which is in use on this machine: choose another",
        )


def _overlapping(network: IPv4Network, used: Iterable[IPv4Network]) -> IPv4Network | None:
    return next((other for other in used if network.overlaps(other)), None)


def has_bridge(directory: Path, netlink: Netlink) -> bool:
    return any(link.name == bridge_name(directory) for link in netlink.links())


def _remember(directory: Path, ranges: Ranges) -> None:
    record = wire.read_record(directory / RECORD) or {}
    if record.get("subnet") != str(ranges.pods):
        record.pop("last", None)
    chosen = {"services": str(ranges.services), "subnet": str(ranges.pods)}
    wire.write_record(directory / RECORD, record | chosen)
