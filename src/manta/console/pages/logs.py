"""The log of a Pod or of a job. Pure."""

from __future__ import annotations

from typing import Final

from manta.console.html import Html, join, tag
from manta.console.pages.page import Page, Section

SHOWN: Final = 500
"""Lines of a log on its page; a download has them all."""


def log_page(title: str, back: tuple[str, str], address: str, text: str, why: str = "") -> Page:
    body: Html = (
        tag("pre", text, class_="log", tabindex="0")
        if text
        else tag("p", why or "the log is empty", class_="note")
    )
    heading = join([
        tag("h1", title),
        tag("p", f"the last {SHOWN} lines", class_="lead") if text else None,
        tag("div", tag("a", "Download", href=f"{address}?download=1", class_="button"), class_="actions"),
    ])  # fmt: skip
    crumbs = (("Fleet", "/"), back)
    follows = f"{address}?follow=1" if text else ""
    return Page(title, heading, (Section("text", "", body),), crumbs, live=False, log=follows)
