"""The page of kept sessions: clusters that are gone, and what they ran. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from manta.api.meta import Key
from manta.console.history import Kept, KeptSessions
from manta.console.html import Html, join, tag
from manta.console.pages.page import Page, Section, Table
from manta.console.pages.parts import SHORT, link
from manta.console.snapshot import Snapshot

KINDS: Final[Mapping[str, str]] = {
    "raycluster": "RayCluster",
    "rayjob": "RayJob",
    "rayservice": "RayService",
}
FILTERS: Final = ("namespace", "kind", "name")


def history_address(kind: str, key: Key) -> str:
    """The kept sessions of one object."""
    query = {"namespace": key.namespace, "kind": kind.lower(), "name": key.name}
    return f"/history?{urlencode(query)}"


def history_page(
    snapshot: Snapshot, found: KeptSessions, chosen: Mapping[str, str], why: str = ""
) -> Page:
    said = tag("p", why, class_="problem", role="alert") if why else None
    lead = tag(
        "p", "Logs, tasks and errors of clusters, also of those that are gone", class_="lead"
    )
    newest = sorted(found.sessions, key=lambda one: one.session, reverse=True)
    rows = {f"session-{number}": _row(snapshot, one, number) for number, one in enumerate(newest)}
    columns = ("Kind", "Name", "Namespace", "Began", "Session")
    empty = "nothing to show" if why else "nothing is kept that you may read"
    sections = [
        Section("filter", "", _form(chosen), kind="plain"),
        Section("sessions-section", "", table=Table("sessions", columns, rows, empty)),
    ]
    if found.more:
        words = "There are more: choose a namespace, a kind or a name."
        sections.append(Section("more", "", tag("p", words, class_="note")))
    return Page("History", join([tag("h1", "History"), lead, said]), tuple(sections), live=False)


def _row(snapshot: Snapshot, one: Kept, number: int) -> Html:
    kind, key = KINDS.get(one.kind, ""), Key(one.namespace, one.name)
    there = bool(kind) and snapshot.get(kind, key) is not None
    to = f"/history/open?{urlencode({'session': one.path})}"
    return tag(
        "tr",
        tag("td", SHORT.get(kind, one.kind)),
        tag("td", link(kind, key) if there else one.name, class_="name"),
        tag("td", one.namespace),
        tag("td", began(one.session), class_="nowrap"),
        tag("td", tag("a", "open", href=to, target="_blank", aria_label=f"open {one.path}")),
        id=f"session-{number}",
    )


def began(session: str) -> str:
    """Ray's names have the time of the start: `session_2026-11-18_01-51-39_771206_28616`."""
    parts = session.split("_")
    return f"{parts[1]} {parts[2].replace('-', ':')}" if len(parts) > 2 else session


def _form(chosen: Mapping[str, str]) -> Html:
    fields = [
        tag("input", name=name, value=chosen.get(name, ""), placeholder=name, aria_label=name)
        for name in FILTERS
    ]
    return tag(
        "form", fields, tag("button", "Show"), method="get", action="/history", class_="filter"
    )
