"""Pages that only say something: errors, what was done. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from manta.api.meta import Key
from manta.console.html import Html, join, tag
from manta.console.pages.page import Page, Section
from manta.console.pages.parts import KINDS, address

DONE: Final[Mapping[str, str]] = {
    "suspend": "Suspended; the object stays.",
    "resume": "Resumed.",
    "scale": "Scaled.",
    "delete": "Deleted.",
    "stop": "Ray stops the job; Retry starts a new one.",
    "apply": "Applied.",
    "retry": "This is the new job.",
    "upgrade": "The upgrade begins.",
    "rollback": "Rolled back: the pending cluster is given up.",
}


def notice(word: str) -> str:
    """What a finished action says; empty for an unknown word, which an address may hold."""
    return DONE.get(word, "")


def missing(what: str) -> Page:
    """It is live: an object may appear, after a restart of the console too."""
    words = tag("p", f"{what} does not exist, or you may not see it.")
    return small("Not found", join([words, _back()]), status=404, live=True)


def refused(why: str, status: int = 403) -> Page:
    return small("Refused", _back(), why, status)


def failed(why: str, status: int = 502, path: str = "") -> Page:
    """`path`: of the request; the page of an action leads back to its object."""
    return small("This did not work", _back(path), why, status)


def _back(path: str = "") -> Html:
    plural, *parts = path.strip("/").split("/")
    if plural in KINDS and len(parts) == 3:
        key = Key(parts[0], parts[1])
        return tag("p", tag("a", f"Back to {key}", href=address(KINDS[plural], key)))
    return tag("p", tag("a", "Back to the fleet", href="/"))


def small(title: str, body: Html, why: str = "", status: int = 200, *, live: bool = False) -> Page:
    said = tag("p", why, class_="problem", role="alert") if why else None
    return Page(
        title,
        tag("h1", title),
        (Section("message", "", join([said, body]), kind="message"),),
        status=status,
        live=live,
    )
