"""What all gang schedulers share: a gang, its PodGroup, and how Pods join it."""

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
class Gang:
    """The Pods of a RayCluster or RayJob, which are scheduled together."""

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
        """Whether the gang label is set, whatever its value."""
        return names.LABEL_GANG_SCHEDULING in self.metadata.labels


class PodGroups(Protocol):
    """For schedulers that represent a gang by an object of their own."""

    @property
    def resource(self) -> Resource: ...

    def name(self, gang: Gang) -> str:
        """The name of the PodGroup of this RayCluster or RayJob; empty: it has none."""
        ...

    def build(self, gang: Gang) -> Json: ...


class GangScheduler(Protocol):
    @property
    def pod_groups(self) -> PodGroups | None:
        """The scheduler's PodGroups; None: Pods carry all information."""
        ...

    @property
    def supports_scheduling_gates(self) -> bool:
        """Whether all its versions respect scheduling gates."""
        ...

    def member_pod(self, gang: Gang, pod: Json, group: str) -> Json:
        """The Pod, or Pod template, as a member of this group of the gang."""
        ...

    def cluster_metadata(self, gang: Gang) -> Json:
        """Labels and annotations that a RayJob's cluster copies to its Pods."""
        ...


def cluster_gang(cluster: RayCluster) -> Gang:
    return Gang(cluster.metadata, cluster.spec, controller_reference(cluster))


def job_gang(job: RayJob, spec: RayClusterSpec, submitter: Mapping[str, Any] | None = None) -> Gang:
    return Gang(job.metadata, spec, job_reference(job), submitter)


def with_scheduler(
    pod: Json,
    scheduler: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    """A copy of the Pod for this scheduler. Empty labels and annotations are left out."""
    meta = dict(pod.get("metadata") or {})
    for field, added in (("labels", labels), ("annotations", annotations)):
        found = {key: value for key, value in (added or {}).items() if value}
        if found:
            meta[field] = {**(meta.get(field) or {}), **found}
    return {**pod, "metadata": meta, "spec": {**pod["spec"], "schedulerName": scheduler}}


def as_text(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    return {name: str(amount) for name, amount in sorted(amounts.items())}


def pod_group_drift(wanted: Mapping[str, Any], live: PodGroup) -> Json:
    """The patch that resizes a live PodGroup; quantities are compared by value."""
    amounts = {name: Quantity.parse(text) for name, text in live.spec.min_resources.items()}
    needed = {name: Quantity.parse(text) for name, text in wanted["minResources"].items()}
    change: Json = {}
    if live.spec.min_member != wanted["minMember"]:
        change["minMember"] = wanted["minMember"]
    if amounts != needed:
        gone = dict.fromkeys(amounts.keys() - needed.keys())
        change["minResources"] = {**gone, **wanted["minResources"]}
    return {"spec": change} if change else {}
