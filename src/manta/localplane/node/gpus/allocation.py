"""Which GPUs each container of a Pod gets. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from manta.api.quantity import Quantity
from manta.localplane.node.gpus.device import VENDORS, Gpu
from manta.localplane.node.spec.environment import ConfigError
from manta.localplane.node.spec.pod_spec import Container, NodePod


class NoDeviceError(ConfigError):
    """The node has too few free GPUs for the Pod."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The GPUs of one Pod."""

    namespace: str
    name: str
    containers: Mapping[str, tuple[str, ...]]
    """Ids of GPUs by container. Init containers share those of the containers that start later."""

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(id_ for ids in self.containers.values() for id_ in ids)


def wanted(container: Container, resource: str) -> int:
    resources = container.resources
    amount = resources.limits.get(resource, resources.requests.get(resource, 0))
    return Quantity.parse(amount).value()


def wants_any(pod: NodePod, resources: Sequence[str]) -> bool:
    return any(wanted(one, name) for one in pod.containers() for name in resources)


def assign(pod: NodePod, free: Sequence[Gpu]) -> dict[str, tuple[str, ...]]:
    """Ids by container, from `free` in its order. Raises NoDeviceError.

    Containers that run at the same time share none. An init container has ended before the next
    containers start, so it gets GPUs that those get later; the scheduler counts in the same way.
    """
    given: dict[str, tuple[str, ...]] = {}
    for resource in sorted({gpu.resource for gpu in free} | _asked_for(pod)):
        ids = [gpu.id for gpu in free if gpu.resource == resource]
        used = 0
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            count = wanted(container, resource)
            if used + count > len(ids):
                raise NoDeviceError(f"{used + count} {resource} wanted, {len(ids)} free")
            if count:
                mine = tuple(ids[used : used + count])
                given[container.name] = given.get(container.name, ()) + mine
            if container not in pod.spec.init_containers or pod.is_sidecar(container):
                used += count
    return given


def _asked_for(pod: NodePod) -> set[str]:
    return {name for name in VENDORS if wants_any(pod, (name,))}
