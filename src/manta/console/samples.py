"""The numbers of objects that are plotted over time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from manta.console.snapshot import Item, Sample

MAX_SAMPLES: Final = 720
MIN_SAMPLES: Final = 40
ALL_SAMPLES: Final = 40_000
"""Samples of all objects together; each takes 0.2 KiB."""
MAX_OBJECTS: Final = 10_000


def most_samples(objects: int) -> int:
    """The samples of each object, for so many objects: the plots of a large fleet are shorter."""
    return max(MIN_SAMPLES, min(MAX_SAMPLES, ALL_SAMPLES // max(objects, 1)))


class Samples:
    """What objects counted, by UID, oldest first, since the first watch saw them.

    The watches of all visitors share it, so that a plot does not start again with a login or a renewed token. A page shows
    only those of an object that its visitor may see.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Sample, ...]] = {}
        self._versions: dict[str, int] = {}

    def add(self, one: Item, now: datetime) -> None:
        """What this version of the object counts. A version older than the last one is of a slower watch: no news."""
        values, uid = values_of(one), one.uid
        version = _number(one.object.metadata.resource_version)
        if not values or 0 < version <= self._versions.get(uid, 0):
            return
        if uid not in self._kept and len(self._kept) >= MAX_OBJECTS:
            self.forget(next(iter(self._kept)))
        self._versions[uid] = version
        kept = self._kept.get(uid, ())
        if not kept or kept[-1].values != values:
            self._kept[uid] = (*kept[1 - most_samples(len(self._kept)) :], Sample(now, values))

    def forget(self, uid: str) -> None:
        """The object is deleted."""
        self._kept.pop(uid, None)
        self._versions.pop(uid, None)

    def all(self) -> Mapping[str, tuple[Sample, ...]]:
        return dict(self._kept)


def _number(version: str) -> int:
    """0 for a resourceVersion that is no number: it is newer than every other."""
    return int(version) if version.isascii() and version.isdigit() else 0


def values_of(one: Item) -> tuple[float, ...]:
    """Ready and desired workers of a RayCluster; traffic and capacity of both clusters of a RayService."""
    status = one.object.status
    if one.kind == "RayCluster":
        return (
            float(status.get("readyWorkerReplicas") or 0),
            float(status.get("desiredWorkerReplicas") or 0),
        )
    if one.kind == "RayService":
        active, pending = (
            status.get("activeServiceStatus") or {},
            status.get("pendingServiceStatus") or {},
        )
        return (*_shares(active, 100), *_shares(pending, 0))
    return ()


def _shares(side: Mapping[str, Any], default: int) -> tuple[float, float]:
    """Percent of traffic and of capacity; a side without a cluster has none."""
    if not side.get("rayClusterName"):
        return 0.0, 0.0
    traffic, capacity = side.get("trafficRoutedPercent"), side.get("targetCapacity")
    return (
        float(default if traffic is None else traffic),
        float(100 if capacity is None else capacity),
    )
