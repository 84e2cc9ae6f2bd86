"""What a wait shows while it waits: a line that changes in a notebook, lines on request elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from html import escape
from typing import Any, Protocol

Report = Callable[[str], None]
Progress = bool | Report | None
"""None: in a notebook only; True: also lines on stderr elsewhere; or a function that gets each line."""


class _Display(Protocol):
    def update(self, shown: Any) -> None: ...


def reporter(progress: Progress) -> Report:
    """The function that shows each line."""
    if callable(progress):
        return progress
    if progress is not False and _in_notebook():
        return _NotebookLine()
    return _to_stderr if progress else _discard


def _discard(_: str) -> None:
    """Shows nothing."""


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201  # the caller asked for it


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this program. Imports nothing that is not there already."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")


class _NotebookLine:
    """One output of the cell, updated in place."""

    def __init__(self) -> None:
        self._shown: _Display | None = None

    def __call__(self, line: str) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found,unused-ignore]

        shown = HTML(f"<code>{escape(line)}</code>")
        if self._shown is None:
            self._shown = display(shown, display_id=True)
        else:
            self._shown.update(shown)
