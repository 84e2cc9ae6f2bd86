"""Which phase of a reconcile is running: for the metric, the condition and the log of a failure.

`with phase(Phase.PLAN): ...` marks a phase. When it raises, the mark stays, so that
`runtime/controller.py` knows which phase failed.
"""

from __future__ import annotations

from contextvars import ContextVar
from enum import StrEnum
from types import TracebackType

from manta.runtime import tracing


class Phase(StrEnum):
    DECODE = "decode"
    """The object does not fit its type."""
    WATCH = "watch"
    """Finding out which objects a change concerns."""
    POLL = "poll"
    """Asking a dashboard, beside the reconciles."""
    OBSERVE = "observe"
    PLAN = "plan"
    APPLY = "apply"
    STATUS = "status"
    EVENTS = "events"
    RECONCILE = "reconcile"
    """Outside of any other phase."""


_current: ContextVar[Phase] = ContextVar("phase", default=Phase.RECONCILE)


def current_phase() -> Phase:
    return _current.get()


def reset_phase() -> None:
    """No phase is running: a new reconcile begins, or an old one is over."""
    _current.set(Phase.RECONCILE)


class phase:  # noqa: N801  reads as a statement: `with phase(Phase.PLAN):`
    """Marks a phase of a reconcile. Phases may be nested; a failure belongs to the innermost."""

    __slots__ = ("_before", "_name", "_span")

    def __init__(self, name: Phase) -> None:
        self._name = name
        self._before = Phase.RECONCILE
        self._span = tracing.span(name)

    def __enter__(self) -> None:
        self._before = _current.get()
        _current.set(self._name)
        self._span.__enter__()

    def __exit__(
        self,
        type_: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._span.__exit__(type_, error, traceback)
        if error is None:
            _current.set(self._before)
