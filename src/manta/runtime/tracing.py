"""Traces by OpenTelemetry, if enabled.

Until `use` installs a tracer, `span` returns one shared object that does nothing, and no module of
OpenTelemetry is imported.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Protocol

Attributes = dict[str, str | int]


class Tracer(Protocol):
    def span(self, name: str, attributes: Attributes) -> AbstractContextManager[object]: ...

    def finished(self, name: str, seconds: float, attributes: Attributes, error: str) -> None:
        """Record a span that has just ended, as a child of the open one. `error`: empty if none."""
        ...

    def fail(self, why: str) -> None:
        """Mark the open span as failed."""
        ...

    def trace_id(self) -> str:
        """The trace id of the open span; empty if none is open."""
        ...

    def shutdown(self) -> None:
        """Export the remaining spans."""
        ...


_NOTHING: AbstractContextManager[object] = nullcontext()
_last: ContextVar[str] = ContextVar("trace", default="")
_tracer: Tracer | None = None


def use(tracer: Tracer | None) -> None:
    """Enable traces, or disable them with None. Called once, when the process starts."""
    global _tracer  # noqa: PLW0603  one process, one tracer, as with logging
    _tracer = tracer


def span(name: str, **attributes: str | int) -> AbstractContextManager[object]:
    """A span around a block; an exception of the block is recorded in it."""
    return _NOTHING if _tracer is None else _tracer.span(name, attributes)


def request(verb: str, resource: str, code: int, seconds: float) -> None:
    """An observer of a client: record a request to the API server that has ended."""
    if _tracer is not None and verb != "watch":  # a watch outlives any reconcile
        attributes: Attributes = {"k8s.verb": verb, "k8s.resource": resource, "http.status": code}
        error = f"status {code}" if code >= 400 or not code else ""
        _tracer.finished(f"{verb} {resource}", seconds, attributes, error)


def fail(why: str) -> None:
    if _tracer is not None:
        _tracer.fail(why)


def current_trace() -> str:
    """The id of the open trace; empty if none is open."""
    return "" if _tracer is None else _tracer.trace_id()


def remember_trace() -> None:
    """Keep the id of this trace for metrics that are observed after its end."""
    if _tracer is not None:
        _last.set(_tracer.trace_id())


def last_trace() -> str:
    """The id of the open trace, else of the one remembered in this task."""
    return "" if _tracer is None else _tracer.trace_id() or _last.get()


def shutdown() -> None:
    if _tracer is not None:
        _tracer.shutdown()
