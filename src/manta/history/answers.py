"""Answers of Ray's dashboard while a cluster runs: usage, placement groups, Serve and others that Ray does not export as events.

The latest answer to each URI is a file, written only when the answer changed. The modification time is part of the name of the
object in the store, so that shipping an answer twice changes nothing.
"""

from __future__ import annotations

import contextlib
import gzip
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

import msgspec

from manta.history.layout import InvalidName, answer_key
from manta.history.ship import Identity
from manta.history.store import Store

log = logging.getLogger(__name__)

MAX_ANSWER_BYTES: Final = 8 * 1024 * 1024
VOLATILE: Final = ("nodes", "api/cluster_status", "api/data/datasets")
"""Answers that differ every time: of these, one is shipped every VOLATILE_SECONDS, and the last one."""
VOLATILE_SECONDS: Final = 300.0
POLL_SECONDS: Final = 10.0
"""Pause between two polls of a dashboard, or longer: polling takes at most a twentieth of the time."""
_SESSION: Final = "api/version"
_URIS: Final = (
    "api/v0/cluster_metadata",
    "timezone",
    "nodes?view=summary",
    "api/cluster_status",
    "api/cluster_status?format=1",
    "api/serve/applications/",
    "api/v0/placement_groups?detail=1&limit=10000",
    "api/v0/platform_events",
    "api/v0/runtime_env_redaction",
    "api/train/v2/runs/v1",
)
_JOBS: Final = 20
"""The newest ones, whose datasets are fetched."""
Fetch = Callable[[str], bytes | None]
"""The body that a dashboard answers to a GET of this URI; None if it gives none. May block."""


class Answer(NamedTuple):
    uri: str
    at: int
    """Milliseconds since the epoch."""
    file: Path


class AnswerFiles:
    """`<directory>/<session>/<URI>`, with the URI percent-encoded."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, session: str, uri: str, body: bytes) -> None:
        """Keep an answer that differs from the last one. Raises OSError."""
        place = self._directory / session
        file = place / quote(uri.strip("/"), safe="")
        before = 0
        with contextlib.suppress(FileNotFoundError):
            if file.read_bytes() == body:
                return
            before = file.stat().st_mtime_ns
        place.mkdir(parents=True, exist_ok=True)
        fresh = place / f".{file.name}"
        fresh.write_bytes(body)
        at = max(time.time_ns(), before + 10**6)  # a clock may jump back: the newest answer counts
        os.utime(fresh, ns=(at, at))
        fresh.replace(file)

    def sessions(self) -> list[str]:
        try:
            return sorted(os.listdir(self._directory))  # noqa: PTH208 - names only
        except FileNotFoundError:
            return []

    def answers(self, session: str) -> list[Answer]:
        files = sorted((self._directory / session).glob("[!.]*"))
        return [Answer(unquote(one.name), one.stat().st_mtime_ns // 10**6, one) for one in files]

    def forget(self, session: str) -> None:
        shutil.rmtree(self._directory / session, ignore_errors=True)


def answering_session(fetch: Fetch, who: Identity) -> str:
    """The session whose dashboard answers; "" if none does."""
    return _named_session(fetch(_SESSION), who)


def keep_answers(fetch: Fetch, session: str, files: AnswerFiles) -> None:
    """Fetch every URI once and store the bodies. One that cannot be stored is said, and stops no other."""
    failed: list[str] = []
    for uri in (*_URIS, *_datasets(fetch("api/jobs/"))):
        body = fetch(uri)
        if body is not None and _decoded(body) is not None:
            try:
                files.put(session, uri, body)
            except OSError as error:  # such as a name that is too long, or a full disk
                failed.append(f"{uri:.100}: {error.strerror}")
    if failed:
        log.warning("%d answers of the dashboard are not kept: %s", len(failed), failed[0])


def pause_after(took: float) -> float:
    """Seconds until the next poll."""
    return max(POLL_SECONDS, 19 * took)


def _named_session(body: bytes | None, who: Identity) -> str:
    version = _decoded(body or b"")
    name = version.get("session_name") if isinstance(version, dict) else None
    try:
        return who.session(str(name)).session if name else ""
    except InvalidName as error:
        log.warning("answers of the dashboard are not kept: %s", error)
        return ""


def _datasets(body: bytes | None) -> list[str]:
    jobs = _decoded(body or b"")
    found = [one for one in jobs if isinstance(one, dict)] if isinstance(jobs, list) else []
    found.sort(key=lambda one: str(one.get("start_time") or ""), reverse=True)
    names = [str(one["job_id"]) for one in found if one.get("job_id")]
    return [f"api/data/datasets/{quote(name, safe='')}" for name in names[:_JOBS]]


def _decoded(body: bytes) -> Any:
    """None unless it is JSON."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return None


class AnswerShipper:
    """Ships answers that changed. Blocking."""

    def __init__(
        self, store: Store, who: Identity, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._who = who
        self._clock = clock
        self._shipped: dict[tuple[str, str], tuple[int, float]] = {}
        """The time of the answer, and when it was shipped, by session and URI."""

    def ship(self, files: AnswerFiles, living: str) -> int:
        """Ship what is due; of every session but the `living` one, everything. The number of new objects.

        Once another session lives, the files of a session are removed; without one, its dashboard may answer again.
        Raises StoreError or OSError.
        """
        count = 0
        for session in files.sessions():
            over = session != living
            for one in files.answers(session):
                if self._is_due(session, one, over=over):
                    count += self._create(session, one)
            if living and over:
                files.forget(session)
                self._forget(session)
        return count

    def _is_due(self, session: str, one: Answer, *, over: bool) -> bool:
        at, since = self._shipped.get((session, one.uri), (-1, 0.0))
        if at == one.at:
            return False
        stable = not one.uri.startswith(VOLATILE)
        return over or stable or at < 0 or self._clock() - since >= VOLATILE_SECONDS

    def _create(self, session: str, one: Answer) -> bool:
        key = answer_key(self._who.session(session), one.uri, one.at)
        made = self._store.create(key, gzip.compress(one.file.read_bytes(), 5, mtime=0))
        self._shipped[session, one.uri] = (one.at, self._clock())
        return made

    def _forget(self, session: str) -> None:
        for known in [one for one in self._shipped if one[0] == session]:
            del self._shipped[known]


def ship_all(store: Store, who: Identity, directory: Path) -> int:
    """Ship everything below a directory of answers. Raises StoreError or OSError."""
    return AnswerShipper(store, who).ship(AnswerFiles(directory), living="")


def remove_old(directory: Path, keep: Iterable[str], before: float) -> None:
    """Remove what nobody took: directories that are not kept and did not change since, in seconds since the
    epoch."""
    kept = set(keep)
    with contextlib.suppress(FileNotFoundError):
        for one in os.scandir(directory):
            if one.name not in kept and one.stat().st_mtime < before:
                shutil.rmtree(one.path, ignore_errors=True)
