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

    def query(self, **more: str) -> str:
        wanted = {"container": self.chosen, **more}
        return urlencode([pair for pair in wanted.items() if pair[1]])

    def links(self, address: str) -> Html | None:
        if len(self.names) < 2:
            return None
        shown = self.chosen or self.names[0]
        return tag(
            "p",
            [
                tag("a", name, href=f"{address}?{Containers((), name).query()}", aria_current="true" if name == shown else None)
                for name in self.names
            ],
            class_="paging",
        )  # fmt: skip


def growing_log(address: str, text: str = "") -> Html:
    """The script replaces the text with what this address streams; without text it is hidden until there is some."""
    return tag(
        "pre", text, class_="log", tabindex="0", data_follow=address, hidden=not text,
        role="region", aria_label="Log",
    )  # fmt: skip


def log_page(
    title: str,
    back: tuple[str, str],
    address: str,
    text: str,
    why: str = "",
    containers: Containers = Containers(),  # noqa: B008  frozen
) -> Page:
    follow = f"{address}?{containers.query(follow='1')}"
    body: Html = (
        growing_log(follow, text) if text else tag("p", why or "the log is empty", class_="note")
    )
    heading = join([
        tag("h1", title),
        tag("p", f"the last {SHOWN} lines", class_="lead") if text else None,
        tag("div", tag("a", "Download", href=f"{address}?{containers.query(download='1')}", class_="button"), class_="actions"),
        containers.links(address),
    ])  # fmt: skip
    crumbs = (("Fleet", "/"), back)
    return Page(title, heading, (Section("text", "", body, kind="whole"),), crumbs, live=False)
