"""The sessions of a store, and their indexes.

An index is built at the first visit and stored beside the segments. Its name has a fingerprint of the
segments, so that a session that grew gets a new one. Local copies are kept in a cache directory.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import logging
import sqlite3
import tempfile
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from manta.history import kuberay
from manta.history.index.builder import IndexBuilder
from manta.history.index.schema import VERSION
from manta.history.index.submissions import read_event_log
from manta.history.layout import (
    KINDS,
    ROOT,
    InvalidName,
    LogChunk,
    SessionKey,
    check_dns_name,
    is_event_key,
    parse_log_key,
    parse_pod_key,
    session_of_metadata,
)
from manta.history.store import Store, StoredObject

log = logging.getLogger(__name__)
CACHED_INDEXES: Final = 50
_MAX_EVENT_LOG: Final = 16 * 1024 * 1024


class SessionInfo(msgspec.Struct, frozen=True, rename="camel"):
    """The content of `session.json`."""

    namespace: str
    kind: str
    name: str
    session: str
    cluster: str = ""
    ray_version: str = ""
    prefix: str = ""
    """Where KubeRay's collector stored it; empty: it is ours."""

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.namespace, self.kind, self.name, self.session)


class Catalog:
    """Blocking: call it in a thread."""

    def __init__(self, store: Store, cache: Path) -> None:
        self.store = store
        self._cache = cache
        self._building: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def namespaces(self) -> list[str]:
        return sorted({*self.store.directories(ROOT), *kuberay.namespaces(self.store)})

    def sessions(self, namespace: str, kind: str = "", name: str = "") -> Iterator[SessionKey]:
        """The sessions of a namespace, also those in KubeRay's tree. Raises StoreError."""
        try:
            check_dns_name("namespace", namespace)
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
            return msgspec.json.decode(content, type=SessionInfo)
        prefix = kuberay.prefix_of(self.store, key)
        if prefix is None:
            return None
        return SessionInfo(*key, cluster=kuberay.cluster_of(prefix), prefix=prefix)

    def open_index(self, key: SessionKey) -> sqlite3.Connection | None:
        """A read-only connection to the index, built if necessary; None if there is no session."""
        info = self.info(key)
        if info is None:
            return None
        with self._lock:
            lock = self._building.setdefault(key.path, threading.Lock())
        with lock:
            path = self._index_file(info)
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)  # fmt: skip
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA cache_size=-8192")
        return connection

    def _index_file(self, info: SessionInfo) -> Path:
        key = info.key
        place = info.prefix or key.prefix
        segments = sorted(one for one in self.store.objects(place) if not _is_index(key, one))
        print_of = hashlib.sha256()
        for one in segments:
            print_of.update(f"{one.key}\0{one.size}\n".encode())
        name = f"{VERSION}-{print_of.hexdigest()[:32]}.db"
        local = self._cache / f"{hashlib.sha256(key.path.encode()).hexdigest()[:16]}-{name}"
        if local.exists():
            return local
        self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=self._cache, prefix=".building-") as scratch:
            fresh = Path(scratch) / "index.db"
            stored = f"{key.prefix}/index/{name}"
            if not (self.store.copy_to_file(stored, fresh) and is_complete(fresh)):
                fresh.unlink(missing_ok=True)
                self._build(info, segments, fresh)
                self.store.write_derived(stored, fresh)
            fresh.replace(local)
        self._forget_old(local)
        return local

    def _forget_old(self, kept: Path) -> None:
        files = sorted(self._cache.glob("*.db"), key=lambda one: one.stat().st_mtime)
        of_session = [one for one in files if one.name[:16] == kept.name[:16] and one != kept]
        for old in {*of_session, *files[:-CACHED_INDEXES]}:
            with contextlib.suppress(FileNotFoundError):
                old.unlink()

    def _build(self, info: SessionInfo, segments: list[StoredObject], path: Path) -> None:
        builder = IndexBuilder(path)
        prefix = info.key.prefix
        try:
            for one in segments:
                if info.prefix:
                    self._add_of_kuberay(builder, info.prefix, one)
                elif is_event_key(prefix, one.key):
                    builder.add_lines(self._lines(one.key))
                elif (chunk := parse_log_key(prefix, one.key)) is not None:
                    builder.add_log(chunk)
                    if chunk.path.startswith(("events/", "export_events/")):
                        self._add_event_log(builder, chunk)
                elif (pod := parse_pod_key(prefix, one.key)) is not None:
                    content = msgspec.json.decode(self.store.read(one.key) or b"{}")
                    builder.add_pod(*pod, str(content.get("role", "")))
            builder.add_fact("session", info.key.session)
            builder.add_fact("ray_version", info.ray_version)
            builder.close()
        except BaseException:
            builder.abort()
            raise

    def _add_of_kuberay(self, builder: IndexBuilder, prefix: str, one: StoredObject) -> None:
        if node := kuberay.node_of(prefix, one.key):
            builder.add_pod(node, node, "")
        if kuberay.is_event_file(prefix, one.key):
            builder.add_lines(self._lines(one.key))
        for chunk in kuberay.log_ranges(prefix, one):
            builder.add_log(chunk)
        if "/logs/events/" in one.key and one.size <= _MAX_EVENT_LOG:
            read_event_log(builder, self._lines(one.key))

    def _add_event_log(self, builder: IndexBuilder, chunk: LogChunk) -> None:
        if chunk.end - chunk.start <= _MAX_EVENT_LOG:
            read_event_log(builder, self._lines(chunk.key))

    def _lines(self, key: str) -> Iterator[bytes]:
        """The lines of a compressed object. A truncated one gives the lines before its end."""
        content = self.store.read(key)
        if content is None:
            return
        try:
            packed = content.startswith(b"\x1f\x8b")
            with gzip.open(io.BytesIO(content)) if packed else io.BytesIO(content) as lines:
                yield from lines
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            log.warning("%s is damaged, its readable part is used: %s", key, error)


def _is_index(key: SessionKey, one: StoredObject) -> bool:
    return one.key.startswith(f"{key.prefix}/index/")


def is_complete(path: Path) -> bool:
    """Whether the file is an index of this version."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            return bool(database.execute("PRAGMA user_version").fetchone()[0] == VERSION)
    except sqlite3.DatabaseError:
        return False
