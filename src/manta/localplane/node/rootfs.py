"""The file system that a container sees: the machine's own, made private by overlays.

There are no image layers. A container gets a root of its own (a small tmpfs) into which every
top-level directory of the machine is mounted as an overlay: it reads the machine's files, and what
it writes goes to its scratch directory. /tmp, /run, /dev/shm and /proc are its own; volumes are
bind mounts on top. Where the kernel refuses overlays, directories are bound read-only instead.

Runs inside the new container, between fork and exec. Standard library only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple

from manta.localplane.node import libc

_OWN = frozenset({"proc", "sys", "dev", "tmp", "run", "lost+found", ".host"})
_DEVICES = frozenset({"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "fuse"})
_ACCELERATORS = ("nvidia", "dri", "kfd", "accel", "infiniband", "vfio")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_HOST = "/.host"
"""Where the machine's root stays reachable while volumes are mounted."""


def build_root(spec: Mapping[str, Any]) -> None:
    """Become a process whose root directory is the container's. Needs its own mount namespace."""
    libc.mount("none", "/", flags=libc.MS_REC | libc.MS_PRIVATE)
    scratch = Path(spec["scratch"])
    root = scratch / "root"
    root.mkdir(parents=True, exist_ok=True)
    libc.mount("tmpfs", str(root), "tmpfs", data="mode=755,size=64m")
    _lay_machine_under(root, scratch, spec)
    _mount_own(root, scratch, spec)
    (root / ".host").mkdir()
    libc.pivot_root(str(root), str(root / ".host"))
    os.chdir("/")
    _mount_volumes(spec.get("mounts", ()), spec.get("symlinks", {}))
    libc.unmount(_HOST)
    Path(_HOST).rmdir()
    if spec.get("read_only"):
        libc.mount("none", "/", flags=libc.MS_BIND | libc.MS_REMOUNT | libc.MS_RDONLY)


def _lay_machine_under(root: Path, scratch: Path, spec: Mapping[str, Any]) -> None:
    memory = scratch / "memory"
    options = ",userxattr" if spec.get("userns") else ""
    # Another user than root must be able to walk to Python and to the image's environment, which
    # may lie below a home directory that is closed to it on the machine.
    walk = 0o011 if spec.get("uid") else 0
    overlaid: set[str] = set()
    for entry in os.scandir("/"):
        if entry.name in _OWN:
            continue
        target = root / entry.name
        if entry.is_symlink():
            target.symlink_to(Path(entry.path).readlink())
        elif entry.is_dir():
            target.mkdir()
            if _overlay(entry.path, target, _Upper(scratch, memory, options, walk)):
                overlaid.add(entry.name)
        elif entry.is_file():
            target.touch()
            libc.bind(entry.path, str(target), read_only=True)
    _bind_mounts_below(root, scratch, overlaid)


class _Upper(NamedTuple):
    """Where an overlay keeps what is written."""

    disk: Path
    memory: Path
    options: str
    walk: int


def _overlay(lower: str, target: Path, to: _Upper) -> bool:
    """False: the kernel would not (a user namespace may not look below mounts of others), and
    the directory was bound read-only with all that is mounted in it."""
    upper = to.disk
    if upper.is_relative_to(lower):
        # The kernel refuses an upper directory inside its own lower one: use memory there.
        upper = to.memory
        if not upper.is_dir():
            upper.mkdir()
            libc.mount("tmpfs", str(upper), "tmpfs", data="mode=755")
    above, work = upper / "upper" / target.name, upper / "work" / target.name
    for directory in (above, work):
        directory.mkdir(parents=True, exist_ok=True)
    above.chmod(stat.S_IMODE(Path(lower).stat().st_mode) | to.walk)
    options = f"lowerdir={lower},upperdir={above},workdir={work}{to.options}"
    try:
        libc.mount("overlay", str(target), "overlay", data=options)
    except OSError:
        libc.bind(lower, str(target), read_only=True)
        return False
    return True


def _bind_mounts_below(root: Path, scratch: Path, overlaid: AbstractSet[str]) -> None:
    """An overlay shows one file system only: what is mounted below it is bound by hand."""
    for point in _mount_points():
        path = Path(point)
        parts = path.parts
        if len(parts) < 3 or parts[1] not in overlaid or path.is_relative_to(scratch):
            continue
        target = root / point.lstrip("/")
        if target.exists() and not path.is_relative_to(root):
            libc.bind(point, str(target), recursive=False)


def _mount_points() -> list[str]:
    with Path("/proc/self/mountinfo").open() as table:
        points = [line.split(" ", 5)[4] for line in table]
    return [point.encode().decode("unicode_escape") for point in points]


def _mount_own(root: Path, scratch: Path, spec: Mapping[str, Any]) -> None:
    for name, mode in (("tmp", 0o1777), ("run", 0o755)):
        own = scratch / name
        own.mkdir(exist_ok=True)
        own.chmod(mode)
        (root / name).mkdir()
        libc.bind(str(own), str(root / name))
    for name in ("proc", "sys", "dev"):
        (root / name).mkdir()
    _mount_devices(root / "dev", spec.get("shm"))
    libc.bind("/sys", str(root / "sys"))
    libc.mount(
        "proc",
        str(root / "proc"),
        "proc",
        flags=libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC,
    )
    for target, source in spec.get("cgroup_views", {}).items():
        libc.bind(source, str(root) + target)


def _mount_devices(devices: Path, shm: str | None) -> None:
    """Devices without the machine's disks: what every program needs, terminals, accelerators."""
    libc.mount("tmpfs", str(devices), "tmpfs", libc.MS_NOSUID, "mode=755,size=1m")
    for entry in os.scandir("/dev"):
        if entry.name in _DEVICES or entry.name.startswith(_ACCELERATORS):
            target = devices / entry.name
            if entry.is_dir():
                target.mkdir()
            else:
                target.touch()
            libc.bind(entry.path, str(target))
    for name, goal in _DEVICE_LINKS.items():
        (devices / name).symlink_to(goal)
    if shm:
        (devices / "shm").mkdir()
        libc.bind(shm, str(devices / "shm"))


def _mount_volumes(mounts: Sequence[Mapping[str, Any]], symlinks: Mapping[str, str]) -> None:
    for link, goal in symlinks.items():
        if not os.path.lexists(link):
            ensure_directory(Path(link).parent)
            Path(link).symlink_to(goal)
    for mount in sorted(mounts, key=lambda mount: len(Path(mount["target"]).parts)):
        source = Path(_HOST + mount["source"])
        target = Path(mount["target"])
        if source.is_dir():
            ensure_directory(target)
        else:
            ensure_directory(target.parent)
            if not target.exists():
                target.touch()
        libc.bind(str(source), str(target), read_only=bool(mount.get("read_only")))


def ensure_directory(path: Path) -> None:
    """Make `path` inside the container, also where its parent is a read-only bind."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        parent = path.parent
        while not parent.is_dir():
            parent = parent.parent
        _graft(parent)
        path.mkdir(parents=True, exist_ok=True)


def _graft(directory: Path) -> None:
    """Replace a read-only directory by a writable one with the same entries."""
    entries = list(os.scandir(directory))
    source = Path(_HOST + str(directory))
    libc.mount("tmpfs", str(directory), "tmpfs", data="mode=755")
    for entry in entries:
        target = directory / entry.name
        origin = source / entry.name
        if origin.is_symlink():
            target.symlink_to(origin.readlink())
        elif origin.is_dir():
            target.mkdir()
            libc.bind(str(origin), str(target), read_only=True)
        elif origin.is_file():
            target.touch()
            libc.bind(str(origin), str(target), read_only=True)
