"""The newest Events of everything that the user may see. Pure."""

from __future__ import annotations

from manta.console.html import join, tag
from manta.console.pages.page import Page
from manta.console.pages.parts import events_section
from manta.console.snapshot import Snapshot

MAX_EVENTS = 200


def events_page(snapshot: Snapshot, *, warnings: bool) -> Page:
    shown = [one for one in snapshot.events if not warnings or one.type == "Warning"]
    other = (
        tag("a", "all", href="/events")
        if warnings
        else tag("a", "only warnings", href="/events?type=Warning")
    )
    heading = join(
        [tag("h1", "Events"), tag("p", f"{len(shown)}, newest first; ", other, class_="lead")]
    )
    hidden = snapshot.hidden.get("events", "")
    return Page(
        "Events", heading, (events_section(shown, snapshot.now, hidden=hidden, most=MAX_EVENTS),)
    )
