"""What a change would do, as a page shows it before anybody confirms. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from manta.console.html import Html, join, tag

_NUMBER: Final = re.compile(r"\d+\. ")


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a dry run and the planners say."""

    effect: str = ""
    lines: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    """Lines of a diff of the object."""
    digest: str = ""
    """The digest of the change that this is about; its form carries it."""


def forecast_html(forecast: Forecast) -> Html:
    shown = [tag("p", one, class_="problem", role="alert") for one in forecast.problems]
    if forecast.effect:
        shown.append(tag("p", tag("strong", "What the operator would do: "), forecast.effect))
    if forecast.lines:
        shown.append(tag("ul", _steps(forecast.lines), class_="steps"))
    if forecast.changes:
        shown.append(tag("p", tag("strong", "What is written:")))
        lines = [_line(one) for one in forecast.changes]
        shown.append(
            tag("pre", lines, class_="log diff", tabindex="0", role="region", aria_label="Changes")
        )
    return join(shown)


def _steps(lines: Sequence[str]) -> Iterator[Html]:
    """Actions with the same number happen at the same time: they are one step."""
    for number, found in groupby(lines, lambda one: (_NUMBER.match(one) or [""])[0]):
        words = [one.removeprefix(number) for one in found]
        if number:
            yield tag("li", tag("span", number), tag("div", [tag("div", one) for one in words]))
        else:
            yield from (tag("li", one) for one in words)


def _line(text: str) -> Html:
    """A screen reader and a person who sees no colours have the sign at the beginning."""
    name = {"+": "ins", "-": "del"}.get(text[:1], "span")
    return tag(name, f"{text}\n")
