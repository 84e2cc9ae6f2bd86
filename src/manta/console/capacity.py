"""What nodes offer and what Ray's Pods request. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from manta.api.core import Node
from manta.api.quantity import ZERO, Quantity
from manta.console.views import Pod
from manta.rules.accelerators import is_gpu_key, ray_accelerator_name

_OVER = frozenset(("Succeeded", "Failed"))
_MOST = 10**27
"""Billionths: more than any cluster has."""


@dataclass(frozen=True, slots=True)
class Amount:
    """CPUs, bytes of memory, and accelerators."""

    cpu: float = 0.0
    memory: float = 0.0
    gpu: float = 0.0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.cpu + other.cpu, self.memory + other.memory, self.gpu + other.gpu)


def requested(pods: Iterable[Pod]) -> Amount:
    """The requests of the Pods that are not over."""
    total = Amount()
    for pod in pods:
        if pod.status.phase not in _OVER:
            for one in pod.spec.containers:
                total += amount({**one.resources.limits, **one.resources.requests})
    return total


def offered(nodes: Iterable[Node]) -> Amount:
    """What the nodes let Pods use; nodes that take no Pods are left out."""
    total = Amount()
    for node in nodes:
        if not node.spec.unschedulable:
            total += amount(node.status.allocatable)
    return total


def amount(quantities: Mapping[str, str | int | float]) -> Amount:
    accelerators = [one for one in quantities if is_gpu_key(one) or ray_accelerator_name(one)]
    return Amount(
        _number(quantities.get("cpu", 0)),
        _number(quantities.get("memory", 0)),
        sum(_number(quantities[one]) for one in accelerators),
    )


@lru_cache(maxsize=4096)
def _number(text: str | float) -> float:
    """0 for a text that is no quantity: the API server would have refused it. It accepts `1e400`, which is no float."""
    nano = (Quantity.parse_or_none(text) or ZERO).nano
    return max(-_MOST, min(nano, _MOST)) / 1e9
