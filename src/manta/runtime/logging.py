"""Logs as JSON lines (or plain lines for people), each with its object and its round.

The controller opens a round; whatever is logged inside it, at any depth, bears the controller,
the object's key and the round's id, without anyone passing them along.
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


class Round(NamedTuple):
    controller: str
    key: Key
    id: int


_current: ContextVar[Round | None] = ContextVar("round", default=None)
_ids = count(1)


def begin(controller: str, key: Key) -> Token[Round | None]:
    """Open a round in this task; give the token to `end`."""
    return _current.set(Round(controller, key, next(_ids)))


def end(token: Token[Round | None]) -> None:
    _current.reset(token)


def current_round() -> Round | None:
    return _current.get()


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "ts": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if here := current_round():
            fields |= {"controller": here.controller, "object": str(here.key), "round": here.id}
        if trace := current_trace():
            fields["trace_id"] = trace
        if record.exc_info:
            fields["stacktrace"] = self.formatException(record.exc_info)
        return msgspec.json.encode(fields).decode()


class ConsoleFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        here = current_round()
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
    """Set up the root logger. Call once, from the process's entry."""
    handler = logging.StreamHandler(to)
    handler.setFormatter(formatter(encoder))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def add_file(path: str, encoder: Encoder = "json") -> None:
    """Also log to a file; ten files of 500 MB are kept, as KubeRay does."""
    from logging.handlers import RotatingFileHandler

    handler = RotatingFileHandler(path, maxBytes=500 * 1024 * 1024, backupCount=10)
    handler.setFormatter(formatter(encoder))
    logging.getLogger().addHandler(handler)


def _timestamp(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
