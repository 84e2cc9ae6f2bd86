"""The tables of `kubectl ray get`: clusters, worker groups, nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from manta.api.ages import age
from manta.api.quantity import Quantity
from manta.api.ray.names import (
    LABEL_CLUSTER,
    LABEL_GROUP,
    LABEL_NODE_TYPE,
    NODE_WORKER,
    RESOURCE_GOOGLE_TPU,
)
from manta.api.times import parse_time
from manta.api.well_known import RESOURCE_NVIDIA_GPU

Document = Mapping[str, Any]
Row = list[str]
MAX_REPLICAS: Final = 2**31 - 1
_SHOWN = ("RayClusterProvisioned", "HeadPodReady", "ReplicaFailure")
"""The first of these that is True is shown, then those of a suspension."""
_SUSPENSION = ("RayClusterSuspended", "RayClusterSuspending")
CLUSTERS: Final = (
    "NAME",
    "NAMESPACE",
    "DESIRED WORKERS",
    "AVAILABLE WORKERS",
    "CPUS",
    "GPUS",
    "TPUS",
    "MEMORY",
    "CONDITION",
    "STATUS",
    "AGE",
)
GROUPS: Final = ("NAME", "MIN", "MAX", "REPLICAS", "CPUS", "GPUS", "TPUS", "MEMORY", "CLUSTER")
NODES: Final = ("NAME", "CPUS", "GPUS", "TPUS", "MEMORY", "CLUSTER", "TYPE", "WORKER GROUP", "AGE")


def cluster_row(cluster: Document, now: datetime) -> Row:
    meta, status = cluster["metadata"], cluster.get("status") or {}
    sizes = [_text(status.get(f"desired{what}")) for what in ("CPU", "GPU", "TPU", "Memory")]
    return [
        meta["name"],
        meta.get("namespace", ""),
        str(status.get("desiredWorkerReplicas", 0)),
        str(status.get("availableWorkerReplicas", 0)),
        *sizes,
        condition_of(status),
        status.get("state", ""),
        _age(meta, now),
    ]


def condition_of(status: Document) -> str:
    """The most relevant condition that is True; empty if there is none."""
    conditions = status.get("conditions") or ()
    true = {one["type"] for one in conditions if one.get("status") == "True"}
    return next((name for name in (*_SHOWN, *_SUSPENSION) if name in true), "")


@dataclass(frozen=True, slots=True)
class Group:
    """A worker group and the cluster it belongs to."""

    namespace: str
    cluster: str
    spec: Document
    ready: int
    """Ready Pods."""

    @property
    def name(self) -> str:
        return str(self.spec.get("groupName", ""))


def groups_of(cluster: Document, pods: Sequence[Document]) -> Iterator[Group]:
    """The groups of a cluster. `pods`: those of its namespace."""
    meta = cluster["metadata"]
    name, namespace = meta["name"], meta.get("namespace", "")
    mine = [pod for pod in pods if _labels(pod).get(LABEL_CLUSTER) == name]
    for spec in cluster["spec"].get("workerGroupSpecs") or ():
        ready = sum(_is_ready_worker(pod, spec.get("groupName", "")) for pod in mine)
        yield Group(namespace, name, spec, ready)


def group_row(group: Group) -> Row:
    spec = group.spec
    replicas = spec.get("replicas") or 0
    wanted = {} if spec.get("suspend") or not replicas else pod_resources(spec["template"]["spec"])
    sizes = [
        str(wanted[name] * replicas) if name in wanted else "0"
        for name in ("cpu", RESOURCE_NVIDIA_GPU, RESOURCE_GOOGLE_TPU, "memory")
    ]
    low, high = spec.get("minReplicas") or 0, spec.get("maxReplicas")
    most = MAX_REPLICAS if high is None else high
    return [group.name, str(low), str(most), f"{group.ready}/{replicas}", *sizes, group.cluster]


def node_row(pod: Document, now: datetime) -> Row:
    meta, labels = pod["metadata"], _labels(pod)
    asked = (pod["spec"]["containers"][0].get("resources") or {}).get("requests") or {}
    names = ("cpu", RESOURCE_NVIDIA_GPU, RESOURCE_GOOGLE_TPU, "memory")
    return [
        meta["name"],
        *(_text(asked.get(name)) for name in names),
        labels.get(LABEL_CLUSTER, ""),
        labels.get(LABEL_NODE_TYPE, ""),
        labels.get(LABEL_GROUP, ""),
        _age(meta, now),
    ]


def pod_resources(spec: Document) -> dict[str, Quantity]:
    """What the containers of a Pod request, by resource; a limit stands in for a missing request."""
    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        given = container.get("resources") or {}
        for name, value in {**(given.get("limits") or {}), **(given.get("requests") or {})}.items():
            one = Quantity.parse(value)
            total[name] = total[name] + one if name in total else one
    return total


def _is_ready_worker(pod: Document, group: str) -> bool:
    labels, status = _labels(pod), pod.get("status") or {}
    if labels.get(LABEL_GROUP) != group or labels.get(LABEL_NODE_TYPE) != NODE_WORKER:
        return False
    conditions = status.get("conditions") or ()
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return status.get("phase") == "Running" and ready


def _labels(document: Document) -> Mapping[str, str]:
    return document["metadata"].get("labels") or {}


def _text(value: Any) -> str:
    return "0" if value in (None, "") else str(Quantity.parse(value))


def _age(meta: Document, now: datetime) -> str:
    created = meta.get("creationTimestamp")
    return age(parse_time(created), now) if created else "<unknown>"
