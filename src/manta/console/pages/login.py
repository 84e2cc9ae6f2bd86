"""The pages on which people log in. Pure."""

from __future__ import annotations

from manta.console.html import Html, join, tag
from manta.console.pages.messages import small
from manta.console.pages.page import Page


def login_page(body: Html, why: str = "", status: int = 200) -> Page:
    return small("Log in", body, why, status)


def logged_in() -> Page:
    return small("Logged in", tag("p", tag("a", "Continue", href="/")))


def led_on(address: str) -> Page:
    return small("One moment", tag("p", tag("a", "Continue", href=address)))


def by_link() -> Html:
    return tag(
        "p",
        "Open the link that ",
        tag("code", "manta console"),
        " or ",
        tag("code", "manta up"),
        " printed. It works once; run the command again for a new one.",
    )


def token_form() -> Html:
    token = tag(
        "label",
        "Token of Kubernetes",
        tag("input", type="password", name="token", autocomplete="off", required=True),
        tag("small", "such as the output of ", tag("code", "kubectl create token NAME")),
    )
    button = tag("button", "Log in", class_="primary")
    return tag("form", token, _namespaces(), button, method="post", action="/login", class_="stack")


def _namespaces() -> Html:
    return tag(
        "label",
        "Namespaces",
        tag("input", type="text", name="namespaces", autocomplete="off"),
        tag("small", "only if you may not list all of them; separated by commas"),
    )


def issuer_form(issuer: str) -> Html:
    button = tag("button", "Log in", class_="primary")
    words = tag("p", "You log in at ", tag("code", issuer), ".")
    form = tag("form", _namespaces(), button, method="get", action="/login/issuer", class_="stack")
    return join([words, form])


def to_issuer(address: str) -> Page:
    return small("Log in", tag("p", tag("a", "Continue", href=address)))


def logged_out(address: str) -> Page:
    return small("Logged out", tag("p", tag("a", "Continue", href=address)))


def by_proxy() -> Html:
    return tag("p", "A proxy in front of this console logs people in. Use its address.")
