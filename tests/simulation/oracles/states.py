"""About objects at the end: where they are, and what they say."""

from __future__ import annotations

from collections.abc import Iterator

from manta.api.ray import names
from simulation.oracles.oracle import (
    CLUSTERS,
    RAY,
    RAY_JOBS,
    RAY_SERVICES,
    Object,
    Oracle,
    controller_of,
    invalid_ones,
)


class WaitsAreVisible(Oracle):
    """An object that is not where its spec wants it says why: a cluster in its condition Blocked, others in a
    condition, a message or an Event."""

    name = "visible-reason"

    def ended(self) -> Iterator[str]:
        warned = invalid_ones(self.world)
        for resource in RAY[:3]:
            for one in self.world.all(resource):
                managed = (one.get("spec") or {}).get("managedBy", names.MANAGED_BY_OPERATOR)
                if managed != names.MANAGED_BY_OPERATOR or one["metadata"]["uid"] in warned:
                    continue
                if not _is_settled(one) and not _says_why(resource, one):
                    yield f"{resource} {one['metadata']['name']} waits and does not say why: {one.get('status')}"


def _is_settled(one: Object) -> bool:
    status = one.get("status") or {}
    true = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    if one["metadata"].get("deletionTimestamp"):
        return False
    if "jobDeploymentStatus" in status:
        return status["jobDeploymentStatus"] in ("Complete", "Failed", "Suspended", "Running")
    return bool(true & {"RayClusterProvisioned", "RayClusterSuspended", "Ready", "Suspended"})


def _says_why(resource: str, one: Object) -> bool:
    status = one.get("status") or {}
    if resource == CLUSTERS:
        return any(
            each["type"] == "Blocked" and each["status"] == "True" and each.get("message")
            for each in status.get("conditions") or ()
        )
    if status.get("message") or status.get("reason"):
        return True
    said = [each for each in status.get("conditions") or () if each.get("message")]
    return bool(said)


class AsSpecified(Oracle):
    """A cluster that says it is ready has one head and, in each group, replicas (within their bounds) times hosts;
    with an autoscaler, at least so many. A suspended one has no Pods. A job that has ended and wants its cluster shut
    down has none, and neither has a suspended service."""

    name = "as-specified"

    def ended(self) -> Iterator[str]:
        invalid = invalid_ones(self.world)  # what is there stays as it was
        for one in self.world.all(CLUSTERS):
            if (
                not one["metadata"].get("deletionTimestamp")
                and one["metadata"]["uid"] not in invalid
            ):
                yield from self._cluster(one)
        for resource in (RAY_JOBS, RAY_SERVICES):
            for one in self.world.all(resource):
                kept = [each["metadata"]["name"] for each in self._owned(CLUSTERS, one)]
                if kept and _wants_no_cluster(resource, one):
                    yield f"{resource} {one['metadata']['name']} still has {', '.join(kept)}"

    def _owned(self, resource: str, owner: Object) -> list[Object]:
        uid = owner["metadata"]["uid"]
        return [
            one
            for one in self.world.all(resource)
            if (controller_of(one) or {}).get("uid") == uid
            and not one["metadata"].get("deletionTimestamp")
        ]

    def _cluster(self, cluster: Object) -> Iterator[str]:
        spec, state = cluster["spec"], (cluster.get("status") or {}).get("state")
        if names.ANNOTATION_DISABLE_HEAD_RESTART in (cluster["metadata"].get("annotations") or {}):
            return  # a job in SidecarMode ends with its head
        if state not in ("ready", "suspended") or bool(spec.get("suspend")) != (state != "ready"):
            return
        wanted = _wanted(spec) if state == "ready" else {}
        found: dict[str, int] = {}
        for pod in self._owned("pods", cluster):
            labels = pod["metadata"].get("labels") or {}
            if names.LABEL_NODE_TYPE in labels and pod["status"].get("phase") != "Failed":
                group = labels.get(names.LABEL_GROUP, "")
                found[group] = found.get(group, 0) + 1
        if spec.get("enableInTreeAutoscaling"):
            found = {group: min(count, wanted.get(group, 0)) for group, count in found.items()}
        if {key: count for key, count in found.items() if count} != wanted:
            yield f"RayCluster {cluster['metadata']['name']} has {found}, and its spec asks for {wanted}"


def _wanted(spec: Object) -> dict[str, int]:
    """Pods by group, computed from the words of the API, not by the code under test."""
    wanted = {names.HEAD_GROUP: 1}
    for group in spec.get("workerGroupSpecs") or ():
        least = group.get("minReplicas", 0)
        count = max(group.get("replicas", least), least)
        if "maxReplicas" in group:
            count = min(count, group["maxReplicas"])
        count *= group.get("numOfHosts", 1)
        if count and not group.get("suspend"):
            wanted[group["groupName"]] = count
    return wanted


def _wants_no_cluster(resource: str, one: Object) -> bool:
    spec, status = one["spec"], one.get("status") or {}
    if resource == RAY_SERVICES:
        true = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
        return bool(spec.get("suspend")) and "Suspended" in true
    ended = status.get("jobDeploymentStatus") in ("Complete", "Failed")
    return ended and bool(spec.get("shutdownAfterJobFinishes")) and "deletionStrategy" not in spec
