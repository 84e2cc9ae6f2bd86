"""Backup and restore of a plane: its objects and its keys in one file.

The file is a tar archive with `manifest.json` (checksums of the other files), `store.db` and `pki/...`.
The plane may run during a backup: SQLite copies a consistent state.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import sqlite3
import tarfile
import tempfile
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

import msgspec

from manta.kube.errors import MantaError
from manta.localplane.store.database import check, open_database, read_facts, refuse_lost
from manta.localplane.store.headfile import HeadFile, head_path

FORMAT = 1
STORE = "store.db"
_MANIFEST = "manifest.json"
_MAX_FILE_BYTES = 16 * 1024**3
_MAX_MANIFEST_BYTES = 1024**2
_STATE = (STORE, f"{STORE}-wal", f"{STORE}-shm", "store.head", "pki", "memory-only")
"""The files that a restore replaces."""


class BackupError(MantaError):
    """A backup or restore failed. The message says why and what to do."""


class Manifest(msgspec.Struct, frozen=True):
    format: int
    version: str
    created: str
    revision: int
    objects: int
    files: dict[str, str]
    """SHA-256 of every member."""


# ── backup ───────────────────────────────────────────────────────────────────────────────
def make_backup(directory: Path, target: Path, *, version: str, now: datetime) -> Manifest:
    """Write the state of a plane to a file in one step, with mode 0600. Raises BackupError."""
    if not (directory / STORE).exists():
        raise BackupError(f"{directory}: there is no plane's state here; name its directory: --dir")
    if not target.parent.is_dir():
        raise BackupError(f"{target.parent}: no such directory; make it first")
    with tempfile.TemporaryDirectory(prefix=".manta-backup-", dir=target.parent) as work:
        copy = Path(work) / STORE
        revision, objects = _copy_store(directory / STORE, copy)
        members = {STORE: copy} | _keys(directory)
        manifest = Manifest(
            FORMAT,
            version,
            now.isoformat(),
            revision,
            objects,
            {name: _digest(path) for name, path in members.items()},
        )
        archive = Path(work) / "archive"
        _write_archive(archive, manifest, members)
        archive.replace(target)
    _sync(target.parent)
    return manifest


def _copy_store(source: Path, copy: Path) -> tuple[int, int]:
    """Copy and check the store: a damaged one must not replace an older, good backup."""
    refuse_lost(source)
    copy.touch(mode=0o600)
    with (
        closing(sqlite3.connect(f"file:{source}?mode=rw", uri=True)) as running,
        closing(sqlite3.connect(copy)) as fresh,
    ):
        try:
            running.backup(fresh)
            fresh.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.DatabaseError as error:
            raise BackupError(f"{source}: cannot be read: {error}") from error
    return _check_store(copy)


def _check_store(path: Path) -> tuple[int, int]:
    """Return revision and number of objects. Raises JournalError if the store is damaged."""
    with closing(open_database(path, durable=False)) as database:
        check(database, path)
        facts = read_facts(database)
        database.execute("PRAGMA journal_mode = DELETE")  # one file again
    return facts.get("revision", 0), facts.get("objects", 0)


def _keys(directory: Path) -> dict[str, Path]:
    files = sorted((directory / "pki").glob("*"))
    return {f"pki/{path.name}": path for path in files if path.is_file()}


def _write_archive(path: Path, manifest: Manifest, members: dict[str, Path]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        with tarfile.open(fileobj=file, mode="w") as archive:
            text = msgspec.json.encode(manifest)
            head = tarfile.TarInfo(_MANIFEST)
            head.size, head.mode = len(text), 0o600
            archive.addfile(head, io.BytesIO(text))
            for name, source in members.items():
                info = tarfile.TarInfo(name)
                info.size, info.mode = source.stat().st_size, 0o600
                with source.open("rb") as content:
                    archive.addfile(info, content)
        file.flush()
        os.fsync(file.fileno())


# ── restore ──────────────────────────────────────────────────────────────────────────────
@dataclass(frozen=True, slots=True)
class Restored:
    manifest: Manifest
    replaced: Path | None
    """The directory with the previous state."""


def restore_backup(source: Path, directory: Path, *, replace: bool, now: datetime) -> Restored:
    """Check the backup, then replace the state of the directory. Raises BackupError before any change.

    The plane of the directory must not run: callers hold its lock.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    existing = [directory / name for name in _STATE if (directory / name).exists()]
    if existing and not replace:
        raise BackupError(
            f"{directory} holds the state of a plane already: give --replace-state to put it aside,"
            " or another directory: --dir"
        )
    work = Path(tempfile.mkdtemp(prefix=".restore-", dir=directory))
    try:
        manifest = _unpack(source, work)
        _adopt(work / STORE, manifest)
        aside = _put_aside(existing, directory, now)
        for path in sorted(work.iterdir()):
            path.replace(directory / path.name)
        _sync(directory)
    finally:
        shutil.rmtree(work)
    return Restored(manifest, aside)


