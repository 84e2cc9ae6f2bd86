"""Memory and CPU limits by cgroups, version 1 or 2.

Groups are created below the agent's own, so that limits of the agent also apply to its Pods. Their names
start with the plane's prefix. If cgroups cannot be written, Pods run without limits.

As the kubelet does, the group of the plane weighs as much as the machine has CPUs, and a Pod as much as it requests:
on a busy machine all Pods together would otherwise get as little as one other process.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from manta.api.core import Resources
from manta.api.quantity import Quantity
from manta.localplane.node.host import wire
from manta.localplane.node.host.plane_id import plane_id

_PERIOD_MICROSECONDS = 100_000
"""Period of the CPU quota in microseconds; the kernel's default."""
_V1_CONTROLLERS = ("memory", "cpu")
_REFUSED = (errno.EACCES, errno.EINVAL, errno.EBUSY, errno.ENOENT, errno.EROFS, errno.EPERM)


@dataclass(frozen=True, slots=True)
class Cgroup:
    """The cgroup of a container: its paths, what the container sees of it, its file of OOM events."""

    paths: tuple[str, ...] = ()
    views: Mapping[str, str] = field(default_factory=dict)
    oom_events: str = ""


@dataclass(frozen=True, slots=True)
class Limits:
    memory: int | None = None
    cpu_milli: int | None = None
    cpu_weight_milli: int | None = None

    @classmethod
    def of(cls, resources: Resources) -> Limits:
        limits, requests = resources.limits, resources.requests
        memory, cpu = limits.get("memory"), limits.get("cpu")
        weight = requests.get("cpu", cpu)
        return cls(
            memory=Quantity.parse(memory).value() if memory is not None else None,
            cpu_milli=Quantity.parse(cpu).milli() if cpu is not None else None,
            cpu_weight_milli=Quantity.parse(weight).milli() if weight is not None else None,
        )


