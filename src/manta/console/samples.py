"""The numbers of an object that are plotted over time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manta.console.snapshot import Item


def values_of(one: Item) -> tuple[float, ...]:
    """Of a RayCluster: ready and desired workers. Of a RayService: traffic and capacity of both clusters."""
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
