"""The page of the API's routes. Pure."""

from __future__ import annotations

from manta.console.api.routes import ROUTES
from manta.console.html import join, tag
from manta.console.pages.page import Page, Section, Table


def api_page(document: str) -> Page:
    """`document`: the address of the OpenAPI document."""
    rows = {
        f"route-{number}": tag(
            "tr",
            tag("td", ", ".join(one.methods)),
            tag("td", tag("code", one.path)),
            tag("td", one.summary),
            id=f"route-{number}",
        )
        for number, one in enumerate(ROUTES)
    }
    words = tag(
        "p",
        "The routes of KubeRay's API server. Send a token of Kubernetes as bearer token: it decides what you may do. ",
        tag("a", "OpenAPI document", href=document),
    )
    table = Table("routes", ("Method", "Path", "What"), rows)
    return Page(
        "API", join([tag("h1", "API"), words]), (Section("api", "", table=table),), live=False
    )
