"""Builds the index of a session from its stored segments, one after the other."""

from __future__ import annotations

import gzip
import io
import logging
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from manta.history import kuberay
from manta.history.index.builder import IndexBuilder
from manta.history.index.submissions import read_event_log
from manta.history.json_text import read_json
from manta.history.layout import (
    SessionKey,
    is_event_key,
    parse_answer_key,
    parse_log_key,
    parse_pod_key,
)
from manta.history.logs import read_chunk
from manta.history.segments import EventLogLines
from manta.history.store import Store, StoredObject

log = logging.getLogger(__name__)
_MAX_EVENT_LOG_BYTES: Final = 16 * 1024 * 1024
_MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""A post has at most 32 MiB. What is longer is read in parts, which are no events."""
_MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
_MAX_ANSWER_LINES: Final = 100_000


class _PodRecord(msgspec.Struct, frozen=True):
    role: str = ""


_decode_pod: Final = msgspec.json.Decoder(_PodRecord).decode


class SessionInfo(msgspec.Struct, frozen=True, rename="camel"):
    """What ran."""

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


def build_index(
    store: Store, info: SessionInfo, segments: Iterable[StoredObject], path: Path
) -> None:
    """Create the index file. `segments` come in the order of their keys. Blocking. Raises StoreError."""
    builder = IndexBuilder(path)
    event_logs = EventLogLines()
    answers: dict[str, list[tuple[int, str]]] = {}
    try:
        for one in segments:
            if info.prefix:
                _add_of_kuberay(store, builder, info.prefix, one, path.with_name("object"))
            elif (answer := parse_answer_key(info.key.prefix, one.key)) is not None:
                answers.setdefault(answer[0], []).append((answer[1], one.key))
            else:
                _add_segment(store, builder, event_logs, info.key.prefix, one.key)
        read_event_log(builder, event_logs.end())
        for uri, versions in answers.items():
            _add_newest_answer(store, builder, uri, versions)
        builder.add_fact("session", info.session)
        builder.add_fact("ray_version", info.ray_version)
        builder.close()
    except BaseException:
        builder.abort()
        raise


def _add_segment(
    store: Store, builder: IndexBuilder, event_logs: EventLogLines, prefix: str, key: str
) -> None:
    if is_event_key(prefix, key):
        builder.add_lines(_lines(store, key))
    elif (chunk := parse_log_key(prefix, key)) is not None:
        builder.add_log(chunk)
        if chunk.path.startswith(("events/", "export_events/")):
            content = read_chunk(store, chunk.key, chunk.end - chunk.start)
            read_event_log(builder, event_logs.add(chunk, content))
    elif (pod := parse_pod_key(prefix, key)) is not None:
        role = ""
        with builder.skipping():
            role = read_json(_decode_pod, store.read(key) or b"{}").role
        builder.add_pod(*pod, role)


def _add_of_kuberay(
    store: Store, builder: IndexBuilder, prefix: str, one: StoredObject, scratch: Path
) -> None:
    """`scratch`: a file that may be used, as KubeRay's files of events may have any size."""
    if node := kuberay.node_of(prefix, one.key):
        builder.add_pod(node, node, "")
    if (uri := kuberay.answered_uri(prefix, one.key)) and one.size <= _MAX_ANSWER_BYTES:
        _add_answer(store, builder, one.key, uri, int(one.modified * 1000))
    if kuberay.is_event_file(prefix, one.key) and store.copy_to_file(one.key, scratch):
        with scratch.open("rb") as events:
            builder.add_lines(_unpacked(events, one.key))
    for chunk in kuberay.log_ranges(prefix, one):
        builder.add_log(chunk)
    if "/logs/events/" in one.key and one.size <= _MAX_EVENT_LOG_BYTES:
        read_event_log(builder, _lines(store, one.key))


def _add_newest_answer(
    store: Store, builder: IndexBuilder, uri: str, versions: list[tuple[int, str]]
) -> None:
    """The newest answer that can be read: a long session has thousands of them."""
    for at, key in sorted(versions, reverse=True):
        if _add_answer(store, builder, key, uri, at):
            return


def _add_answer(store: Store, builder: IndexBuilder, key: str, uri: str, at: int) -> bool:
    """Whether it could be read."""
    body = b"".join(islice(_lines(store, key), _MAX_ANSWER_LINES))
    try:
        if len(body) > _MAX_ANSWER_BYTES:
            return False
        builder.add_answer(uri, at, body)
    except (ValueError, OverflowError) as error:  # the time in its name may be any number
        log.warning("%s is not an answer of a dashboard and is left out: %s", key, error)
        return False
    return True


def _lines(store: Store, key: str) -> Iterator[bytes]:
    """The lines of an object."""
    return _unpacked(io.BytesIO(store.read(key) or b""), key)


def _unpacked(content: BinaryIO, key: str) -> Iterator[bytes]:
    """The lines, also of what is compressed. What is truncated gives the lines before its end."""
    packed = content.read(2) == b"\x1f\x8b"
    content.seek(0)
    try:
        lines = gzip.GzipFile(fileobj=content) if packed else content
        yield from iter(lambda: lines.readline(_MAX_LINE_BYTES), b"")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        log.warning("%s is damaged, its readable part is used: %s", key, error)
