"""The spec of a RayCluster from a few numbers. Pure.

`manta submit` and the Python SDK build clusters here. What these shapes do not cover goes into `pod`,
or into a manifest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from manta.api.usage import InvalidValue
from manta.api.well_known import RESOURCE_NVIDIA_GPU
from manta.client.amounts import AmountError, check_cpu, check_memory
from manta.client.cluster_parts import Document, assembled, group_spec, pod_template, ray_container
from manta.rules.traits import parse_ray_version

DEFAULT_IMAGE: Final = "rayproject/ray:2.60.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadGroup:
    """The head of a cluster: one Pod."""

    cpu: float | str = 1
    """CPUs of the Pod: `4`, `0.5` or `"500m"`."""
    memory: str = "2Gi"
    """Memory of the Pod, with its unit."""
    gpu: int = 0
    """GPUs of the Pod."""
    gpu_resource: str = RESOURCE_NVIDIA_GPU
    """The resource that a GPU is for Kubernetes."""
    image: str = ""
    """The container image; empty: that of the cluster."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the Ray container."""
    ray_start_params: Mapping[str, str] = field(default_factory=dict)
    """Flags of `ray start`, such as `{"num-cpus": "0"}`."""
    resources: Mapping[str, str] = field(default_factory=dict)
    """Logical resources that Ray schedules by, such as `{"CPU": "0"}`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the Ray nodes and of the Pods."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels of the Kubernetes nodes to run on."""
    pod: Mapping[str, Any] = field(default_factory=dict)
    """More fields of the Pod's spec, as Kubernetes spells them: `{"serviceAccountName": "me"}`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGroup(HeadGroup):
    """Workers of the same shape.

    >>> WorkerGroup(replicas=2, cpu=4, gpu=1).replicas
    2
    """

    name: str = "workers"
    """The name of the group."""
    replicas: int = 1
    """Desired workers; with an autoscaler, the first number."""
    min_replicas: int = 0
    """The fewest workers."""
    max_replicas: int | None = None
    """The most workers; None: `replicas`. An autoscaler needs a number."""
    num_of_hosts: int = 1
    """Pods of one worker, for accelerators that span hosts."""


def cluster_spec(
    *,
    image: str = DEFAULT_IMAGE,
    ray_version: str = "",
    head: HeadGroup | None = None,
    workers: Sequence[WorkerGroup] = (),
    autoscale: bool = False,
) -> Document:
    """The spec. Raises InvalidValue for a number, an amount or a name that cannot be used."""
    _check("head", head or HeadGroup())
    for index, group in enumerate(workers):
        _check_workers(f"workers[{index}]", group, autoscale=autoscale)
    return assembled(
        _head(head or HeadGroup(), image),
        [_workers(group, image) for group in workers],
        ray_version=ray_version or version_of(image),
        autoscaler={} if autoscale else None,
    )


def version_of(image: str) -> str:
    """The version of Ray in the tag of an image; empty: the tag is no version."""
    tag = image.rpartition(":")[2]
    version = parse_ray_version(tag) if tag[:1].isdigit() else None
    return "" if version is None else ".".join(map(str, version))


def _head(group: HeadGroup, image: str) -> Document:
    return _group(group, "ray-head", image, {})


def _workers(group: WorkerGroup, image: str) -> Document:
    sizes: Document = {
        "groupName": group.name,
        "replicas": group.replicas,
        "minReplicas": group.min_replicas,
        "maxReplicas": group.replicas if group.max_replicas is None else group.max_replicas,
    }
    if group.num_of_hosts != 1:
        sizes["numOfHosts"] = group.num_of_hosts
    return _group(group, "ray-worker", image, sizes)


def _group(group: HeadGroup, container: str, image: str, sizes: Document) -> Document:
    amounts = {"cpu": str(group.cpu), "memory": str(group.memory)}
    if group.gpu:
        amounts[group.gpu_resource] = str(group.gpu)
    ray = ray_container(container, group.image or image, amounts, amounts, env=group.env)
    return group_spec(
        pod_template(ray, node_selector=group.node_selector, pod=group.pod),
        sizes=sizes,
        ray_start_params=group.ray_start_params,
        resources=group.resources,
        labels=group.labels,
    )


# ── checks ───────────────────────────────────────────────────────────────────────────────


def _check(at: str, group: HeadGroup) -> None:
    for name, check in (("cpu", check_cpu), ("memory", check_memory)):
        value = getattr(group, name)
        try:
            check(str(value))
        except AmountError as error:
            raise InvalidValue(f"{at}.{name}", value, str(error)) from None
    _whole(f"{at}.gpu", group.gpu)


def _check_workers(at: str, group: WorkerGroup, *, autoscale: bool) -> None:
    _check(at, group)
    for name in ("replicas", "min_replicas"):
        _whole(f"{at}.{name}", getattr(group, name))
    _whole(f"{at}.num_of_hosts", group.num_of_hosts, least=1)
    if group.replicas < group.min_replicas:
        raise InvalidValue(
            f"{at}.replicas", group.replicas, f"must be at least min_replicas={group.min_replicas}"
        )
    if group.max_replicas is not None and group.max_replicas < group.replicas:
        raise InvalidValue(
            f"{at}.max_replicas", group.max_replicas, f"must be at least replicas={group.replicas}"
        )
    if autoscale and group.max_replicas is None:
        raise InvalidValue(f"{at}.max_replicas", None, "an autoscaler needs a limit; give a number")


def _whole(field_name: str, value: Any, least: int = 0) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidValue(field_name, value, f"must be a whole number, {least} or more")