def settings(limits: Limits, version: int) -> Mapping[str, str]:
    """File name -> content. Pure."""
    wanted: dict[str, str] = {}
    if limits.memory:
        wanted["memory.max" if version == 2 else "memory.limit_in_bytes"] = str(limits.memory)
        if version == 2:
            wanted["memory.oom.group"] = "1"
    if limits.cpu_milli:
        quota = max(limits.cpu_milli * _PERIOD_MICROSECONDS // 1000, 1000)
        if version == 2:
            wanted["cpu.max"] = f"{quota} {_PERIOD_MICROSECONDS}"
        else:
            wanted |= {
                "cpu.cfs_period_us": str(_PERIOD_MICROSECONDS),
                "cpu.cfs_quota_us": str(quota),
            }
    if limits.cpu_weight_milli is not None:
        shares = max(limits.cpu_weight_milli * 1024 // 1000, 2)
        if version == 2:
            wanted["cpu.weight"] = str(1 + (shares - 2) * 9999 // 262142)
        else:
            wanted["cpu.shares"] = str(shares)
    return wanted


def pod_limits(containers: Iterable[Resources]) -> Limits:
    """What the group of a Pod gets: the weight of all that its containers request together. Pure."""
    found = [Limits.of(one).cpu_weight_milli for one in containers]
    requested = [milli for milli in found if milli is not None]
    return Limits(cpu_weight_milli=sum(requested) if requested else None)


def plane_settings(cpus: int, version: int) -> Mapping[str, str]:
    """What the group of all Pods gets: the weight of as many ordinary processes as there are CPUs. Pure."""
    if version == 2:
        return {"cpu.weight": str(min(100 * cpus, 10_000))}
    return {"cpu.shares": str(min(1024 * cpus, 262_144))}


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """The cgroups of this process: controller -> (mount point, own group)."""

    version: int
    own: Mapping[str, tuple[Path, Path]]


def find_hierarchies(membership: str, mounts: str) -> Hierarchies | None:
    """Parse /proc/self/cgroup and /proc/self/mountinfo; None without a usable hierarchy. Pure."""
    groups: dict[str, str] = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            groups[controller] = path
    points: dict[str, Path] = {}
    unified: Path | None = None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        point = Path(before.split(" ")[4])
        if kind == "cgroup2":
            unified = point
        elif kind == "cgroup":
            points |= dict.fromkeys(options.split(","), point)
    own = {
        name: (points[name], points[name] / groups[name].lstrip("/"))
        for name in _V1_CONTROLLERS
        if name in points and name in groups
    }
    if own:
        return Hierarchies(1, own)
    if unified is not None and "" in groups:
        return Hierarchies(2, {"": (unified, unified / groups[""].lstrip("/"))})
    return None


class Cgroups:
    """Creates and removes the groups of one plane."""

    def __init__(self, directory: Path) -> None:
        self._record = directory / "cgroups.json"
        self._found = _hierarchies_of_this_process()
        self._bases: dict[str, Path] = {}
        known = wire.read_record(self._record) or {}
        if self._found is not None:
            for controller, (_, own) in self._found.own.items():
                base = Path(known.get(controller, own / f"manta-{plane_id(directory)}"))
                if _make(base):
                    self._bases[controller] = base
        if self._found is not None and self._found.version == 2:
            self._delegate()
        if self._found is not None:
            weight = plane_settings(os.cpu_count() or 1, self._found.version)
            for controller, base in self._bases.items():
                _apply(base, weight, controller)
        wire.write_record(self._record, {key: str(base) for key, base in self._bases.items()})

    def _delegate(self) -> None:
        """Version 2: enable the controllers for child groups; without them nothing is limited."""
        base = self._bases.get("")
        if base is None:
            return
        try:
            (base.parent / "cgroup.subtree_control").write_text("+memory +cpu")
        except OSError:
            # The kernel refuses this for a group with processes in it: run without limits.
            with contextlib.suppress(OSError):
                base.rmdir()
            self._bases.clear()

    @property
    def works(self) -> bool:
        return bool(self._bases)

    def create(self, pod_uid: str, container: str, limits: Limits, pod: Limits) -> Cgroup:
        """Create a new group for one attempt of a container. What the kernel refuses is left out.

        Args:
            pod: what the group of the whole Pod gets, as `pod_limits` says.
        """
        if self._found is None or not self._bases:
            return Cgroup()
        paths: list[str] = []
        views: dict[str, str] = {}
        oom_events = ""
        version = self._found.version
        for controller, base in self._bases.items():
            group = base / pod_uid / container
            remove_group(group)
            if not _make(group):
                continue
            if version == 2:
                _hand_down(base, group)
            _apply(group.parent, settings(pod, version), controller)
            _apply(group, settings(limits, version), controller)
            paths.append(str(group))
            views[str(self._found.own[controller][0])] = str(group)
            if controller in ("memory", ""):
                oom_events = str(
                    group / ("memory.events" if version == 2 else "memory.oom_control")
                )
        return Cgroup(tuple(paths), views, oom_events)

    def update(self, pod_uid: str, container: str, limits: Limits, pod: Limits) -> None:
        """Change the limits of a running container, and the weight of its Pod."""
        if self._found is not None:
            version = self._found.version
            for controller, base in self._bases.items():
                _apply(base / pod_uid, settings(pod, version), controller)
                _apply(base / pod_uid / container, settings(limits, version), controller)

    def members(self, pod_uid: str) -> set[int]:
        """The pids of a Pod's containers."""
        return {pid for base in self._bases.values() for pid in _members(base / pod_uid)}

    def remove(self, pod_uid: str) -> bool:
        """False if the kernel still counts an ended process in a group: try again later."""
        groups = [base / pod_uid for base in self._bases.values()]
        for group in groups:
            remove_group(group)
        return not any(group.exists() for group in groups)


def members_of(directory: Path) -> set[int]:
    """The pids in all groups of a plane."""
    return {pid for base in _bases_of(directory) for pid in _members(base)}


def _members(group: Path) -> set[int]:
    found: set[int] = set()
    for listed in group.rglob("cgroup.procs"):
        with contextlib.suppress(OSError):
            found.update(int(word) for word in listed.read_text().split() if word != "0")
    return found


def _bases_of(directory: Path) -> list[Path]:
    known = wire.read_record(directory / "cgroups.json")
    if known is None:
        return list(_find_groups(f"manta-{plane_id(directory)}"))
    return [Path(base) for base in known.values()]


def remove_all(directory: Path) -> list[str]:
    """Remove all groups of a plane whose processes have ended. Returns those that are still there."""
    bases = _bases_of(directory)
    for base in bases:
        remove_group(base)
    return [str(base) for base in bases if base.exists()]


def _find_groups(name: str) -> Iterator[Path]:
    """Search all cgroup mounts, for a plane without a record."""
    found = _hierarchies_of_this_process()
    for point in {point for point, _ in found.own.values()} if found else ():
        yield from point.rglob(name)


def remove_group(group: Path) -> None:
    """Remove a group and its children; a group with processes stays."""
    for child in _children(group):
        remove_group(child)
    with contextlib.suppress(OSError):
        group.rmdir()


def _children(group: Path) -> Iterator[Path]:
    try:
        yield from [Path(entry.path) for entry in os.scandir(group) if entry.is_dir()]
    except OSError:
        return


def _make(group: Path) -> bool:
    try:
        group.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return True


def _hand_down(base: Path, group: Path) -> None:
    for parent in (base, group.parent):
        with contextlib.suppress(OSError):
            (parent / "cgroup.subtree_control").write_text("+memory +cpu")


def _apply(group: Path, wanted: Mapping[str, str], controller: str) -> None:
    for name, value in wanted.items():
        if controller and not name.startswith(controller):
            continue
        try:
            (group / name).write_text(value)
        except OSError as error:
            if error.errno not in _REFUSED:
                raise


def _hierarchies_of_this_process() -> Hierarchies | None:
    try:
        membership = Path("/proc/self/cgroup").read_text()
        return find_hierarchies(membership, Path("/proc/self/mountinfo").read_text())
    except OSError:
        return None