def _unpack(source: Path, work: Path) -> Manifest:
    """Extract only the files that the manifest lists. Raises BackupError."""
    try:
        with tarfile.open(source, mode="r:") as archive:
            manifest = _read_manifest(source, archive)
            (work / "pki").mkdir(mode=0o700)
            for name, digest in manifest.files.items():
                _unpack_one(source, archive, work, name, digest)
            return manifest
    except (OSError, tarfile.TarError, EOFError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BackupError(f"{source}: cannot be read as a backup: {reason}") from error


def _read_manifest(source: Path, archive: tarfile.TarFile) -> Manifest:
    first = archive.next()
    if first is None or first.name != _MANIFEST or first.size > _MAX_MANIFEST_BYTES:
        raise BackupError(f"{source}: is not a file that `manta backup` has made")
    content = archive.extractfile(first)
    text = content.read() if content is not None else b""
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except msgspec.MsgspecError as error:
        raise BackupError(f"{source}: its manifest cannot be read: {error}") from error
    if manifest.format != FORMAT:
        raise BackupError(
            f"{source}: was made in format {manifest.format} by manta {manifest.version}; this version"
            f" reads {FORMAT}"
        )
    if STORE not in manifest.files:
        raise BackupError(f"{source}: holds no {STORE}")
    return manifest


def _unpack_one(source: Path, archive: tarfile.TarFile, work: Path, name: str, digest: str) -> None:
    parts = PurePosixPath(name).parts
    is_key = len(parts) == 2 and parts[0] == "pki" and parts[1] not in ("..", ".")
    if name != STORE and not is_key:
        raise BackupError(f"{source}: names a file {name!r}, which is not part of a plane's state")
    try:
        member = archive.getmember(name)
    except KeyError:
        raise BackupError(f"{source}: {name} is missing in it") from None
    content = archive.extractfile(member) if member.isreg() else None
    if content is None or member.size > _MAX_FILE_BYTES:
        raise BackupError(f"{source}: {name} is not a plain file of a reasonable size")
    target = work / name
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file)
        file.flush()
        os.fsync(file.fileno())
    if _digest(target) != digest:
        raise BackupError(f"{source}: {name} is damaged: it does not match its checksum")


def _adopt(store: Path, manifest: Manifest) -> None:
    """Check the store, and write a head file for its revision."""
    revision, _ = _check_store(store)
    if revision != manifest.revision:
        raise BackupError(f"{store}: ends at revision {revision}, not at {manifest.revision}")
    with closing(sqlite3.connect(store)) as database:
        identity = read_facts(database)["store"]
    head = HeadFile(store, identity)
    head.write(revision, clean=True)
    head.close()
    assert head_path(store).exists()


def _put_aside(existing: list[Path], directory: Path, now: datetime) -> Path | None:
    if not existing:
        return None
    aside = Path(
        tempfile.mkdtemp(prefix=f"replaced-{now.strftime('%Y%m%d-%H%M%S')}-", dir=directory)
    )
    for path in existing:
        path.replace(aside / path.name)
    return aside


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
