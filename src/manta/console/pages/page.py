"""A page as regions that can be sent again by themselves when they change. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from manta.console.html import EMPTY, Child, Html, join, tag

REFRESH_SECONDS: Final = 20.0
"""Seconds: ages grow."""
LIVE_REFRESH_SECONDS: Final = 5.0
"""Interval of pages with answers of dashboards or nodes, which announce no change."""
Regions = Mapping[str, str | Mapping[str, str]]
"""Markup by element id; of a table: markup by id of the row, in order."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose rows are merged one by one."""

    id: str
    columns: tuple[Child, ...]
    rows: Mapping[str, Html] = field(default_factory=dict)
    """By the id of the `<tr>`."""
    empty: str = "nothing here"

    def html(self) -> Html:
        head = tag("thead", tag("tr", [tag("th", one, scope="col") for one in self.columns]))
        body = tag("tbody", self.rows.values(), id=self.id, data_empty=self.empty)
        return tag("div", tag("table", head, body), class_="scroll", tabindex="0")


@dataclass(frozen=True, slots=True)
class Section:
    """One without body and table is not shown: a later message of the stream can fill it."""

    id: str
    title: Child
    body: Html = EMPTY
    table: Table | None = None
    kind: str = ""
    """A class of the style sheet."""
    fixed: Html = EMPTY
    """Below the body; never sent again, so the browser may fill it."""

    def html(self) -> Html:
        title = tag("h2", self.title) if self.title else None
        body = tag("div", self.body, id=self.id)
        table = self.table.html() if self.table else None
        return tag("section", title, body, table, self.fixed, class_=self.kind or None)


@dataclass(frozen=True, slots=True)
class Page:
    title: str
    heading: Html
    """Beside the title: state, actions, links."""
    sections: Sequence[Section] = ()
    crumbs: Sequence[tuple[str, str]] = ()
    """Names and addresses of what is above this page."""
    status: int = 200
    live: bool = True
    """Whether a stream keeps it current."""
    refresh: float = REFRESH_SECONDS
    """Seconds after which a stream computes it again although nothing has changed."""

    def body(self) -> Html:
        heading = tag("header", self.heading, id="heading", class_="heading")
        return join([heading, tag("div", [one.html() for one in self.sections], class_="sections")])

    def regions(self) -> Regions:
        found: dict[str, str | Mapping[str, str]] = {"heading": self.heading}
        for one in self.sections:
            if one.table is not None:
                found[one.table.id] = one.table.rows
            found[one.id] = one.body
        return found
