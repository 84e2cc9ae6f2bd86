"""The sizes of a cluster during a canary: how many workers it has now, and how many it gets at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from manta.api.numbers import parse_count
from manta.api.ray.cluster import RayClusterSpec, WorkerGroupSpec
from manta.api.ray.names import ANNOTATION_FULL_SIZE
from manta.manifests.containers import Json
from manta.rules.scaling import desired_replicas
from manta.rules.traits import autoscaling


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a worker group without a canary."""

    replicas: int
    min_replicas: int | None = None
    max_replicas: int | None = None


Sizes = Mapping[str, Size]


def sizes_of(spec: RayClusterSpec, like: Sizes | None = None) -> dict[str, Size]:
    """The size of each group. With an autoscaler, a new group begins as large as the same one of `like`."""
    return {
        group.group_name: Size(_replicas(spec, group, like), group.min_replicas, group.max_replicas)
        for group in spec.worker_group_specs
    }


def _replicas(spec: RayClusterSpec, group: WorkerGroupSpec, like: Sizes | None) -> int:
    chosen = desired_replicas(group)
    if like is None or not autoscaling(spec) or group.suspend:
        return chosen
    wanted = max(chosen, like.get(group.group_name, Size(0)).replicas, 1)
    return wanted if group.max_replicas is None else min(wanted, group.max_replicas)


def sizes_text(sizes: Sizes) -> str:
    """For the annotation; `recorded_sizes` reads it."""
    return ",".join(
        f"{name}={one.replicas}/{_text(one.min_replicas)}/{_text(one.max_replicas)}"
        for name, one in sizes.items()
    )


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def recorded_sizes(annotations: Mapping[str, str]) -> dict[str, Size] | None:
    """The sizes that the cluster gets at the end of the canary; None: it takes part in none."""
    text = annotations.get(ANNOTATION_FULL_SIZE)
    if text is None:
        return None
    pairs = (one.partition("=") for one in text.split(",") if one)
    return {name: _size(numbers) for name, _, numbers in pairs}


def _size(text: str) -> Size:
    numbers = [parse_count(one) for one in text.split("/")]
    numbers += [None] * (3 - len(numbers))
    return Size(numbers[0] or 0, numbers[1], numbers[2])


def resize(manifest: Json, sizes: Sizes, counts: Mapping[str, int]) -> Json:
    """The manifest of a new cluster, with so many replicas of each group for the time being."""
    manifest["metadata"]["annotations"][ANNOTATION_FULL_SIZE] = sizes_text(sizes)
    scales = bool(manifest["spec"].get("enableInTreeAutoscaling"))
    for group in manifest["spec"].get("workerGroupSpecs") or ():
        name = group["groupName"]
        group.update(bounds(sizes[name], counts.get(name, 0), scales=scales))
    return manifest


def bounds(size: Size, count: int, *, scales: bool, least: int | None = None) -> dict[str, Any]:
    """The fields of a group that has so many replicas for the time being. An autoscaler may go down to `least`."""
    lowest = count if least is None else least
    found = {"replicas": count, "minReplicas": min(size.min_replicas or 0, lowest)}
    return {**found, "maxReplicas": count} if scales else found


def full_bounds(size: Size, *, scales: bool) -> dict[str, Any]:
    """The fields of a group at its full size. With an autoscaler, `replicas` are the autoscaler's."""
    found = {"minReplicas": size.min_replicas, "maxReplicas": size.max_replicas}
    found |= {} if scales else {"replicas": size.replicas}
    return {field: value for field, value in found.items() if value is not None}


def resize_operations(
    spec: RayClusterSpec,
    fields: Mapping[str, Mapping[str, Any]],
    leaving: Mapping[str, Iterable[str]],
) -> list[dict[str, Any]]:
    """A JSON patch of these fields of each group, with the Pods that leave it."""
    return [
        {"op": "add", "path": f"/spec/workerGroupSpecs/{at}/{field}", "value": value}
        for at, group in enumerate(spec.worker_group_specs)
        for field, value in {
            **fields.get(group.group_name, {}),
            **_leaving(tuple(leaving.get(group.group_name, ()))),
        }.items()
    ]


def _leaving(pods: tuple[str, ...]) -> dict[str, Any]:
    return {"scaleStrategy": {"workersToDelete": list(pods)}} if pods else {}
