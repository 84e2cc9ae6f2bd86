"""Plots as inline SVG. Pure: points in, markup out; colours are classes of the style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isnan
from typing import Final

from manta.api.ages import age
from manta.console.html import Html, join, tag
from manta.console.snapshot import Sample

WIDTH: Final = 640
HEIGHT: Final = 150
LEFT: Final = 44
BOTTOM: Final = 20
TOP: Final = 8
LINE_CLASSES: Final = ("one", "two", "three")
ROW: Final = 26
NAMES: Final = 190
"""Pixels of the names beside a timeline."""
SHORTEST: Final = timedelta(seconds=10)
"""The time that a plot shows at least."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    column: int
    """The position in the values of each sample."""


def steps(
    samples: Sequence[Sample], lines: Sequence[Line], now: datetime, highest: float = 0
) -> Html:
    """Values that stay until they change, from the first sample until now, with a legend. The first line is on top."""
    if not samples:
        return tag("p", "nothing to plot yet", class_="note")
    values = (one.values[line.column] for one in samples for line in lines)
    top = max([highest, 1.0, *(one for one in values if not isnan(one))])
    end = max(now, samples[-1].at)
    begin = min(samples[0].at, end - SHORTEST)
    span = (end - begin).total_seconds()

    def x(moment: datetime) -> float:
        return LEFT + (WIDTH - LEFT - 4) * (moment - begin).total_seconds() / span

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (1 - value / top)

    drawn: list[Html] = []
    for look, line in zip(LINE_CLASSES, lines, strict=False):
        runs = [
            tag("polyline", points=" ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in run), class_=look)
            for run in _runs(samples, line.column, end)
        ]  # fmt: skip
        drawn.insert(0, join(runs))  # the first on top
    words = "; ".join(f"{line.name} {_now(samples[-1], line)}" for line in lines)
    axis = tag("line", x1=LEFT, y1=f"{y(0):.1f}", x2=WIDTH - 4, y2=f"{y(0):.1f}", class_="axis")
    labels = (
        tag("text", f"{top:g}", x=LEFT - 6, y=f"{y(top) + 8:.1f}", text_anchor="end"),
        tag("text", "0", x=LEFT - 6, y=f"{y(0):.1f}", text_anchor="end"),
        tag("text", f"{age(begin, end)} ago", x=LEFT, y=HEIGHT - 4),
        tag("text", "now", x=WIDTH - 4, y=HEIGHT - 4, text_anchor="end"),
    )
    picture = tag(
        "svg", axis, labels, drawn, viewBox=f"0 0 {WIDTH} {HEIGHT}", class_="plot", role="img",
        aria_label=f"over time; now {words}",
    )  # fmt: skip
    return join([picture, _legend(lines, samples[-1])])


def _runs(
    samples: Sequence[Sample], column: int, end: datetime
) -> list[list[tuple[datetime, float]]]:
    """The corners of a line, which is interrupted where the value is not a number."""
    runs: list[list[tuple[datetime, float]]] = [[]]
    ends = [*(one.at for one in samples[1:]), end]
    for one, until in zip(samples, ends, strict=True):
        value = one.values[column]
        if not isnan(value):
            runs[-1] += [(one.at, value), (until, value)]
        elif runs[-1]:
            runs.append([])
    return [one for one in runs if one]


def _now(last: Sample, line: Line) -> str:
    value = last.values[line.column]
    return "none" if isnan(value) else f"{value:g}"


def _legend(lines: Sequence[Line], last: Sample) -> Html:
    entries = [
        tag("li", tag("span", class_=f"line {look}"), f"{line.name}: {_now(last, line)}")
        for look, line in zip(LINE_CLASSES, lines, strict=False)
    ]
    return tag("ul", entries, class_="legend")


@dataclass(frozen=True, slots=True)
class Span:
    name: str
    begin: datetime
    end: datetime
    look: str
    """`good`, `wait`, `bad` or `calm`."""
    words: str = ""


def timeline(spans: Sequence[Span]) -> Html:
    """One bar for each span, below each other, on one scale of time."""
    if not spans:
        return tag("p", "it has not started yet", class_="note")
    begin, end = min(one.begin for one in spans), max(one.end for one in spans)
    length = max((end - begin).total_seconds(), 1.0)
    left, wide = NAMES, WIDTH - NAMES - 4

    def x(moment: datetime) -> float:
        return left + wide * (moment - begin).total_seconds() / length

    rows = []
    for at, one in enumerate(spans):
        y = at * ROW
        bar = tag(
            "rect", tag("title", f"{one.name}: {one.words}"), x=f"{x(one.begin):.1f}", y=y + 5, rx=3,
            width=f"{max(x(one.end) - x(one.begin), 3):.1f}", height=ROW - 10, class_=f"bar-{one.look}",
        )  # fmt: skip
        rows.append((tag("text", f"{one.name[:24]}, {one.words}", x=0, y=y + 17), bar))
    low = len(spans) * ROW + 14
    shown = "%H:%M:%S" if begin.date() == end.date() else "%Y-%m-%d %H:%M"
    scale = (
        tag("text", begin.strftime(shown), x=left, y=low),
        tag("text", f"{end.strftime(shown)} UTC", x=WIDTH - 4, y=low, text_anchor="end"),
    )
    words = "; ".join(f"{one.name} {one.words}" for one in spans)
    picture = tag(
        "svg", rows, scale, viewBox=f"0 0 {WIDTH} {low + 6}", class_="plot wide", role="img", aria_label=words,
    )  # fmt: skip
    return tag("div", picture, class_="scroll", tabindex="0", role="region", aria_label="Timeline")
