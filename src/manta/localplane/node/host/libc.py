"""System calls that Python 3.11 lacks, by ctypes: namespaces, mounts, prctl, capabilities.

Standard library only, because the init process of every Pod has this module in its memory.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Collection

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

IN_MODIFY = 0x2
IN_MOVED_TO = 0x80
IN_CREATE = 0x100
IN_DELETE_SELF = 0x400

PR_SET_DEATH_SIGNAL = 1
PR_SET_NAME = 15
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4

_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_SYS_MOUNT_SETATTR = 442
_AT_RECURSIVE = 0x8000
_CAPABILITY_VERSION = 0x20080522
_MAX_CAPABILITY = 63

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), f"unshare {flags:#x}")


def setns(fd: int, kind: int) -> None:
    _check(_libc.setns(fd, kind), f"setns {kind:#x}")


def mount(source: str, target: str, kind: str = "", flags: int = 0, data: str = "") -> None:
    _check(
        _libc.mount(
            os.fsencode(source),
            os.fsencode(target),
            kind.encode() or None,
            flags,
            data.encode() or None,
        ),
        f"mount {kind or source} on {target}",
    )


def bind(source: str, target: str, *, recursive: bool = True, read_only: bool = False) -> None:
    """Bind mount. The kernel ignores `read only` in the first call, hence the second."""
    mount(source, target, flags=MS_BIND | (MS_REC if recursive else 0))
    if read_only:
        remount_read_only(target)


class _MountAttributes(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")
    )


def make_read_only(path: str) -> None:
    """Make a mount and all mounts below it read-only."""
    wanted = _MountAttributes(MS_RDONLY, 0, 0, 0)
    result = _libc.syscall(
        _SYS_MOUNT_SETATTR,
        -1,
        os.fsencode(path),
        _AT_RECURSIVE,
        ctypes.byref(wanted),
        ctypes.sizeof(wanted),
    )
    if result < 0 and ctypes.get_errno() in (errno.ENOSYS, errno.EPERM):
        for point in mount_points():  # kernels before 5.12
            if point == path or point.startswith(f"{path.rstrip('/')}/"):
                remount_read_only(point)
        return
    _check(result, f"mount_setattr {path}")


def remount_read_only(target: str) -> None:
    mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | _locked_flags(target))


def mount_points() -> list[str]:
    with open("/proc/self/mountinfo", "rb") as table:  # noqa: PTH123 - see init.py
        return [mount_point(line) for line in table]


def mount_point(line: bytes) -> str:
    """The path in a line of mountinfo, where the kernel writes a space as octal 040; all other bytes are the name's own."""
    escaped = line.split(b" ", 5)[4]
    plain = re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), escaped)
    return os.fsdecode(plain)


def _locked_flags(target: str) -> int:
    """In a user namespace, a remount that would drop nosuid, nodev or noexec is refused."""
    flags = os.statvfs(target).f_flag
    return flags & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)


def unmount(target: str) -> None:
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), f"unmount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    """Make `new_root` the root of this mount namespace. Raises OSError."""
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"pivot_root: not known on {os.uname().machine}")
    _check(_libc.syscall(number, os.fsencode(new_root), os.fsencode(put_old)), "pivot_root")


def set_hostname(name: str) -> None:
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), "sethostname")


def end_with_parent() -> None:
    """Get SIGTERM when the parent process ends. Called between fork and exec."""
    _libc.prctl(PR_SET_DEATH_SIGNAL, 15, 0, 0, 0)


def die_with_parent() -> None:
    """Get SIGKILL when the parent process ends."""
    _libc.prctl(PR_SET_DEATH_SIGNAL, 9, 0, 0, 0)


def set_process_name(name: str) -> None:
    """Set the name in `ps` and /proc/PID/comm (15 bytes)."""
    _libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def become_subreaper() -> None:
    """Adopt orphaned descendants, as PID 1 does."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def inotify(path: str, mask: int) -> int:
    """A descriptor that becomes readable when an event of `mask` happens at `path`. Raises OSError."""
    fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    _check(fd, "inotify")
    watch = _libc.inotify_add_watch(fd, os.fsencode(path), mask)
    if watch < 0:
        number = ctypes.get_errno()
        os.close(fd)
        raise OSError(number, f"inotify {path}: {os.strerror(number)}")
    return fd


class _CapabilityHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapabilityData(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


def limit_capabilities(kept: Collection[int]) -> None:
    """Restrict programs that this process executes later, also setuid ones, to these capabilities."""
    for number in range(_MAX_CAPABILITY + 1):
        if number not in kept and _libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0) < 0:
            if ctypes.get_errno() == errno.EINVAL:
                break  # the kernel knows no higher number
            _check(-1, f"drop capability {number}")
    _libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)


def set_capabilities(kept: Collection[int]) -> None:
    """Drop all capabilities of this process but `kept`; none is inherited."""
    header = _CapabilityHeader(_CAPABILITY_VERSION, 0)
    data = (_CapabilityData * 2)()
    _check(_libc.capget(ctypes.byref(header), data), "capget")
    for half, part in enumerate(data):
        mask = sum(1 << (number - 32 * half) for number in kept if number // 32 == half)
        part.permitted &= mask
        part.effective &= mask
        part.inheritable = 0
    _check(_libc.capset(ctypes.byref(header), data), "capset")


def forbid_new_privileges() -> None:
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
