"""Pages that only say something: login, errors, what was done. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from manta.console.html import Html, join, tag
from manta.console.pages.page import Page, Section

DONE: Final[Mapping[str, str]] = {
    "suspend": "Suspended: its Pods are being deleted, the object stays.",
    "resume": "Resumed: its Pods are being created again.",
    "scale": "Scaled.",
    "delete": "Deleted.",
    "stop": "Stopped: the job and its cluster are being deleted; Resume starts it from the beginning.",
    "apply": "Applied.",
    "retry": "This is the new job.",
    "upgrade": "The upgrade begins.",
    "rollback": "Rolled back: the pending cluster is given up.",
}


def notice(word: str) -> str:
    """What a finished action says; empty for an unknown word, which an address may hold."""
    return DONE.get(word, "")


def login(*, pasted: bool, why: str = "", status: int = 200) -> Page:
    return _small("Log in", _login_form() if pasted else _by_link(), why, status)


def _by_link() -> Html:
    return tag(
        "p",
        "Open the link that ",
        tag("code", "manta console"),
        " or ",
        tag("code", "manta up"),
        " printed. It works once; run the command again for a new one.",
    )


def _login_form() -> Html:
    token = tag(
        "label",
        "Token of Kubernetes",
        tag("input", type="password", name="token", autocomplete="off", required=True),
        tag("small", "such as the output of ", tag("code", "kubectl create token NAME")),
    )
    spaces = tag(
        "label",
        "Namespaces",
        tag("input", type="text", name="namespaces", autocomplete="off"),
        tag("small", "only if you may not list all of them; separated by commas"),
    )
    return tag(
        "form",
        token,
        spaces,
        tag("button", "Log in"),
        method="post",
        action="/login",
        class_="stack",
    )


def logged_in() -> Page:
    return _small("Logged in", tag("p", tag("a", "Continue", href="/")))


def missing(what: str) -> Page:
    words = tag("p", f"{what} does not exist, or you may not see it.")
    return _small("Not found", join([words, _back()]), status=404)


def refused(why: str, status: int = 403) -> Page:
    return _small("Refused", _back(), why, status)


def failed(why: str, status: int = 502) -> Page:
    return _small("This did not work", _back(), why, status)


def _back() -> Html:
    return tag("p", tag("a", "Back to the fleet", href="/"))


def _small(title: str, body: Html, why: str = "", status: int = 200) -> Page:
    said = tag("p", why, class_="problem", role="alert") if why else None
    return Page(
        title,
        tag("h1", title),
        (Section("message", "", join([said, body]), kind="message"),),
        status=status,
        live=False,
    )
