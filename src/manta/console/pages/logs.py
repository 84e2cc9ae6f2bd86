"""The page with the log of a Pod or of a RayJob. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from manta.console.html import Html, join, tag
from manta.console.pages.page import Page, Section

SHOWN_LINES: Final = 500
"""A page shows the last lines of a log; a download has all of them."""


@dataclass(frozen=True, slots=True)
class ContainerChoice:
    """The containers of a Pod, and of which one the page shows the log. Without names for a RayJob."""

    names: tuple[str, ...] = ()
    requested: str = ""
    """Empty: the address names no container of the Pod. The page shows the first one."""
    restarted: frozenset[str] = frozenset()
    previous: bool = False
    """Show the log that the container wrote before its last restart."""

    @property
    def shown(self) -> str:
        return self.requested or next(iter(self.names), "")

    def query_string(self, **more: str) -> str:
        wanted = {"container": self.requested, "previous": "1" if self.previous else "", **more}
        return urlencode([pair for pair in wanted.items() if pair[1]])

    def links(self, address: str) -> Html | None:
        """Links to the log of each container, and to the one before a restart; None if there is only one log."""
        wanted = (
            [(name, ContainerChoice(requested=name)) for name in self.names]
            if len(self.names) > 1
            else []
        )
        here = ContainerChoice(requested=self.shown, previous=self.previous)
        if self.shown in self.restarted:
            before = ContainerChoice(requested=self.shown, previous=True)
            wanted.append((f"{self.shown} before its last restart", before))
            if len(self.names) == 1:
                wanted.insert(0, (self.shown, ContainerChoice(requested=self.shown)))
        shown = [
            tag(
                "a",
                words,
                href=f"{address}?{to.query_string()}",
                aria_current="true" if to == here else None,
            )
            for words, to in wanted
        ]
        return tag("p", shown, class_="paging") if shown else None


def streaming_log(address: str, text: str = "") -> Html:
    """An element whose text `console.js` replaces with the stream of this address. Hidden as long as it is empty."""
    return static_log(text, data_follow=address, hidden=not text)


def static_log(text: str, **more: str | bool) -> Html:
    return tag("pre", text, class_="log", tabindex="0", role="region", aria_label="Log", **more)


def log_page(
    title: str,
    back: tuple[str, str],
    address: str,
    text: str,
    why_empty: str = "",
    containers: ContainerChoice = ContainerChoice(),  # noqa: B008  frozen
) -> Page:
    """The page of a log. `back`: text and address of the breadcrumb above it. `why_empty`: shown if `text` is empty."""
    follow = f"{address}?{containers.query_string(follow='1')}"
    body: Html = tag("p", why_empty or "the log is empty", class_="note")
    if text:
        body = static_log(text) if containers.previous else streaming_log(follow, text)
    heading = join([
        tag("h1", title),
        tag("p", f"the last {SHOWN_LINES} lines", class_="lead") if text else None,
        tag("div", tag("a", "Download", href=f"{address}?{containers.query_string(download='1')}", class_="button"), class_="actions"),
        containers.links(address),
    ])  # fmt: skip
    crumbs = (("Fleet", "/"), back)
    return Page(title, heading, (Section("text", "", body, kind="whole"),), crumbs, live=False)
