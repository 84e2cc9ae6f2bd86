"""The frame around every page: head, navigation, the place of the stream. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from manta.console.html import Html, join, raw, tag
from manta.console.pages.page import Page

NAVIGATION = (("Fleet", "/"), ("Plan", "/plan"), ("Events", "/events"), ("Operator", "/operator"))
HISTORY = (("History", "/history"),)
_DOCTYPE = raw("<!doctype html>")


@dataclass(frozen=True, slots=True)
class Frame:
    """What is the same on all pages of a user."""

    user: str = ""
    server: str = ""
    style: str = "/static/console.css"
    script: str = "/static/console.js"
    logged_in: bool = True
    logout: bool = True
    """Whether people can log out here."""
    notice: str = ""
    """What has just been done."""
    history: bool = False
    """Whether there is a history server."""
    trouble: str = ""
    """Why the page may be out of date."""


def document(
    page: Page, frame: Frame, path: str, query: str = "", *, seen: str = "", shaped: str = ""
) -> Html:
    """The whole page. `path` and `query` are the address at which it was asked for, `seen` the digest of
    its regions, `shaped` their shape."""
    stream = f"{path}?{query}" if query else path
    body = tag(
        "body",
        tag("a", "Skip to content", href="#main", class_="skip"),
        _bar(frame, path) if frame.logged_in else tag("nav", _brand()),
        tag(
            "main",
            tag("p", frame.notice, class_="notice", role="status") if frame.notice else None,
            _crumbs(page),
            page.body(),
            id="main",
        ),
        tag(
            "div",
            frame.trouble,
            id="connection",
            class_="connection",
            role="status",
            aria_live="polite",
        ),
        data_stream=f"/stream?page={quote(stream, safe='')}"
        if page.live and frame.logged_in
        else None,
        data_seen=seen or None,
        data_shape=shaped or None,
    )
    return join([_DOCTYPE, tag("html", _head(page, frame), body, lang="en")])


def _head(page: Page, frame: Frame) -> Html:
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{page.title} · Manta"),
        tag("link", rel="icon", href="/static/manta.svg", type="image/svg+xml"),
        tag("link", rel="stylesheet", href=frame.style),
        tag("script", src=frame.script, defer=True),
    )


def _bar(frame: Frame, path: str) -> Html:
    links = [
        tag("a", name, href=to, aria_current="page" if to == path else None)
        for name, to in (*NAVIGATION, *(HISTORY if frame.history else ()))
    ]
    leave = None
    if frame.logout:
        button = tag("button", "Log out", class_="quiet")
        leave = tag("form", button, method="post", action="/logout")
    who = tag("span", frame.user, class_="user", title=frame.server)
    return tag(
        "nav", _brand(), tag("div", links, class_="links"), tag("div", who, leave, class_="who")
    )


def _brand() -> Html:
    picture = tag("img", src="/static/manta.svg", alt="", width="22", height="22")
    return tag("a", picture, "Manta", href="/", class_="brand")


def _crumbs(page: Page) -> Html | None:
    if not page.crumbs:
        return None
    links = [tag("li", tag("a", name, href=to)) for name, to in page.crumbs]
    return tag("nav", tag("ol", links), class_="crumbs", aria_label="Where you are")
