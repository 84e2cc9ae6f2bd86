"""What the condition UpgradeInProgress says about a canary: its step, its shares, and what it waits for."""

from __future__ import annotations

from manta.api.ray.service import RayServiceStatuses
from manta.controllers.rayservice.facts.canary import pods_behind_service, progress, worker_groups
from manta.controllers.rayservice.facts.canary_end import waits_for
from manta.controllers.rayservice.facts.clusters import is_rolling_back
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.rules.canary import Group, share
from manta.rules.scaling import pod_resources, total_gpus


def canary_message(snapshot: ServiceSnapshot, status: RayServiceStatuses) -> str:
    new = status.pending_service_status.ray_cluster_name
    if snapshot.pending is None:
        return f"RayCluster {new} is about to be created"
    if snapshot.active is None:
        return f"RayCluster {new} will serve as soon as it can"
    if is_rolling_back(snapshot):
        return f"all requests go to RayCluster {snapshot.active_name}; RayCluster {new} is deleted later"
    now, groups = progress(snapshot), worker_groups(snapshot)
    step = f"step {now.number} of {now.of} ({now.weight} %)"
    text = f"{step}: {_shares(snapshot, groups)}; {waits_for(snapshot, now, groups)}"
    extra = uncounted_gpus(snapshot)
    return f"{text}; {extra}" if extra else text


def rejected_message(snapshot: ServiceSnapshot, why: str) -> str:
    """For a service whose canary was rolled back: it keeps the old cluster."""
    again = (
        f"edit the spec, or try again with `manta upgrade resume {snapshot.service.metadata.name}`"
    )
    return f"the canary of this spec was rolled back: {why}; {again}"


def _shares(snapshot: ServiceSnapshot, groups: tuple[Group, ...]) -> str:
    old, new = pods_behind_service(snapshot)
    workers = ", ".join(
        f"{one.name} {one.new} new of {one.full_new} and {one.old} old of {one.full_old}"
        for one in groups
    )
    behind = f"{new} of {old + new} Pods that take requests are new ({share(old, new)} %)"
    return f"{behind}; workers: {workers}" if workers else behind


def uncounted_gpus(snapshot: ServiceSnapshot) -> str:
    """What the new cluster needs beside `maxSurge`, which counts workers: a head has its own GPUs."""
    count = total_gpus(pod_resources(snapshot.spec.ray_cluster_config.head_group_spec.template))
    if not count:
        return ""
    gpus = "1 GPU" if str(count) == "1" else f"{count} GPUs"
    return f"the new head needs {gpus} beside maxSurge, which counts workers"
