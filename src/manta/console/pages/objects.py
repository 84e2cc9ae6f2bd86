"""The pages of one RayCluster, RayJob, RayService and RayCronJob. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import quote

from manta.api.meta import Key
from manta.console.html import Html, join, tag
from manta.console.live import NOTHING, Live
from manta.console.pages.actions import Allowed, buttons
from manta.console.pages.clusters import cluster_sections
from manta.console.pages.crons import cron_sections
from manta.console.pages.fleet import item_badge, waits_for
from manta.console.pages.history import KINDS, history_address
from manta.console.pages.jobs import job_sections
from manta.console.pages.page import LIVE_REFRESH_SECONDS, REFRESH_SECONDS, Page, Section
from manta.console.pages.parts import (
    PLURALS,
    SHORT,
    address,
    conditions_section,
    events_section,
    newest,
)
from manta.console.pages.services import service_sections
from manta.console.snapshot import Item, Snapshot

_SECTIONS: Final[Mapping[str, Callable[[Snapshot, Item, Live], Iterator[Section]]]] = {
    "RayCluster": cluster_sections,
    "RayJob": job_sections,
    "RayService": service_sections,
    "RayCronJob": cron_sections,
}


def object_page(snapshot: Snapshot, one: Item, allowed: Allowed, live: Live = NOTHING) -> Page:
    """The page of any Ray object."""
    steps = (
        one.kind == "RayService" and one.state.word == "ready"
    )  # then the step of an upgrade says it
    why = "" if steps else waits_for(one, snapshot.now)
    heading = join([
        tag("h1", one.key.name),
        item_badge(one),
        tag("p", f"{SHORT[one.kind]} in {one.key.namespace}", class_="lead"),
        buttons(one, allowed),
        _kept(one) if live.history and one.kind in KINDS.values() else None,
        tag("p", why, class_="why") if why else None,
    ])  # fmt: skip
    return Page(
        one.key.name,
        heading,
        (
            *_SECTIONS[one.kind](snapshot, one, live),
            conditions_section(one.object.status, snapshot.now),
            _events(snapshot, one),
        ),
        crumbs=_crumbs(snapshot, one),
        refresh=LIVE_REFRESH_SECONDS if live.asks else REFRESH_SECONDS,
    )


def _kept(one: Item) -> Html:
    to = history_address(one.kind, one.key)
    return tag("p", tag("a", "History", href=to), class_="note")


def _crumbs(snapshot: Snapshot, one: Item) -> tuple[tuple[str, str], ...]:
    owner = one.object.metadata.controller
    above = [("Fleet", "/"), (one.key.namespace, f"/?namespace={quote(one.key.namespace)}")]
    if owner is not None and owner.kind in PLURALS:
        key = Key(one.key.namespace, owner.name)
        if snapshot.get(owner.kind, key) is not None:
            above.append((owner.name, address(owner.kind, key)))
    return tuple(above)


def _events(snapshot: Snapshot, one: Item) -> Section:
    found = list(snapshot.events_of(one.kind, one.key))
    if one.kind == "RayCluster":
        for pod in snapshot.pods_of(one.key):
            found += snapshot.events_of("Pod", pod.metadata.key)
    return events_section(newest(found), snapshot.now, hidden=snapshot.hidden.get("events", ""))
