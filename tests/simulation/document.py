"""The tables of docs/internals/simulation.md, from the tables of the code: `python -m tests.simulation --document`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from simulation.actions import ACTIONS
from simulation.oracles import AT_THE_END, ORACLES
from simulation.systematic import WORKLOADS

PAGE = Path(__file__).parents[2] / "docs/internals/simulation.md"


def _line(text: str | None) -> str:
    return " ".join((text or "").split())


def _oracles() -> Iterator[str]:
    yield "| Oracle | What it says |"
    yield "|---|---|"
    for one in ORACLES:
        yield f"| `{one.name}` | {_line(one.__doc__)} |"
    for name, text in AT_THE_END:
        yield f"| `{name}` | {text} |"


def _actions() -> Iterator[str]:
    yield "| Area | Step | What happens |"
    yield "|---|---|---|"
    for name, one in sorted(ACTIONS.items(), key=lambda each: (each[1].area, each[0])):
        yield f"| {one.area} | `{name}` | {_line(one.text)} |"


def _workloads() -> Iterator[str]:
    for number, name in enumerate(WORKLOADS, start=1):
        yield f"{number}. {name}"


TABLES = {"oracles": _oracles, "actions": _actions, "workloads": _workloads}


def rendered(page: str) -> str:
    """The page with its generated parts as the code has them now."""
    for name, lines in TABLES.items():
        block = "\n".join(lines())
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        assert pattern.search(page), f"the page has no part {begin}"
        page = pattern.sub(partial(_replaced, f"{begin}\n\n{block}\n\n{end}"), page)
    return page


def _replaced(text: str, _match: object) -> str:
    return text


def write() -> None:
    PAGE.write_text(rendered(PAGE.read_text()))
