"""The address ranges of a plane: one for its Services and one for its Pods.

They are chosen at the plane's first start and kept in its directory. They overlap neither a route of the
machine nor a range of another plane, so that programs of the machine reach the Services of every plane.
The plane of an unprivileged user has its own network namespace and cannot collide.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path

from manta.localplane.node.host import plane_register, wire
from manta.localplane.node.host.netlink import Netlink
from manta.localplane.node.host.plane_id import bridge_name, plane_id

POD_POOL = IPv4Network("10.88.0.0/13")
"""Pod ranges are taken from here: eight /16 below the usual Service range."""
SERVICE_POOL = IPv4Network("10.96.0.0/12")
"""The usual Service range of Kubernetes: enough for sixteen planes."""
POD_PREFIX, SERVICE_PREFIX = 20, 16
RECORD = "network.json"


class RangeTaken(OSError):  # noqa: N818 - a state of the machine
    """A range is in use; the message says by what, and what to do."""


@dataclass(frozen=True, slots=True)
class Ranges:
    services: IPv4Network
    pods: IPv4Network


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """The ranges that the user asked for; None: any free range."""

    services: IPv4Network | None = None
    pods: IPv4Network | None = None

    def differs_from(self, ranges: Ranges) -> bool:
        return (self.services or ranges.services, self.pods or ranges.pods) != (
            ranges.services,
            ranges.pods,
        )


def claim_ranges(directory: Path, request: RangeRequest, *, shared: bool) -> Ranges:
    """The ranges of the plane in `directory`, the previous ones if they are still free.

    `shared`: the plane uses the machine's own network. Blocks for milliseconds. Raises RangeTaken.
    """
    directory = directory.resolve()
    directory.mkdir(parents=True, exist_ok=True)
    if not shared:
        return _choose(directory, request, (), ())
    with plane_register.locked() as register:
        others = [known for one in register.others(directory) if (known := read_ranges(one))]
        ranges = _claim_shared(directory, request, others)
        register.add(directory)
    return ranges


def read_ranges(directory: Path) -> Ranges | None:
    """The recorded ranges of the plane in `directory`, running or not; None without a record."""
    record = wire.read_record(directory / RECORD) or {}
    try:
        return Ranges(IPv4Network(record["services"]), IPv4Network(record["subnet"]))
    except (KeyError, ValueError):
        return None


def lost_planes() -> list[Path]:
    """Planes whose directory was removed without `manta down`; `cleanup.remove_lost` removes the rest.

    The missing record decides, not the directory: a plane that still runs may have re-created parts of
    that. A record that exists but cannot be read does not count as missing, because the directory may
    hold a user's only copy of something."""
    if os.geteuid() != 0:
        return []
    with plane_register.locked() as register:
        return [one for one in register.directories() if _is_gone(one / RECORD)]


def _is_gone(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # unreadable, so not known to be missing
    return False


def _claim_shared(directory: Path, request: RangeRequest, others: Iterable[Ranges]) -> Ranges:
    known = read_ranges(directory)
    netlink = Netlink()
    try:
        if known is not None and has_bridge(directory, netlink):
            refuse_change(known, request)
            return known
        machine = [*netlink.routes(), *(address.network for address in netlink.addresses())]
    finally:
        netlink.close()
    kept = [network for one in others for network in (one.services, one.pods)]
    return _choose(directory, request, machine, kept)


def _choose(
    directory: Path,
    request: RangeRequest,
    machine: Sequence[IPv4Network],
    kept: Sequence[IPv4Network],
) -> Ranges:
    last = read_ranges(directory) or Ranges(SERVICE_POOL, POD_POOL)
    seed = int(plane_id(directory), 16)
    services = request.services or _pick(last.services, SERVICE_PREFIX, machine, kept)
    refuse_taken("--service-cidr", services, machine)
    machine = [*machine, services]
    pods = request.pods or _pick(last.pods, POD_PREFIX, machine, kept, seed)
    refuse_taken("--pod-cidr", pods, machine)
    ranges = Ranges(services, pods)
    _remember(directory, ranges)
    return ranges


def refuse_change(known: Ranges, request: RangeRequest) -> None:
    """Raises RangeTaken if the request differs from ranges that Pods still use."""
    if request.differs_from(known):
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
    """The previous range; else one that no plane has recorded; else one whose plane does not run."""
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
    """The first free subnet of the pool, searched from a position that depends on `seed`. Pure."""
    taken = tuple(used)
    parts = list(pool.subnets(new_prefix=prefix))
    first = seed % len(parts)
    for part in parts[first:] + parts[:first]:
        if not _overlapping(part, taken):
            return part
    return None


def refuse_taken(flag: str, network: IPv4Network, used: Iterable[IPv4Network]) -> None:
    """Raises RangeTaken if the network overlaps one in use."""
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
