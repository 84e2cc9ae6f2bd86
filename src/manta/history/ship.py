"""Ships log files and posted events of one Pod to a store: only what is new, and each byte once.

A log file is known by its inode and by the bytes before the offset up to which it was shipped: a deleted file's inode is
soon another's. If these are few, its name without the number of a rotation must be the same too. This is kept in a small
state file, so that a restarted process goes on where the last one stopped. After a crash in between, a range is shipped
twice; readers accept that. While the store fails nothing advances: Ray's own files are the buffer.
"""

from __future__ import annotations

import errno
import gzip
import logging
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, NamedTuple

import msgspec

from manta.history.layout import (
    MOVED_LOGS,
    InvalidName,
    SessionKey,
    event_key,
    log_key,
    pod_key,
    quote_path,
)
from manta.history.store import Store

log = logging.getLogger(__name__)

CHUNK_BYTES: Final = 1024 * 1024
ROUND_BYTES: Final = 8 * CHUNK_BYTES
"""Shipped of one file in one round: a file of many gigabytes holds up neither the others nor the events."""
MAX_FILES: Final = 40_000
"""Log files of a session that are followed; of a program that creates more, the rest is counted and said."""
MAX_DEPTH: Final = 32
"""Directories below `logs`: os.fwalk is recursive, and opens a file for each."""
_DESCRIBED_SECONDS: Final = 3600.0
"""So long a session that retention deleted while it was written may be without its `session.json`."""
_MARK_BYTES: Final = 256
_ROTATION = re.compile(r"\.\d[\d_-]*(?=\.|$)")
"""What rotation adds to a name: `raylet.1.out`, `a.log.2`, `a.log.2026-01-31`."""
_NODE_FILE = re.compile(r".*_([0-9a-f]{56})")
_COMPRESSION: Final = 5
_SKIPPED: Final = ("nsight/", "profiles/", "rocprof_sys/")
"""Directories of `logs` that hold binary profiles."""
_LASTING: Final = (errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG)
"""Errors that the same file has at the next try too."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose Pod it is."""

    namespace: str
    kind: str
    name: str
    cluster: str
    pod: str
    role: str
    ray_version: str = ""

    def session(self, name: str) -> SessionKey:
        """Raises InvalidName."""
        return SessionKey(self.namespace, self.kind, self.name, name).checked()


class FoundFile(NamedTuple):
    inode: int
    path: str
    size: int
    mtime: int

    @property
    def name(self) -> str:
        """The path as it is stored: that at which Ray wrote it."""
        return _in_utf8(self.path.removeprefix(f"{MOVED_LOGS}/"))


class FileState(msgspec.Struct):
    path: str
    """Its name when it was new: what it is stored under."""
    generation: int
    offset: int
    size: int = 0
    """When it was last seen."""
    mtime: int = 0
    """When it was last shipped, in nanoseconds."""
    mark: str = ""
    """A hash of the bytes before the offset: other bytes there are another file, or one that was written again."""

    def may_be(self, found: FoundFile) -> bool:
        """Whether the file with the same inode can be this one. Many files have the same first line: a short one must have
        the same name too, but for the number that rotation adds."""
        same_name = _ROTATION.sub("", self.path) == _ROTATION.sub("", found.name)
        return self.offset <= found.size and (same_name or self.offset >= _MARK_BYTES)


class ShipState(msgspec.Struct):
    """What was shipped of one session."""

    files: dict[int, FileState] = msgspec.field(default_factory=dict)
    """By inode."""
    generations: dict[str, int] = msgspec.field(default_factory=dict)
    """Number of inodes seen so far, by path."""
    described: list[str] = msgspec.field(default_factory=list)
    """Keys of `session.json` and of the nodes that exist in the store."""


@dataclass(slots=True)
class Shipped:
    """What one round did."""

    objects: int = 0
    bytes: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    """Bytes of files that went away before they were shipped, by path."""
    skipped: int = 0
    """Files and directories that turned out not to be readable, have a name that cannot be kept, or are too many."""
    failed: OSError | None = None
    """Why some of them could not be read, if that may pass, such as EMFILE or EIO."""
    has_more: bool = False
    """Whether a file had more bytes than a round takes: the next round should come at once."""


