"""The page of a RayService. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from manta.api.meta import Key
from manta.api.ray.service import RayService
from manta.client.upgrade_state import WORDS, Stage, view_of
from manta.console.html import Html, join, tag
from manta.console.live import Live
from manta.console.pages.page import Section, Table
from manta.console.pages.parts import badge, facts, link, since
from manta.console.plots import Line, steps
from manta.console.snapshot import Item, Snapshot


def service_sections(snapshot: Snapshot, one: Item, _live: Live) -> Iterator[Section]:
    status = one.object.status
    sides = [
        (role, status.get(field) or {})
        for role, field in (("active", "activeServiceStatus"), ("pending", "pendingServiceStatus"))
    ]
    shown = [
        (f"{role.capitalize()} cluster", _side(snapshot, one.key.namespace, side))
        for role, side in sides
        if side.get("rayClusterName")
    ]
    yield Section("facts", "", facts((
        *shown,
        ("Endpoints", str(status.get("numServeEndpoints", 0))),
        ("Upgrade", (one.object.spec.get("upgradeStrategy") or {}).get("type") or "NewCluster"),
        ("Created", since(one.object.metadata.creation_timestamp, snapshot.now)),
    )))  # fmt: skip
    yield Section("step", "", _step(one))
    samples = snapshot.samples.get(one.uid, ())
    traffic = (Line("active, % of traffic", 0), Line("pending, % of traffic", 2))
    yield Section(
        "traffic", "Traffic over time", steps(samples, traffic, snapshot.now, 100), kind="half"
    )
    capacity = (Line("active, % of capacity", 1), Line("pending, % of capacity", 3))
    yield Section(
        "capacity", "Capacity over time", steps(samples, capacity, snapshot.now, 100), kind="half"
    )
    rows = dict(row for role, side in sides for row in _applications(role, side))
    columns = ("Application", "Deployment", "State", "Ray says")
    yield Section(
        "applications-section",
        "Applications",
        table=Table("applications", columns, rows, "Serve has reported none yet"),
    )


def _side(snapshot: Snapshot, namespace: str, side: Mapping[str, Any]) -> Html:
    key = Key(namespace, str(side["rayClusterName"]))
    name = link("RayCluster", key) if snapshot.get("RayCluster", key) else join(key.name)
    traffic, capacity = side.get("trafficRoutedPercent"), side.get("targetCapacity")
    shares = [
        f"{words} {value} %"
        for words, value in (("traffic", traffic), ("capacity", capacity))
        if value is not None
    ]
    return join([name, f" ({', '.join(shares)})" if shares else ""])


def _applications(role: str, side: Mapping[str, Any]) -> Iterator[tuple[str, Html]]:
    for name, found in (side.get("applicationStatuses") or {}).items():
        parts = [("", found), *(found.get("serveDeploymentStatuses") or {}).items()]
        for deployment, state in parts:
            row = "/".join(("app", role, quote(name, safe=""), quote(deployment, safe="")))
            word = str(state.get("status", ""))
            look = {"RUNNING": "good", "HEALTHY": "good"}.get(
                word, "bad" if "FAIL" in word or "UNHEALTHY" in word else "wait"
            )
            yield (
                row,
                tag(
                    "tr",
                    tag(
                        "td",
                        name if not deployment else "",
                        f" ({role})" if not deployment else None,
                        class_="name",
                    ),
                    tag("td", deployment),
                    tag("td", badge(word.lower(), look)),
                    tag("td", state.get("message", ""), class_="words"),
                    id=row,
                ),
            )


def _step(one: Item) -> Html:
    """Where an upgrade is, and the step that it waits for."""
    try:
        view = view_of(msgspec.convert(one.object.document(), RayService))
    except msgspec.ValidationError as error:
        return tag("p", f"The status cannot be read: {error}", class_="problem")
    look = {Stage.FAILED: "bad", Stage.COMPLETE: "good"}.get(view.stage, "wait")
    before = " " if view.stage is Stage.FAILED else " waits for: "
    waits = join([before, view.waits_for]) if view.waits_for else None
    return tag("p", badge(WORDS[view.stage], look), waits, class_="step")
