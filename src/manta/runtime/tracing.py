"""Traces by OpenTelemetry, if they are switched on; nothing at all otherwise.

`span` is called everywhere; until `configure` has put a tracer in place it returns one shared object
that does nothing, and no module of OpenTelemetry is imported.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Protocol

Attributes = dict[str, str | int]


class Tracer(Protocol):
    def span(self, name: str, attributes: Attributes) -> AbstractContextManager[object]: ...

    def finished(self, name: str, seconds: float, attributes: Attributes, error: str) -> None:
        """A span of what has just ended, under the one that is open here. `error`: empty if none."""
        ...

    def fail(self, why: str) -> None:
        """Mark the span that is open here as failed."""
        ...

    def trace_id(self) -> str:
        """Of the span that is open here; empty: none is."""
        ...

    def shutdown(self) -> None:
        """Export what is left."""
        ...


_NOTHING: AbstractContextManager[object] = nullcontext()
_last: ContextVar[str] = ContextVar("trace", default="")
_tracer: Tracer | None = None


def use(tracer: Tracer | None) -> None:
    """Switch traces on, or off with None. Call once, from the process's entry."""
    global _tracer  # noqa: PLW0603  one process, one tracer, as with logging
    _tracer = tracer


def span(name: str, **attributes: str | int) -> AbstractContextManager[object]:
    """A span around a block; what the block raises is recorded in it."""
    return _NOTHING if _tracer is None else _tracer.span(name, attributes)


def request(verb: str, resource: str, code: int, seconds: float) -> None:
    """A request to the API server that has ended: an observer of a client."""
    if (
        _tracer is not None and verb != "watch"
    ):  # which lasts for minutes, and outlives any reconcile
        attributes: Attributes = {"k8s.verb": verb, "k8s.resource": resource, "http.status": code}
        error = f"status {code}" if code >= 400 or not code else ""
        _tracer.finished(f"{verb} {resource}", seconds, attributes, error)


def fail(why: str) -> None:
    if _tracer is not None:
        _tracer.fail(why)


def current_trace() -> str:
    """The id of the trace that is open here; empty: none is."""
    return "" if _tracer is None else _tracer.trace_id()


def remember_trace() -> None:
    """Keep the id of this trace for what is measured of it after its end."""
    if _tracer is not None:
        _last.set(_tracer.trace_id())


def last_trace() -> str:
    """The trace that is open here, or else the one that was remembered in this task."""
    return "" if _tracer is None else _tracer.trace_id() or _last.get()


def shutdown() -> None:
    if _tracer is not None:
        _tracer.shutdown()
