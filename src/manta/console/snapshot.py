"""What the pages show: one frozen state of the cluster, as one user may see it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Any

from manta.api.core import Node
from manta.api.meta import Key
from manta.api.ray.names import LABEL_CLUSTER, LABEL_CRON_JOB_NAME
from manta.client.object_state import State, state_of
from manta.console.capacity import Amount, offered, requested
from manta.console.views import Event, Pod, RayObject

STALE = "may be out of date"
"""In the words about a kind whose watch fails."""
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Item:
    """A Ray object with its state in a word and a sentence."""

    kind: str
    object: RayObject
    state: State
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What pages computed of this version of the object: tabs share it."""

    @property
    def key(self) -> Key:
        return self.object.metadata.key

    @property
    def uid(self) -> str:
        return self.object.metadata.uid


def item(kind: str, one: RayObject) -> Item:
    return Item(kind, one, state_of(kind, one.document()))


@dataclass(frozen=True, slots=True)
class Sample:
    """What an object counted at a moment, for plots."""

    at: datetime
    values: tuple[float, ...]


@dataclass(frozen=True)
class Snapshot:
    now: datetime
    items: tuple[Item, ...] = ()
    pods: tuple[Pod, ...] = ()
    nodes: tuple[Node, ...] = ()
    events: tuple[Event, ...] = ()
    hidden: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    """What this user cannot see, by plural, each with the reason."""
    user: str = ""
    server: str = ""
    samples: Mapping[str, tuple[Sample, ...]] = field(default_factory=dict)
    """The samples of each object since the console started, by UID, oldest first."""

    @cached_property
    def by_key(self) -> Mapping[tuple[str, Key], Item]:
        return {(one.kind, one.key): one for one in self.items}

    @cached_property
    def pods_by_cluster(self) -> Mapping[Key, tuple[Pod, ...]]:
        found: dict[Key, list[Pod]] = {}
        for pod in self.pods:
            name = pod.metadata.labels.get(LABEL_CLUSTER, "")
            if name:
                found.setdefault(Key(pod.metadata.namespace, name), []).append(pod)
        return {key: tuple(pods) for key, pods in found.items()}

    @cached_property
    def events_by_object(self) -> Mapping[tuple[str, Key], tuple[Event, ...]]:
        """Newest first."""
        found: dict[tuple[str, Key], list[Event]] = {}
        for one in sorted(self.events, key=lambda event: event.last_seen, reverse=True):
            about = one.involved_object
            found.setdefault((about.kind, Key(about.namespace, about.name)), []).append(one)
        return {key: tuple(events) for key, events in found.items()}

    @cached_property
    def requested(self) -> Amount:
        """By Ray's Pods on nodes that take Pods: what the others have is not offered either."""
        left_out = {"", *(one.metadata.name for one in self.nodes if one.spec.unschedulable)}
        return requested(
            pod
            for pods in self.pods_by_cluster.values()
            for pod in pods
            if pod.spec.node_name not in left_out
        )

    @cached_property
    def offered(self) -> Amount:
        return offered(self.nodes)

    def get(self, kind: str, key: Key) -> Item | None:
        return self.by_key.get((kind, key))

    def pods_of(self, cluster: Key) -> tuple[Pod, ...]:
        return self.pods_by_cluster.get(cluster, ())

    def events_of(self, kind: str, key: Key) -> tuple[Event, ...]:
        return self.events_by_object.get((kind, key), ())

    def owned(self, owner: Item, kind: str) -> tuple[Item, ...]:
        """The objects of a kind that this object created, newest first."""
        found = [
            one
            for one in self.items
            if one.kind == kind and one.key.namespace == owner.key.namespace and _owns(owner, one)
        ]
        return tuple(sorted(found, key=lambda one: one.object.metadata.creation_timestamp)[::-1])


def _owns(owner: Item, one: Item) -> bool:
    meta = one.object.metadata
    if meta.is_controlled_by(owner.uid):
        return True
    named = meta.labels.get(LABEL_CRON_JOB_NAME)
    return owner.kind == "RayCronJob" and named == owner.key.name
