"""Access to files inside a directory whose content a Pod can change. Use nothing else for such files.

A Pod can replace any entry of its volumes by a link at any time. So the agent never gives the kernel a
whole path: it opens the directory once and resolves the rest relative to that descriptor, with openat2
(Linux 5.6) or else one component at a time without following links. A path that leads out of the
directory is an error; nothing outside is created, read, mounted or removed.

Standard library only: the first process of every container uses it too.
"""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Final, Self

_SYS_OPENAT2: Final = 437
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS = 0x02, 0x04
_RESOLVE_BENEATH, _RESOLVE_IN_ROOT = 0x08, 0x10
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS = 40
_libc = ctypes.CDLL(None, use_errno=True)


class Links(Enum):
    """How symbolic links are treated."""

    REFUSED = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS
    INSIDE = _RESOLVE_BENEATH
    """Followed if they stay inside the directory; absolute links are refused."""
    IN_ROOT = _RESOLVE_IN_ROOT
    """Followed as if the directory were `/`, as a container sees them."""


class Escape(OSError):  # noqa: N818 - the kernel's EXDEV and ELOOP, with a readable message
    """The path leads, or may lead, out of its directory."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EXDEV, f"{path!r} does not stay inside its directory")


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(
    root: int, path: str, flags: int, mode: int = 0, links: Links = Links.REFUSED
) -> int:
    """Open `path` beneath the directory `root` (a descriptor); the new descriptor is closed on exec.

    Raises Escape if it leads out, otherwise what open(2) raises. Only the last component is created.
    """
    _check_text(path)
    flags |= os.O_CLOEXEC
    try:
        return _openat2(root, path, flags, mode, links)
    except NotImplementedError:
        return _open_by_steps(root, path, flags, mode, links)


def _check_text(path: str) -> None:
    if "\0" in path:
        raise OSError(errno.EINVAL, f"{path!r} contains a NUL character")


def _openat2(root: int, path: str, flags: int, mode: int, links: Links) -> int:
    """Raises NotImplementedError if the kernel or a system call filter does not offer openat2."""
    how = _OpenHow(flags, mode if flags & os.O_CREAT else 0, links.value | _RESOLVE_NO_MAGICLINKS)
    fd: int = _libc.syscall(
        _SYS_OPENAT2, root, os.fsencode(path) or b".", ctypes.byref(how), ctypes.sizeof(how)
    )
    if fd >= 0:
        return fd
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM, errno.EAGAIN):
        raise NotImplementedError(os.strerror(number))
    if number in (errno.EXDEV, errno.ELOOP):
        raise Escape(path)
    raise OSError(number, os.strerror(number), path)


def _open_by_steps(root: int, path: str, flags: int, mode: int, links: Links) -> int:
    with _walked(root, path, links) as (parent, name):
        if name is None:
            return os.open(".", flags & ~os.O_CREAT, dir_fd=parent)
        try:
            return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=parent)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise Escape(path) from error
            raise


@contextmanager
def _walked(
    root: int, path: str, links: Links, *, make: int | None = None, whole: bool = True
) -> Iterator[tuple[int, str | None]]:
    """The directory (open inside the `with`) and the name of the last component; the name is None for
    the directory itself. `make`: create missing directories with this mode. `whole`: resolve a link in
    the last component too."""
    _check_text(path)
    walk = _Walk(root, path, links, make=make, whole=whole)
    try:
        yield walk.parent()
    finally:
        walk.close()


class _Walk:
    """Resolves a path component by component. The kernel follows no link; this class does, so that no
    process can replace a component between the check and the use."""

    def __init__(
        self, root: int, path: str, links: Links, *, make: int | None, whole: bool
    ) -> None:
        if path.startswith("/") and links is not Links.IN_ROOT:
            raise Escape(path)
        self._path, self._links, self._make, self._whole = path, links, make, whole
        self._todo = deque(_components(path))
        self._stack = [os.dup(root)]
        self._followed = 0

    def parent(self) -> tuple[int, str | None]:
        while self._todo:
            name = self._todo.popleft()
            if name == "..":
                self._go_up()
            elif not self._todo and not self._whole:
                return self._stack[-1], name
            elif (target := self._link(name)) is not None:
                self._follow(target)
            elif not self._todo:
                return self._stack[-1], name
            else:
                self._stack.append(self._enter(name))
        return self._stack[-1], None

    def _go_up(self) -> None:
        if self._links is Links.REFUSED:
            raise Escape(self._path)
        if len(self._stack) > 1:
            os.close(self._stack.pop())
        elif self._links is not Links.IN_ROOT:
            raise Escape(self._path)

    def _link(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self._stack[-1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _follow(self, target: str) -> None:
        self._followed += 1
        if self._links is Links.REFUSED or self._followed > _MAX_LINKS:
            raise Escape(self._path)
        if target.startswith("/"):
            if self._links is not Links.IN_ROOT:
                raise Escape(self._path)
            while len(self._stack) > 1:
                os.close(self._stack.pop())
        self._todo.extendleft(reversed(_components(target)))

    def _enter(self, name: str) -> int:
        here = self._stack[-1]
        if self._make is not None:
            with suppress(FileExistsError):
                os.mkdir(name, self._make, dir_fd=here)
        return os.open(name, _DIRECTORY, dir_fd=here)

    def close(self) -> None:
        for fd in self._stack:
            os.close(fd)


def _components(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


class Directory:
    """An open directory. Paths given to its methods are resolved inside it.

    Links are refused unless a method says otherwise.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @classmethod
    def at(cls, path: Path | str) -> Self:
        """Open a directory that only the agent can replace. It must not be a link itself."""
        return cls(os.open(path, _DIRECTORY))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        os.close(self.fd)

    @property
    def proc_path(self) -> str:
        """A path for system calls that take no descriptor, such as mount(2)."""
        return proc_path(self.fd)

    def enter(self, path: str, links: Links = Links.REFUSED) -> Directory:
        flags = os.O_PATH | os.O_DIRECTORY
        return Directory(open_beneath(self.fd, path, flags, links=links))

    def make(self, path: str, mode: int = 0o755, links: Links = Links.REFUSED) -> Directory:
        """The directory at `path`; it and its parents are created if missing."""
        with _walked(self.fd, path, links, make=mode) as (parent, name):
            if name is None:
                return Directory(os.open(".", _DIRECTORY, dir_fd=parent))
            with suppress(FileExistsError):
                os.mkdir(name, mode, dir_fd=parent)
            return Directory(os.open(name, _DIRECTORY, dir_fd=parent))

    def write(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Create a file with this content and mode. An existing file is replaced, never written to: it
        may be a hard link to a file elsewhere. Raises Escape."""
        with _walked(self.fd, path, Links.REFUSED, make=0o755, whole=False) as (parent, name):
            if name is None:
                raise Escape(path)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(name, flags, 0o600, dir_fd=parent), "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)

    def touch(self, path: str, mode: int = 0o644, links: Links = Links.REFUSED) -> None:
        """Create an empty file and its parents, unless something exists at `path`."""
        with _walked(self.fd, path, links, make=0o755) as (parent, name):
            if name is None:
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with suppress(FileExistsError):
                os.close(os.open(name, flags, mode, dir_fd=parent))

    def read(self, path: str, limit: int = -1) -> bytes:
        """The content of a regular file. Raises OSError for anything else, such as a named pipe."""
        fd = open_beneath(self.fd, path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(fd, "rb") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, f"{path!r} is not a regular file")
            return file.read(limit)

    def mode(self, path: str, links: Links = Links.REFUSED) -> int | None:
        """Type and permissions of the entry at `path`; None if there is none."""
        try:
            fd = open_beneath(self.fd, path, os.O_PATH, links=links)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            return os.fstat(fd).st_mode
        finally:
            os.close(fd)

    def exists(self, path: str, links: Links = Links.REFUSED) -> bool:
        return self.mode(path, links) is not None

    def link(self, name: str, goal: str, links: Links = Links.REFUSED) -> None:
        """Create a symbolic link, unless something exists at `name`."""
        with _walked(self.fd, name, links, make=0o755, whole=False) as (parent, last):
            if last is not None:
                with suppress(FileExistsError):
                    os.symlink(goal, last, dir_fd=parent)

    def link_target(self, name: str) -> str | None:
        """The target of the link `name` directly in this directory; None if it is not a link."""
        try:
            return os.readlink(name, dir_fd=self.fd)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def names(self) -> list[str]:
        """The entries directly in this directory."""
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            return os.listdir(fd)  # noqa: PTH208 - a descriptor has no path
        finally:
            os.close(fd)

    def files(self) -> list[str]:
        """Relative paths of all files and links below this directory."""
        found: list[str] = []
        for place, inner, names, here in os.fwalk(".", dir_fd=self.fd):
            links = [name for name in inner if _is_link(name, here)]
            found += [os.path.normpath(f"{place}/{name}") for name in (*names, *links)]
        return found

    def rename(self, name: str, to: str) -> None:
        os.rename(name, to, src_dir_fd=self.fd, dst_dir_fd=self.fd)

    def remove(self, path: str) -> None:
        """Remove the entry at `path` and everything below it; links are removed, not followed. A missing
        entry is no error. Raises Escape."""
        with (
            suppress(FileNotFoundError, NotADirectoryError),
            _walked(self.fd, path, Links.REFUSED, whole=False) as (parent, name),
        ):
            if name is None:
                raise Escape(path)
            try:
                os.unlink(name, dir_fd=parent)
            except IsADirectoryError:
                _remove_tree(parent, name)


def proc_path(fd: int) -> str:
    return f"/proc/self/fd/{fd}"


def _is_link(name: str, parent: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def _remove_tree(parent: int, name: str) -> None:
    try:
        _remove_by_recursion(parent, name)
    except (RecursionError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EMFILE:
            raise
        _flatten(parent, name)
        _remove_by_recursion(parent, name)


def _flatten(parent: int, name: str) -> None:
    """Move every directory of a tree to its top: shutil.rmtree recurses, and opens a file for each level."""
    top = os.open(name, _LISTED, dir_fd=parent)
    try:
        pending = deque(_directories(top))
        while pending:
            here = os.open(pending.popleft(), _LISTED, dir_fd=top)
            try:
                for inner in _directories(here):
                    fresh = os.urandom(16).hex()
                    os.rename(inner, fresh, src_dir_fd=here, dst_dir_fd=top)
                    pending.append(fresh)
            finally:
                os.close(here)
    finally:
        os.close(top)


def _directories(parent: int) -> list[str]:
    """Their names, after permissions that are missing were added."""
    with os.scandir(parent) as entries:
        found = [one.name for one in entries if one.is_dir(follow_symlinks=False)]
    for one in found:
        with suppress(OSError):
            _allow(one, parent)
    return found


def _remove_by_recursion(parent: int, name: str) -> None:
    """The kernel creates the work directory of an overlay without permissions. An unprivileged user must
    add them before the second attempt."""
    with suppress(OSError):
        shutil.rmtree(name, dir_fd=parent)
        return
    for place, inner, _, here in os.fwalk(name, dir_fd=parent, onerror=None):
        del place
        for one in inner:
            with suppress(OSError):
                _allow(one, here)
    shutil.rmtree(name, dir_fd=parent)


def _allow(name: str, parent: int) -> None:
    """Through a descriptor: chmod(2) by name would follow a link."""
    fd = os.open(name, _DIRECTORY, dir_fd=parent)
    try:
        if stat.S_IMODE(os.fstat(fd).st_mode) & 0o700 != 0o700:
            Path(proc_path(fd)).chmod(0o700)
    finally:
        os.close(fd)


def remove_tree(directory: Path) -> None:
    """Errors are ignored: check whether the directory still exists.

    If `directory` is a link it is left alone, because it may lead to files that are not ours.
    """
    if directory.is_symlink():
        return
    with suppress(OSError), Directory.at(directory.parent.resolve()) as parent:
        parent.remove(directory.name)
