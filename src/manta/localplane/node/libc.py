"""The few system calls that Python 3.11 lacks: namespaces and mounts, by ctypes.

Nothing here needs a program of the machine (no unshare, nsenter, mount). Only the standard library
is imported, because the init process of every Pod carries this module in its memory.
"""

from __future__ import annotations

import ctypes
import os

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
PR_SET_CHILD_SUBREAPER = 36

_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

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
            source.encode(),
            target.encode(),
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
        mount("none", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | _locked_flags(target))


def _locked_flags(target: str) -> int:
    """In a user namespace, a remount that would drop nosuid, nodev or noexec is refused."""
    seen = os.statvfs(target).f_flag
    return seen & (os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC)


def unmount(target: str) -> None:
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"unmount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(38, f"pivot_root: not known on {os.uname().machine}")
    _check(_libc.syscall(number, new_root.encode(), put_old.encode()), "pivot_root")


def set_hostname(name: str) -> None:
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), "sethostname")


def end_with_parent() -> None:
    """For a child between fork and exec: when its parent is killed, it ends too."""
    _libc.prctl(PR_SET_DEATH_SIGNAL, 15, 0, 0, 0)


def set_process_name(name: str) -> None:
    """As `ps` and /proc/PID/comm show it (15 bytes)."""
    _libc.prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def become_subreaper() -> None:
    """Orphaned descendants become our children, as they would for PID 1."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def inotify(path: str, mask: int) -> int:
    """A descriptor that becomes readable when something of `mask` happens at `path`."""
    fd: int = _libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    _check(fd, "inotify")
    watch = _libc.inotify_add_watch(fd, path.encode(), mask)
    if watch < 0:
        number = ctypes.get_errno()
        os.close(fd)
        raise OSError(number, f"inotify {path}: {os.strerror(number)}")
    return fd
