"""The log of a Pod or of a job. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from manta.console.html import Html, join, tag
from manta.console.pages.page import Page, Section

SHOWN: Final = 500
"""Lines of a log on its page; a download has them all."""


@dataclass(frozen=True, slots=True)
class Containers:
    """The containers of a Pod: a log belongs to one of them."""

    names: tuple[str, ...] = ()
    chosen: str = ""
    restarted: frozenset[str] = frozenset()
    previous: bool = False
    """The log is that before the last restart."""

    @property
    def shown(self) -> str:
        return self.chosen or next(iter(self.names), "")

    def query(self, **more: str) -> str:
        wanted = {"container": self.chosen, "previous": "1" if self.previous else "", **more}
        return urlencode([pair for pair in wanted.items() if pair[1]])

    def links(self, address: str) -> Html | None:
        """To the other containers, and to the log before a restart."""
        wanted = (
            [(name, Containers(chosen=name)) for name in self.names] if len(self.names) > 1 else []
        )
        here = Containers(chosen=self.shown, previous=self.previous)
        if self.shown in self.restarted:
            before = Containers(chosen=self.shown, previous=True)
            wanted.append((f"{self.shown} before its last restart", before))
            if len(self.names) == 1:
                wanted.insert(0, (self.shown, Containers(chosen=self.shown)))
        shown = [
            tag(
                "a",
                words,
                href=f"{address}?{to.query()}",
                aria_current="true" if to == here else None,
            )
            for words, to in wanted
        ]
        return tag("p", shown, class_="paging") if shown else None


def growing_log(address: str, text: str = "") -> Html:
    """The script replaces the text with what this address streams; without text it is hidden until there is some."""
    return still_log(text, data_follow=address, hidden=not text)


def still_log(text: str, **more: str | bool) -> Html:
    return tag("pre", text, class_="log", tabindex="0", role="region", aria_label="Log", **more)


def log_page(
    title: str,
    back: tuple[str, str],
    address: str,
    text: str,
    why: str = "",
    containers: Containers = Containers(),  # noqa: B008  frozen
) -> Page:
    follow = f"{address}?{containers.query(follow='1')}"
    body: Html = tag("p", why or "the log is empty", class_="note")
    if text:
        body = still_log(text) if containers.previous else growing_log(follow, text)
    heading = join([
        tag("h1", title),
        tag("p", f"the last {SHOWN} lines", class_="lead") if text else None,
        tag("div", tag("a", "Download", href=f"{address}?{containers.query(download='1')}", class_="button"), class_="actions"),
        containers.links(address),
    ])  # fmt: skip
    crumbs = (("Fleet", "/"), back)
    return Page(title, heading, (Section("text", "", body, kind="whole"),), crumbs, live=False)
