"""The root file system of a container: the machine's own files behind overlays.

There are no image layers. Every top-level directory of the machine is mounted as an overlay into an empty
root: the container reads the machine's files, and its writes go to its scratch directory. /tmp, /run,
/dev/shm and /proc are the container's own; volumes are bind mounts on top. If the kernel refuses overlays,
directories are bound read-only. The directories in `hidden` (those of planes) are covered by empty ones.

Everything is mounted before the root is changed. Targets are resolved as if the new root were `/`
(`confined_files.py`), so that no link and no `..` leads a mount to the machine's own files.

Runs inside the new container, between fork and exec. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple

from manta.localplane.node.host import libc
from manta.localplane.node.host.confined_files import Directory, Links, open_beneath, proc_path

_OWN = frozenset({"proc", "sys", "dev", "tmp", "run", "lost+found"})
_DEVICES = frozenset({"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "fuse"})
_ACCELERATORS = ("nvidia", "dri", "kfd", "accel", "infiniband", "vfio")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
_SETTINGS_OF_THE_MACHINE = ("sys", "sysrq-trigger", "irq", "bus", "fs")
_SECRETS_OF_THE_MACHINE = ("kcore", "keys", "timer_list", "sched_debug", "acpi", "scsi")
"""Both below /proc, as in container runtimes."""
_READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)


def build_root(spec: Mapping[str, Any]) -> None:
    """Make the container's root the root of this process, which needs its own mount namespace."""
    libc.mount("none", "/", flags=libc.MS_REC | libc.MS_PRIVATE)
    scratch = Path(spec["scratch"])
    root = scratch / "root"
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o755)
    libc.bind(str(root), str(root))
    hidden = [Path(path) for path in spec.get("hidden", ())]
    _overlay_host_root(root, scratch, spec, hidden)
    _mount_own(root, scratch, spec)
    with Directory.at(root) as own:
        _hide(own, hidden)
        _mount_volumes(own, spec.get("mounts", ()), spec.get("symlinks", {}), hidden)
    if spec.get("read_only"):
        _make_image_read_only(root, {mount["target"] for mount in spec.get("mounts", ())})
    os.chdir(root)
    libc.pivot_root(".", ".")
    libc.unmount(".")
    os.chdir("/")


def _overlay_host_root(
    root: Path, scratch: Path, spec: Mapping[str, Any], hidden: Sequence[Path]
) -> None:
    memory = scratch / "memory"
    options = ",userxattr" if spec.get("userns") else ""
    # A container user other than root must reach Python and the image's environment, which may be
    # below a home directory that is closed to that user on the machine.
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
    _bind_mounts_below(root, (scratch, *hidden), overlaid)


class _Upper(NamedTuple):
    """Where an overlay stores writes."""

    disk: Path
    memory: Path
    options: str
    walk: int


def _overlay(lower: str, target: Path, to: _Upper) -> bool:
    """False if the kernel refuses the overlay (as in a user namespace, for directories with mounts of
    others): then the directory and all mounts in it are bound read-only."""
    upper = to.disk
    if upper.is_relative_to(lower):
        # The kernel refuses an upper directory inside the lower one: use a tmpfs.
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
        libc.bind(lower, str(target))
        libc.make_read_only(str(target))
        return False
    return True


def _bind_mounts_below(root: Path, left_out: Sequence[Path], overlaid: AbstractSet[str]) -> None:
    """An overlay shows one file system only. Bind the mounts below it, read-only because writes would
    reach the machine."""
    for point in libc.mount_points():
        path = Path(point)
        if len(path.parts) < 3 or path.parts[1] not in overlaid:
            continue
        if any(path.is_relative_to(place) for place in left_out):
            continue
        target = root / point.lstrip("/")
        if target.exists():
            libc.bind(point, str(target), recursive=False, read_only=True)


