"""How many Pods a spec requests, and their total resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from manta.api.core import Pod
from manta.api.quantity import ZERO, Quantity
from manta.api.ray.cluster import RayClusterSpec, WorkerGroupSpec
from manta.api.ray.names import RESOURCE_GOOGLE_TPU
from manta.rules.accelerators import is_gpu_key

MAX_INT32: Final = 2**31 - 1

Amounts = Mapping[str, Quantity]


def min_replicas(group: WorkerGroupSpec) -> int:
    return group.min_replicas if group.min_replicas is not None else 0


def max_replicas(group: WorkerGroupSpec) -> int:
    return group.max_replicas if group.max_replicas is not None else MAX_INT32


def desired_replicas(group: WorkerGroupSpec) -> int:
    """`replicas`, limited to min and max; an absent value means min."""
    if group.suspend:
        return 0
    wanted = group.replicas if group.replicas is not None else min_replicas(group)
    return min(max(wanted, min_replicas(group)), max_replicas(group))


def desired_pods(group: WorkerGroupSpec) -> int:
    return desired_replicas(group) * hosts(group)


def hosts(group: WorkerGroupSpec) -> int:
    return max(group.num_of_hosts, 0)


def desired_workers(spec: RayClusterSpec) -> int:
    return sum(desired_pods(group) for group in spec.worker_group_specs)


def min_workers(spec: RayClusterSpec) -> int:
    return _capped(min_replicas(one) * hosts(one) for one in _active(spec))


def max_workers(spec: RayClusterSpec) -> int:
    return _capped(max_replicas(one) * hosts(one) for one in _active(spec))


def _capped(numbers: Iterable[int]) -> int:
    """The status fields are 32 bits wide."""
    return min(sum(numbers), MAX_INT32)


def _active(spec: RayClusterSpec) -> Iterable[WorkerGroupSpec]:
    return (group for group in spec.worker_group_specs if not group.suspend)


# ── resources ────────────────────────────────────────────────────────────────────────────


def pod_resources(template: Mapping[str, Any]) -> dict[str, Quantity]:
    """Resources of one Pod: requests, else limits."""
    total: dict[str, Quantity] = {}
    for container in (template.get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, text in wanted.items():
            total[name] = total.get(name, ZERO) + (Quantity.parse_or_none(text) or ZERO)
    return total


def scheduled_resources(pods: Iterable[Pod]) -> dict[str, Quantity]:
    """What Pods of a server ask for: requests, else limits."""
    total: dict[str, Quantity] = {}
    for pod in pods:
        for container in pod.spec.containers:
            wanted = {**container.resources.limits, **container.resources.requests}
            amounts = {name: Quantity.parse(text) for name, text in wanted.items()}
            total = sum_resources(total, amounts)
    return total


def desired_resources(spec: RayClusterSpec) -> dict[str, Quantity]:
    """Head and all workers. As in KubeRay, `replicas` is not limited to min and max."""
    total = pod_resources(spec.head_group_spec.template)
    for group in _active(spec):
        count = (group.replicas or 0) * hosts(group)
        for name, amount in pod_resources(group.template).items():
            total[name] = total.get(name, ZERO) + amount * count
    return total


def gang_members(spec: RayClusterSpec) -> int:
    """How many Pods are scheduled together, without those that the autoscaler adds later."""
    workers = min_workers(spec) if spec.enable_in_tree_autoscaling else desired_workers(spec)
    return workers + 1


def gang_resources(spec: RayClusterSpec) -> dict[str, Quantity]:
    """Total resources of the gang's members."""
    total = pod_resources(spec.head_group_spec.template)
    for group in _active(spec):
        least = min_replicas(group) * hosts(group)
        count = least if spec.enable_in_tree_autoscaling else desired_pods(group)
        one = pod_resources(group.template)
        total = sum_resources(
            total, {name: amount * count for name, amount in one.items() if count}
        )
    return total


def sum_resources(amounts: Amounts, others: Amounts) -> dict[str, Quantity]:
    return {
        name: amounts.get(name, ZERO) + others.get(name, ZERO) for name in {**amounts, **others}
    }


def total_gpus(amounts: Amounts) -> Quantity:
    return sum((amount for name, amount in amounts.items() if is_gpu_key(name)), ZERO)


def total_tpus(amounts: Amounts) -> Quantity:
    return amounts.get(RESOURCE_GOOGLE_TPU, ZERO)
