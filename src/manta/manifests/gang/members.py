"""What all gang schedulers have in common: whose gang it is, how large, and how Pods join it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from manta.api.meta import ObjectMeta
from manta.api.quantity import Quantity
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster, RayClusterSpec
from manta.api.ray.job import RayJob
from manta.api.resources import Resource
from manta.api.scheduling import PodGroup
from manta.manifests.containers import Json
from manta.manifests.ownership import controller_reference
from manta.manifests.submitter import job_reference


@dataclass(frozen=True, slots=True)
class Leader:
    """The object whose Pods are scheduled together."""

    metadata: ObjectMeta
    spec: RayClusterSpec
    owner: Json
    """The controller reference for a PodGroup."""
    submitter: Mapping[str, Any] | None = None
    """The template of a RayJob's submitter Pod, which starts after the others."""

    def label(self, key: str) -> str:
        return self.metadata.labels.get(key, "")

    @property
    def wants_gang(self) -> bool:
        """The label's presence counts, whatever its value."""
        return names.LABEL_GANG_SCHEDULING in self.metadata.labels


class PodGroups(Protocol):
    """How a scheduler is told of a gang by an object of its own."""

    @property
    def resource(self) -> Resource: ...

    def name(self, leader: Leader) -> str:
        """Of the PodGroup that this RayCluster or RayJob has for itself; empty: it has none."""
        ...

    def build(self, leader: Leader) -> Json: ...


class GangScheduler(Protocol):
    @property
    def pod_groups(self) -> PodGroups | None:
        """None: it is told by the Pods alone."""
        ...

    @property
    def knows_gates(self) -> bool:
        """Whether it leaves a Pod alone while that has a scheduling gate, whatever its version."""
        ...

    def mark(self, leader: Leader, pod: Json, group: str) -> Json:
        """The same Pod, or Pod template, as a member of this group of the gang."""
        ...

    def cluster_marks(self, leader: Leader) -> Json:
        """Labels and annotations that a RayJob's cluster hands on to its Pods."""
        ...


def cluster_leader(cluster: RayCluster) -> Leader:
    return Leader(cluster.metadata, cluster.spec, controller_reference(cluster))


def job_leader(
    job: RayJob, spec: RayClusterSpec, submitter: Mapping[str, Any] | None = None
) -> Leader:
    return Leader(job.metadata, spec, job_reference(job), submitter)


def joined(
    pod: Json,
    scheduler: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """A copy of the Pod that goes to this scheduler. Empty values are left out."""
    meta = dict(pod.get("metadata") or {})
    for field, added in (("labels", labels), ("annotations", annotations)):
        found = {key: value for key, value in (added or {}).items() if value}
        if found:
            meta[field] = {**(meta.get(field) or {}), **found}
    return {**pod, "metadata": meta, "spec": {**pod["spec"], "schedulerName": scheduler}}


def as_text(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def pod_group_drift(wanted: Mapping[str, Any], live: PodGroup) -> Json:
    """The patch that makes a live PodGroup as large as wanted; amounts are compared by value."""
    amounts = {name: Quantity.parse(text) for name, text in live.spec.min_resources.items()}
    needed = {name: Quantity.parse(text) for name, text in wanted["minResources"].items()}
    change: Json = {}
    if live.spec.min_member != wanted["minMember"]:
        change["minMember"] = wanted["minMember"]
    if amounts != needed:
        gone = dict.fromkeys(amounts.keys() - needed.keys())
        change["minResources"] = {**gone, **wanted["minResources"]}
    return {"spec": change} if change else {}