# ── the container's own directories ──────────────────────────────────────────────────────
def _mount_own(root: Path, scratch: Path, spec: Mapping[str, Any]) -> None:
    for name, mode in (("tmp", 0o1777), ("run", 0o755)):
        own = scratch / name
        own.mkdir(exist_ok=True)
        own.chmod(mode)
        (root / name).mkdir()
        libc.bind(str(own), str(root / name))
    for name in ("proc", "sys", "dev"):
        (root / name).mkdir()
    _mount_devices(root / "dev", spec.get("shm"), spec.get("accelerators", {}))
    libc.bind("/sys", str(root / "sys"))
    for target, source in spec.get("cgroup_views", {}).items():
        libc.bind(source, str(root) + target)
    flags = libc.MS_NOSUID | libc.MS_NODEV | libc.MS_NOEXEC
    libc.mount("proc", str(root / "proc"), "proc", flags=flags)
    if spec.get("capabilities") is not None:
        libc.make_read_only(str(root / "sys"))
        _guard_proc(root / "proc", root / "dev" / "null")


def _guard_proc(proc: Path, null: Path) -> None:
    """Files of /proc check for uid 0, not for capabilities. So make the settings of the machine read-only
    and hide what shows its memory."""
    for name in _SETTINGS_OF_THE_MACHINE:
        if (proc / name).exists():
            libc.bind(str(proc / name), str(proc / name))
            libc.make_read_only(str(proc / name))
    for name in _SECRETS_OF_THE_MACHINE:
        path = proc / name
        if path.is_dir():
            libc.mount("tmpfs", str(path), "tmpfs", libc.MS_RDONLY, "size=4k")
        elif path.exists() and null.exists():
            libc.bind(str(null), str(path))


def _mount_devices(devices: Path, shm: str | None, accelerators: Mapping[str, Any]) -> None:
    """Mount the usual devices, terminals and the container's accelerators, but not the machine's disks."""
    libc.mount("tmpfs", str(devices), "tmpfs", libc.MS_NOSUID, "mode=755,size=1m")
    managed = tuple(accelerators.get("families", ()))
    for entry in os.scandir("/dev"):
        usual = entry.name in _DEVICES or entry.name.startswith(_ACCELERATORS)
        if usual and not (managed and entry.name.startswith(managed)):
            _mount_device(devices, entry.name)
    for name in accelerators.get("given", ()):
        if os.path.exists(f"/dev/{name}"):  # noqa: PTH110 - text; not all machines have all
            _mount_device(devices, name)
    for name, goal in _DEVICE_LINKS.items():
        (devices / name).symlink_to(goal)
    if shm:
        (devices / "shm").mkdir()
        libc.bind(shm, str(devices / "shm"))


def _mount_device(devices: Path, name: str) -> None:
    source, target = Path("/dev", name), devices / name
    target.parent.mkdir(exist_ok=True)
    if source.is_dir():
        target.mkdir()
    else:
        target.touch()
    libc.bind(str(source), str(target))


# ── hidden directories ───────────────────────────────────────────────────────────────────
def _hide(root: Directory, hidden: Sequence[Path], within: str = "") -> None:
    """Cover directories by empty ones, below the root or below the directory `within`."""
    for path in hidden:
        target = f"{within}/{str(path).lstrip('/')}"
        if stat.S_ISDIR(root.mode(target, Links.IN_ROOT) or 0):
            with root.enter(target, Links.IN_ROOT) as place:
                flags = libc.MS_RDONLY | libc.MS_NOSUID | libc.MS_NODEV
                libc.mount("tmpfs", place.proc_path, "tmpfs", flags, "mode=555,size=4k")


# ── volumes ──────────────────────────────────────────────────────────────────────────────
def _mount_volumes(
    root: Directory,
    mounts: Sequence[Mapping[str, Any]],
    symlinks: Mapping[str, str],
    hidden: Sequence[Path],
) -> None:
    for link, goal in symlinks.items():
        if not root.exists(link, Links.IN_ROOT):
            with _make_directory(root, os.path.dirname(link)) as parent:  # noqa: PTH120 - text
                parent.link(os.path.basename(link), goal)  # noqa: PTH119 - text
    for mount in sorted(mounts, key=lambda mount: len(Path(mount["target"]).parts)):
        _mount_volume(root, mount)
        source = Path(mount["source"])
        below = [path.relative_to(source) for path in hidden if path.is_relative_to(source)]
        _hide(root, below, within=mount["target"])


