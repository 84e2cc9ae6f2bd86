"""The newest Events of all Ray objects that the user may see. Pure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from manta.api.meta import Key
from manta.api.ray.names import LABEL_CLUSTER
from manta.console.html import Child, join, tag
from manta.console.pages.page import Page
from manta.console.pages.parts import events_section, involved, link, newest
from manta.console.snapshot import Snapshot
from manta.console.views import Event, names_above

MAX_EVENTS = 200


def events_page(snapshot: Snapshot, *, warnings: bool) -> Page:
    """The Events of Ray objects, of their Pods, and of operators."""
    known = {pod.metadata.key for pod in snapshot.pods}
    clusters_known = {one.key for one in snapshot.items if one.kind == "RayCluster"}
    shown = [
        one
        for one in snapshot.events
        if (not warnings or one.type == "Warning") and _is_of_ray(one, known, clusters_known)
    ]
    other = (
        tag("a", "all", href="/events")
        if warnings
        else tag("a", "only warnings", href="/events?type=Warning")
    )
    heading = join(
        [tag("h1", "Events"), tag("p", f"{len(shown)}, newest first; ", other, class_="lead")]
    )
    hidden, last = snapshot.hidden.get("events", ""), newest(shown, MAX_EVENTS)
    clusters = _clusters_of(snapshot, last)

    def named(one: Event) -> Child:
        about = one.involved_object
        key = Key(about.namespace, about.name)
        kind, where = ("RayCluster", clusters[key]) if key in clusters else (about.kind, key)
        there = snapshot.get(kind, where) is not None
        return [
            link(kind, where, involved(one)) if there else involved(one),
            tag("small", about.namespace),
        ]

    section = events_section(last, snapshot.now, hidden=hidden, title="", named=named)
    return Page("Events", heading, (section,))


def _is_of_ray(event: Event, pods: AbstractSet[Key], clusters: AbstractSet[Key]) -> bool:
    """A Pod that is gone counts by its name, which begins with that of its cluster."""
    about = event.involved_object
    if about.kind != "Pod" or Key(about.namespace, about.name) in pods:
        return True
    return any(Key(about.namespace, name) in clusters for name in names_above(about.name))


def _clusters_of(snapshot: Snapshot, events: list[Event]) -> dict[Key, Key]:
    """The RayCluster of each Pod that these Events are about."""
    wanted = {
        Key(one.involved_object.namespace, one.involved_object.name)
        for one in events
        if one.involved_object.kind == "Pod"
    }
    return {
        pod.metadata.key: Key(pod.metadata.namespace, name)
        for pod in snapshot.pods
        if (name := pod.metadata.labels.get(LABEL_CLUSTER)) and pod.metadata.key in wanted
    }
