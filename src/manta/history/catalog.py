"""The sessions of a store, and their indexes.

An index is built at the first visit and stored beside the segments. Its name has a fingerprint of the
segments, so that a session that grew gets a new one. Local copies are kept in a cache directory.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from manta.history import kuberay
from manta.history.index.schema import VERSION
from manta.history.indexing import SessionInfo, build_index
from manta.history.json_text import read_json
from manta.history.layout import (
    KINDS,
    ROOT,
    InvalidName,
    SessionKey,
    check_dns_name,
    session_of_metadata,
)
from manta.history.segments import Segments, fingerprint
from manta.history.store import Store, StoredObject, StoreError

log = logging.getLogger(__name__)

CACHED_INDEXES: Final = 50


class _Described(msgspec.Struct, frozen=True, rename="camel"):
    """What `session.json` tells that its key does not."""

    cluster: str = ""
    ray_version: str = ""


_decode_info: Final = msgspec.json.Decoder(_Described).decode


class Catalog:
    """Blocking: call it in a thread."""

    def __init__(self, store: Store, cache: Path) -> None:
        self.store = store
        self.cache = cache

    def namespaces(self) -> list[str]:
        return sorted({*self.store.directories(ROOT), *kuberay.namespaces(self.store)})

    def sessions(self, namespace: str, kind: str = "", name: str = "") -> Iterator[SessionKey]:
        """The sessions of a namespace, also those in KubeRay's tree. Raises StoreError."""
        try:
            check_dns_name("namespace", namespace)
            if name:
                check_dns_name("name", name)
        except InvalidName:
            return
        seen: set[SessionKey] = set()
        theirs = kuberay.sessions(self.store, namespace, kind, name)
        for key in (*self._own_sessions(namespace, kind, name), *theirs):
            if key not in seen:
                seen.add(key)
                yield key

    def _own_sessions(self, namespace: str, kind: str, name: str) -> Iterator[SessionKey]:
        base = f"{ROOT}/{namespace}"
        for one_kind in self.store.directories(base):
            if one_kind not in KINDS or kind not in ("", one_kind):
                continue
            for one_name in self.store.directories(f"{base}/{one_kind}"):
                if name not in ("", one_name):
                    continue
                found = self.store.directories(f"{base}/{one_kind}/{one_name}")
                for session in reversed(found):
                    path = f"{base}/{one_kind}/{one_name}/{session}/session.json"
                    key = session_of_metadata(path)
                    if key is not None:
                        yield key

    def info(self, key: SessionKey) -> SessionInfo | None:
        """What ran; None if there is no such session. Raises StoreError."""
        content = self.store.read(key.metadata)
        if content is not None:
            return _described(key, content)
        prefix = kuberay.prefix_of(self.store, key)
        if prefix is None:
            return None
        return SessionInfo(*key, cluster=kuberay.cluster_of(prefix), prefix=prefix)

    def open_index(self, key: SessionKey) -> sqlite3.Connection | None:
        """A read-only connection to the index, built if necessary; None if there is no session."""
        info = self.info(key)
        if info is None:
            return None
        path = self.index_file(info)
        return connect(path if path.exists() else self.make_index(info))

    def index_file(self, info: SessionInfo) -> Path:
        """Where the index of the session as it is now belongs; it may not exist yet. Raises StoreError."""
        return self._local_file(info, fingerprint(self._segments(info)))

    def make_index(self, info: SessionInfo) -> Path:
        """Copy the index from the store, or build it and store it. Raises StoreError."""
        try:
            self.cache.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryDirectory(dir=self.cache, prefix=".building-") as scratch:
                segments = Segments(Path(scratch) / "segments.db", self._segments(info))
                with contextlib.closing(segments):
                    local = self._local_file(info, segments.fingerprint)
                    if not local.exists():
                        self._make(info, segments, Path(scratch) / "index.db").replace(local)
                        self._forget_old(local)
        except (sqlite3.Error, OSError) as error:  # such as a full disk
            raise StoreError(
                f"cannot make the index of {info.key.path} in {self.cache}: {error}"
            ) from error
        return local

    def _make(self, info: SessionInfo, segments: Segments, fresh: Path) -> Path:
        stored = f"{info.key.prefix}/index/{VERSION}-{segments.fingerprint}.db"
        place = info.prefix or info.key.prefix
        if not (self.store.copy_to_file(stored, fresh) and is_index_of(fresh, place)):
            fresh.unlink(missing_ok=True)
            build_index(self.store, info, segments, fresh)
            self._store_index(info, stored, fresh)
        return fresh

    def _store_index(self, info: SessionInfo, stored: str, fresh: Path) -> None:
        """Store it instead of those of fewer segments. Who may only read the store keeps a local copy."""
        try:
            self.store.write_derived(stored, fresh)
            kept = self.store.objects(f"{info.key.prefix}/index")
            self.store.delete([one.key for one in kept if one.key != stored])
        except StoreError as error:
            log.warning("the index of %s is kept on this machine only: %s", info.key.path, error)

    def _segments(self, info: SessionInfo) -> Iterator[StoredObject]:
        own = f"{info.key.prefix}/index/"
        place = info.prefix or info.key.prefix
        return (one for one in self.store.objects(place) if not one.key.startswith(own))

    def _local_file(self, info: SessionInfo, fingerprint: str) -> Path:
        session = hashlib.sha256(info.key.path.encode()).hexdigest()[:16]
        return self.cache / f"{session}-{VERSION}-{fingerprint}.db"

    def _forget_old(self, kept: Path) -> None:
        files = sorted(self.cache.glob("*.db"), key=lambda one: one.stat().st_mtime)
        of_session = [one for one in files if one.name[:16] == kept.name[:16] and one != kept]
        for old in {*of_session, *files[:-CACHED_INDEXES]}:
            with contextlib.suppress(FileNotFoundError):
                old.unlink()


def _described(key: SessionKey, content: bytes) -> SessionInfo:
    """Whose session it is says its key alone: whoever may write below it could name another's."""
    try:
        written = read_json(_decode_info, content)
    except ValueError as error:
        log.warning("%s is damaged, and read without it: %s", key.metadata, error)
        return SessionInfo(*key)
    return SessionInfo(*key, cluster=written.cluster, ray_version=written.ray_version)


class _Connection(sqlite3.Connection):
    """Closed when nobody reads from it any more: a response may outlive the server's use of an index."""

    def __del__(self) -> None:
        self.close()


def connect(path: Path) -> sqlite3.Connection:
    """A read-only connection that several threads may use, with a small cache."""
    connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False, factory=_Connection)  # fmt: skip
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA cache_size=-4096")
    return connection


def is_index_of(path: Path, place: str) -> bool:
    """Whether the file is an index of this version, whose logs are all below `place`, and which is only data.

    Whoever may write to a part of the store could else let the server read another part.
    """
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            [version] = database.execute("PRAGMA user_version").fetchone()
            [code] = database.execute(
                "SELECT count(*) FROM sqlite_master WHERE type IN ('view', 'trigger')"
            ).fetchone()
            [outside] = database.execute(
                "SELECT count(*) FROM logs WHERE substr(key, 1, ?) IS NOT ? OR instr(key, '/../')",
                (len(place) + 1, f"{place}/"),
            ).fetchone()
    except sqlite3.DatabaseError:
        return False
    return bool(version == VERSION and code == outside == 0)