@dataclass(slots=True)
class _Seen:
    """What a round saw of the files."""

    inodes: set[int] = field(default_factory=set)
    skipped: dict[str, Exception] = field(default_factory=dict)
    """What could not be read, by path."""
    unread: set[str] = field(default_factory=set)
    """Paths of directories and files that are there, or may be, and of which the round knows no more."""

    def skip(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            self.skipped[str(error.filename)] = error

    def is_gone(self, path: str) -> bool:
        """Whether a file that was not found is not there."""
        return self.unread.isdisjoint((path, MOVED_LOGS, *map(str, PurePosixPath(path).parents)))

    def failed(self) -> OSError | None:
        """The first error that may pass."""
        for error in self.skipped.values():
            if isinstance(error, OSError) and error.errno not in _LASTING:
                return error
        return None


class SessionShipper:
    """The logs of one session directory. Blocking: run it in a thread."""

    def __init__(
        self,
        store: Store,
        who: Identity,
        directory: Path,
        state: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`state`: the file that remembers what was shipped. Raises InvalidName."""
        self.key = who.session(directory.name)
        self._store = store
        self._who = who
        self._directory = directory
        self._state_file = state
        self._state = _load(state)
        self._skipped: set[str] = set()
        """What the last round could not read: each is said once."""
        self._too_many = 0
        """The most files that were not followed in a round."""
        self._clock = clock
        self._described_at = -_DESCRIBED_SECONDS

    def ship(self) -> Shipped:
        """One round: ship what is new, of each file at most ROUND_BYTES. Raises StoreError."""
        done = Shipped()
        seen = _Seen()
        self._describe(anew=False)
        try:
            for found in self._files(seen):
                if found.inode in seen.inodes:  # another name of the same file
                    continue
                seen.inodes.add(found.inode)
                if len(self._state.files) >= MAX_FILES and found.inode not in self._state.files:
                    continue
                try:
                    self._ship_file(found, done)
                except FileNotFoundError:  # rotated a moment ago
                    continue
                except (OSError, InvalidName) as error:  # those of the store are StoreErrors
                    seen.skipped[found.path] = error
            self._forget_missing(seen, done)
        finally:
            done.skipped = self._say_skipped(seen.skipped) + self._say_too_many(seen.inodes)
            done.failed = seen.failed()
            _save(self._state_file, self._state)
        return done

    def _say_skipped(self, skipped: Mapping[str, Exception]) -> int:
        """The number of those that are new."""
        fresh = [path for path in skipped if path not in self._skipped]
        for path in fresh:
            said = f"{self._directory / 'logs'}/{path} is not kept: {skipped[path]}"
            log.warning("%s", said.encode("utf-8", "backslashreplace").decode())
        self._skipped = set(skipped)
        return len(fresh)

    def _say_too_many(self, present: AbstractSet[int]) -> int:
        """The number of those that are new."""
        fresh = len(present - self._state.files.keys()) - self._too_many
        if fresh <= 0 or len(self._state.files) < MAX_FILES:
            return 0
        if not self._too_many:
            words = "%s has more than %d files; %d that came after them are not kept"
            log.warning(words, self._directory / "logs", MAX_FILES, fresh)
        self._too_many += fresh
        return fresh

    def _describe(self, *, anew: bool) -> None:
        """Create the objects that say what ran, once. `anew`: also those that existed: retention may have deleted them."""
        who, described = self._who, self._state.described
        fields = {"namespace": who.namespace, "kind": who.kind, "name": who.name}
        fields |= {
            "cluster": who.cluster,
            "session": self.key.session,
            "rayVersion": who.ray_version,
        }
        wanted = {self.key.metadata: fields}
        for node in node_ids(self._directory):
            wanted[pod_key(self.key, who.pod, node)] = {
                "pod": who.pod,
                "nodeId": node,
                "role": who.role,
            }
        for key, content in wanted.items():
            if anew or key not in described:
                self._store.create(key, msgspec.json.encode(content))
                described += [key] if key not in described else []

    def _files(self, seen: _Seen) -> Iterator[FoundFile]:
        """The log files. What cannot be read is added to `seen`."""
        try:
            yield from self._walk(seen)
        except FileNotFoundError:  # there are no logs
            return
        except OSError as error:  # of a directory that is open: the walk ends
            seen.skip(error)
            seen.unread.add(".")

    def _walk(self, seen: _Seen) -> Iterator[FoundFile]:
        logs = self._directory / "logs"
        for place, inner, names, fd in os.fwalk(logs, onerror=seen.skip, follow_symlinks=False):
            inner.sort()
            below = os.path.relpath(place, logs)
            seen.unread.discard(_in_utf8(below))
            if below.count("/") >= MAX_DEPTH:
                for name in inner:
                    seen.skip(OSError(errno.ELOOP, "it is nested too deeply", f"{below}/{name}"))
                inner.clear()
            seen.unread.update(_in_utf8(_join(below, name)) for name in inner)
            for name in sorted(names):
                path = _join(below, name)
                if path.startswith(_SKIPPED):
                    continue
                try:
                    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                except OSError as error:
                    seen.skip(OSError(error.errno, error.strerror, path))
                    seen.unread.add(_in_utf8(path))
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield FoundFile(status.st_ino, path, status.st_size, status.st_mtime_ns)

    def _ship_file(self, found: FoundFile, done: Shipped) -> None:
        known = self._state.files.get(found.inode)
        if known is None or not known.may_be(found):
            known = self._begin(found, done)
        if (found.size, found.mtime) == (known.offset, known.mtime):
            return
        seen, known.size = known.size, found.size
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(os.open(self._directory / "logs" / found.path, flags), "rb") as file:  # noqa: PTH123
            if os.fstat(file.fileno()).st_ino != found.inode:
                return  # rotated a moment ago: the next round finds it by its new name
            before = _before(file, known.offset)
            if known.mark and known.mark != _mark(before):
                known.size = seen
                known, before = self._begin(found, done), b""
            self._ship_ranges(file, found, known, before, done)
        known.mtime = found.mtime

    def _begin(self, found: FoundFile, done: Shipped) -> FileState:
        """A new file, whether or not its inode was another's. Raises InvalidName."""
        name = found.name
        quote_path(name)
        if (gone := self._state.files.pop(found.inode, None)) is not None:
            _report(gone, done)
        generation = self._state.generations.get(name, 0)
        self._state.generations[name] = generation + 1
        fresh = FileState(name, generation, 0, found.size)
        self._state.files[found.inode] = fresh
        return fresh

    def _ship_ranges(
        self, file: BinaryIO, found: FoundFile, known: FileState, before: bytes, done: Shipped
    ) -> None:
        """`before`: the bytes before the offset."""
        file.seek(known.offset)
        stop = min(found.size, known.offset + ROUND_BYTES)
        while known.offset < stop:
            part = file.read(min(CHUNK_BYTES, stop - known.offset))
            if not part:
                return
            end = known.offset + len(part)
            if self._clock() - self._described_at >= _DESCRIBED_SECONDS:
                self._describe(anew=True)
                self._described_at = self._clock()
            key = log_key(self.key, self._who.pod, known.path, (known.generation, found.inode, known.offset, end))  # fmt: skip
            self._store.create(key, gzip.compress(part, _COMPRESSION, mtime=0))
            before = (before + part)[-_MARK_BYTES:]
            known.offset, known.mark = end, _mark(before)
            done.objects += 1
            done.bytes += len(part)
        done.has_more = done.has_more or stop < found.size

    def _forget_missing(self, seen: _Seen, done: Shipped) -> None:
        """Rotation deletes old files. What was not shipped of them is lost: report it."""
        missing = self._state.files.keys() - seen.inodes
        if missing:  # but for those that got another name while the round looked
            missing -= {one.inode for one in self._files(seen)}
        for inode in missing:
            if seen.is_gone(self._state.files[inode].path):
                _report(self._state.files.pop(inode), done)


def _in_utf8(path: str) -> str:
    """The path of a file, with a sign for each byte that is no UTF-8: keys and JSON have no others."""
    return os.fsencode(path).decode(errors="replace")


def _join(directory: str, name: str) -> str:
    return name if directory == "." else f"{directory}/{name}"


def _report(gone: FileState, done: Shipped) -> None:
    """What was not shipped of it is lost."""
    if gone.offset < gone.size:
        done.dropped[gone.path] = done.dropped.get(gone.path, 0) + gone.size - gone.offset


def _before(file: BinaryIO, offset: int) -> bytes:
    start = max(0, offset - _MARK_BYTES)
    file.seek(start)
    return file.read(offset - start)


def _mark(before: bytes) -> str:
    return sha256(before).hexdigest()[:16]


def node_ids(directory: Path) -> list[str]:
    """The ids of the Ray nodes that used this session directory: Ray names its port files by them. Raises OSError."""
    try:
        names = os.listdir(directory)  # noqa: PTH208 - names only
    except (FileNotFoundError, PermissionError):
        return []
    return sorted({found[1] for name in names if (found := _NODE_FILE.fullmatch(name))})


def session_directories(root: Path) -> list[Path]:
    """The sessions below Ray's temporary directory, oldest first; links are left out. Raises OSError."""
    try:
        entries = sorted(os.scandir(root), key=lambda one: one.name)
    except (FileNotFoundError, PermissionError):
        return []
    return [
        Path(one.path)
        for one in entries
        if one.name.startswith("session_") and one.is_dir(follow_symlinks=False)
    ]


def ship_events(store: Store, who: Identity, session: str, file: Path, start: int = 0) -> bool:
    """Ship a file of posted arrays, one a line, from offset `start`. False: it is there already.

    Memory is bounded: a large file becomes several objects. Raises StoreError or InvalidName.
    """
    key = who.session(session)
    fresh = False
    with file.open("rb") as lines:
        lines.seek(start)
        while part := lines.readlines(4 * CHUNK_BYTES):
            name = f"{file.name.removesuffix('.jsonl').rpartition('~')[2]}-{start:012d}"
            packed = gzip.compress(b"".join(part), _COMPRESSION, mtime=0)
            fresh = store.create(event_key(key, who.pod, name), packed) or fresh
            start += sum(map(len, part))
    return fresh


def _load(path: Path) -> ShipState:
    try:
        return msgspec.json.decode(path.read_bytes(), type=ShipState, strict=False)
    except FileNotFoundError:
        return ShipState()
    except msgspec.MsgspecError as error:
        log.warning("%s is unreadable and starts again: %s", path, error)
        return ShipState()


def _save(path: Path, state: ShipState) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_bytes(msgspec.json.encode(state))
    fresh.replace(path)
