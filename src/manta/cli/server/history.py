"""What the verbs of history share: the store of a command, and the session that a user means."""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from manta.api.meta import Key
from manta.api.ray.names import ENV_HISTORY_STORE
from manta.api.usage import UsageError
from manta.cli.plane.history import recorded_url
from manta.cli.server.connection import add_connection_flags, namespace_of, plane_directories
from manta.kube.errors import MantaError

if TYPE_CHECKING:
    from manta.history.catalog import Catalog
    from manta.history.layout import SessionKey
    from manta.history.logs import LogReader
    from manta.history.task_logs import LogRange

_KINDS = {"cluster": "raycluster", "job": "rayjob", "service": "rayservice"}


class HistoryError(MantaError):
    """The store cannot be read."""


def add_store_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        default="",
        metavar="URL",
        help=f"file://, s3://, gs:// or az:// (default: ${ENV_HISTORY_STORE}, else the store of the plane)",
    )
    add_connection_flags(parser, namespace=True)


def store_url(args: argparse.Namespace) -> str:
    """The store of the flags, the environment or the plane. Empty if none is configured."""
    named: str = getattr(args, "store", "") or os.environ.get(ENV_HISTORY_STORE, "")
    if named:
        return named
    return next(filter(None, map(recorded_url, plane_directories(args))), "")


@contextmanager
def open_catalog(args: argparse.Namespace) -> Iterator[Catalog]:
    """Raises UsageError if no store is configured, HistoryError if it does not answer."""
    from manta.history.catalog import Catalog
    from manta.history.store import StoreError, open_store

    url = store_url(args)
    if not url:
        raise UsageError(
            f"no history store: start the plane with `manta up --history`, or set --store URL or {ENV_HISTORY_STORE}"
        )
    cache = Path.home() / ".cache" / "manta" / "history"
    try:
        yield Catalog(open_store(url, os.environ), cache)
    except StoreError as error:
        raise HistoryError(str(error)) from error
    except sqlite3.DatabaseError as error:
        raise HistoryError(f"an index in {cache} cannot be read: {error}") from error


def kind_and_name(target: str) -> tuple[str, str]:
    """The kind and name in `KIND` or `KIND/NAME`; empty ones mean all. Raises UsageError."""
    from manta.history.layout import KINDS

    word, _, name = target.strip("/").partition("/")
    kind = _kind(word)
    if kind and kind not in KINDS:
        raise UsageError(f"{target}: write KIND or KIND/NAME, with one of {', '.join(KINDS)}")
    return kind, name


def _kind(word: str) -> str:
    return _KINDS.get(word.lower().rstrip("s"), word.lower().rstrip("s"))


def find_session(catalog: Catalog, args: argparse.Namespace, target: str) -> SessionKey:
    """The session of `KIND/NAME[/SESSION]`, `NAME` or a whole path; the newest by default.

    Raises UsageError.
    """
    from manta.history.layout import InvalidName, SessionKey

    parts = target.strip("/").split("/")
    namespace = namespace_of(args)
    if len(parts) == 4:
        namespace, *parts = parts
    kind = _kind(parts[0]) if len(parts) > 1 else ""
    name = parts[1] if len(parts) > 1 else parts[0]
    if len(parts) == 3:
        try:
            return SessionKey(namespace, kind, name, parts[2]).checked()
        except InvalidName as error:
            raise UsageError(str(error)) from error
    if len(parts) > 3:
        raise UsageError(f"{target}: write KIND/NAME or KIND/NAME/SESSION, such as rayjob/train")
    found = sorted(catalog.sessions(namespace, kind, name), key=lambda one: one.session)
    if not found:
        raise UsageError(
            f"no history of {target} in namespace {namespace}: see `manta history list -A`"
        )
    return found[-1]


def print_kept_log(args: argparse.Namespace, key: Key) -> bool:
    """Print the log of the driver of a RayJob whose own log is gone. False if there is none.

    The newest session that has one: a head that was killed may have started again just before the end.
    """
    from manta.history.logs import LogReader
    from manta.history.task_logs import LogRequest, NoLog, find_log

    with open_catalog(args) as catalog:
        sessions = sorted(
            catalog.sessions(key.namespace, "rayjob", key.name), key=lambda one: one.session
        )
        found: tuple[LogReader, LogRange] | None = None
        session = ""
        for one in reversed(sessions):
            database = catalog.open_index(one)
            if database is None:
                continue
            reader = LogReader(catalog.store, database)
            with suppress(NoLog):
                found = reader, find_log(database, reader, LogRequest())
                session = one.session
                break
        if found is None:
            return False
        words = f"rayjob/{key.name} has no log any more: this is from its history, {session}"
        print(words, file=sys.stderr)
        _write(*found, args.tail)
    return True


def _write(reader: LogReader, log: LogRange, tail: int | None) -> None:
    if tail is not None:
        sys.stdout.buffer.write(reader.tail(log.pod, log.path, tail))
    else:
        for part in reader.read(log.pod, log.path):
            sys.stdout.buffer.write(part)
    sys.stdout.flush()