def _mount_volume(root: Directory, mount: Mapping[str, Any]) -> None:
    """Open the source once, refusing links up to the volume and links that leave it, and mount exactly
    what was opened."""
    target = mount["target"]
    if not target.strip("/."):
        raise OSError(errno.EINVAL, f"mount path {target!r} would cover the container's root")
    source = _open_source(mount["source"], mount.get("sub_path", ""))
    try:
        if stat.S_ISDIR(os.fstat(source).st_mode):
            _make_directory(root, target).close()
        else:
            _make_file(root, target)
        place = open_beneath(root.fd, target, os.O_PATH, links=Links.IN_ROOT)
        try:
            libc.bind(proc_path(source), proc_path(place))
        finally:
            os.close(place)
    finally:
        os.close(source)
    if mount.get("read_only"):
        mounted = open_beneath(root.fd, target, os.O_PATH, links=Links.IN_ROOT)
        try:
            libc.remount_read_only(proc_path(mounted))
        finally:
            os.close(mounted)


def _open_source(source: str, sub_path: str) -> int:
    with Directory.at("/") as machine:
        volume = open_beneath(machine.fd, source.lstrip("/"), os.O_PATH)
    if not sub_path:
        return volume
    try:
        return open_beneath(volume, sub_path, os.O_PATH, links=Links.INSIDE)
    finally:
        os.close(volume)


def _make_file(root: Directory, target: str) -> None:
    if root.exists(target, Links.IN_ROOT):
        return
    try:
        root.touch(target, links=Links.IN_ROOT)
    except OSError as error:
        if error.errno not in _READ_ONLY:
            raise
        _make_writable(root, os.path.dirname(target))  # noqa: PTH120 - text
        root.touch(target, links=Links.IN_ROOT)


def _make_directory(root: Directory, path: str) -> Directory:
    """Create `path` inside the container, also below a read-only bind mount."""
    try:
        return root.make(path, links=Links.IN_ROOT)
    except OSError as error:
        if error.errno not in _READ_ONLY:
            raise
        _make_writable(root, path)
        return root.make(path, links=Links.IN_ROOT)


def _make_writable(root: Directory, path: str) -> None:
    """Cover the nearest existing directory by a writable one with the same entries."""
    parts = [part for part in path.split("/") if part]
    while not root.exists("/".join(parts) or ".", Links.IN_ROOT):
        parts.pop()
    place = "/".join(parts) or "."
    with root.enter(place, Links.IN_ROOT) as old:
        entries = old.names()
        libc.mount("tmpfs", old.proc_path, "tmpfs", data="mode=755")
        with root.enter(place, Links.IN_ROOT) as new:
            for name in entries:
                _graft(old, new, name)


def _graft(old: Directory, new: Directory, name: str) -> None:
    if (goal := old.link_target(name)) is not None:
        new.link(name, goal)
        return
    origin = open_beneath(old.fd, name, os.O_PATH | os.O_NOFOLLOW)
    try:
        kind = os.fstat(origin).st_mode
        if stat.S_ISDIR(kind):
            new.make(name).close()
        elif stat.S_ISREG(kind):
            new.touch(name)
        else:
            return
        target = f"{new.proc_path}/{name}"  # no other process can change `new` yet
        libc.bind(proc_path(origin), target, read_only=True)
    finally:
        os.close(origin)


def _make_image_read_only(root: Path, volumes: AbstractSet[str]) -> None:
    """For readOnlyRootFilesystem: all mounts but volumes, /dev, /proc and /sys."""
    kept = {os.path.normpath(f"{root}/{target}") for target in volumes}
    kept |= {str(root / "dev"), str(root / "proc"), str(root / "sys")}
    for point in libc.mount_points():
        inside = point == str(root) or point.startswith(f"{root}/")
        if inside and not any(point == one or point.startswith(f"{one}/") for one in kept):
            libc.remount_read_only(point)
