"""Logs as JSON lines or plain lines.

Records that are logged during a reconcile have the controller, the object's key and the reconcile's id.
"""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar, Token
from datetime import UTC, datetime
from itertools import count
from typing import Literal, NamedTuple, TextIO

import msgspec

from manta.api.meta import Key
from manta.runtime.tracing import current_trace

Encoder = Literal["json", "console"]


class ReconcileContext(NamedTuple):
    controller: str
    key: Key
    id: int


_current: ContextVar[ReconcileContext | None] = ContextVar("reconcile", default=None)
_ids = count(1)


def begin_reconcile(controller: str, key: Key) -> Token[ReconcileContext | None]:
    """Set the context of the log records of this task. Pass the token to `end_reconcile`."""
    return _current.set(ReconcileContext(controller, key, next(_ids)))


def end_reconcile(token: Token[ReconcileContext | None]) -> None:
    _current.reset(token)


def current_reconcile() -> ReconcileContext | None:
    return _current.get()


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "ts": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if here := current_reconcile():
            fields |= {
                "controller": here.controller,
                "object": str(here.key),
                "reconcile_id": here.id,
            }
        if trace := current_trace():
            fields["trace_id"] = trace
        if record.exc_info:
            fields["stacktrace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()


class ConsoleFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        here = current_reconcile()
        where = f" {here.controller} {here.key} #{here.id}" if here else ""
        line = f"{_timestamp(record)} {record.levelname:<7}{where} {record.getMessage()}"
        if record.exc_info:
            line += f"\n{self.formatException(record.exc_info)}"
        return line


def formatter(encoder: Encoder) -> logging.Formatter:
    return JsonFormatter() if encoder == "json" else ConsoleFormatter()


def configure(
    encoder: Encoder = "json", level: int = logging.INFO, to: TextIO = sys.stderr
) -> None:
    """Set up the root logger. Called once, when the process starts."""
    handler = logging.StreamHandler(to)
    handler.setFormatter(formatter(encoder))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def add_file(path: str, encoder: Encoder = "json") -> None:
    """Also log to a file. Keeps ten files of 500 MB, as KubeRay does."""
    from logging.handlers import RotatingFileHandler

    handler = RotatingFileHandler(path, maxBytes=500 * 1024 * 1024, backupCount=10)
    handler.setFormatter(formatter(encoder))
    logging.getLogger().addHandler(handler)


def _timestamp(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
