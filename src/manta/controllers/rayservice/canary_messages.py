"""What the condition UpgradeInProgress says about a canary: its step, its shares, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.quantity import Quantity
from manta.api.ray.cluster import RayClusterSpec, WorkerGroupSpec
from manta.api.ray.service import RayServiceStatuses
from manta.controllers.rayservice.facts.canary import pods_behind_service, progress, worker_groups
from manta.controllers.rayservice.facts.canary_end import waits_for
from manta.controllers.rayservice.facts.clusters import is_rolling_back
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.rules.canary import Group, share
from manta.rules.scaling import hosts, pod_resources, total_gpus


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
    """What the new cluster needs beside `maxSurge`, which counts the workers of each group; empty if nothing."""
    wanted, active = snapshot.spec.ray_cluster_config, snapshot.active
    count = total_gpus(pod_resources(wanted.head_group_spec.template))
    head = f"the new head needs {_gpus(count)} beside maxSurge, which counts workers"
    said = [head] if count else []
    said += _uncounted_groups(active.cluster.spec, wanted) if active is not None else ()
    return "; ".join(said)


def _uncounted_groups(old: RayClusterSpec, new: RayClusterSpec) -> Iterator[str]:
    known = {one.group_name: _of_replica(one) for one in old.worker_group_specs}
    for group in new.worker_group_specs:
        name, count = group.group_name, _of_replica(group)
        if group.suspend or not count:
            continue
        if name not in known:
            yield (
                f"group {name} is new, or has a new name: its GPUs are beside maxSurge, which counts"
                " the workers of each group by its name"
            )
        elif count > known[name]:
            yield f"a replica of group {name} needs {_gpus(count)} instead of {known[name]}: maxSurge counts workers"


def _of_replica(group: WorkerGroupSpec) -> Quantity:
    return total_gpus(pod_resources(group.template)) * hosts(group)


def _gpus(count: Quantity) -> str:
    return "1 GPU" if str(count) == "1" else f"{count} GPUs"
