"""About Pods: how many there are, and which may be deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from manta.api.ray import names
from simulation.history import ClusterHistory
from simulation.oracles.oracle import (
    CLUSTERS,
    Object,
    Oracle,
    controller_of,
    is_head,
    is_operator,
    is_ready,
    runs,
)
from simulation.plane import Written

if TYPE_CHECKING:
    from simulation.world import World


class OneHead(Oracle):
    """A RayCluster never has two heads whose containers run."""

    name = "one-head"

    def written(self, written: Written) -> Iterator[str]:
        if written.resource != "pods" or not is_head(written.object) or not runs(written.object):
            return
        owner = controller_of(written.object)
        if owner is None or owner["kind"] != "RayCluster":
            return
        for pod in self.world.all("pods"):
            other = controller_of(pod)
            same = other is not None and owner["uid"] == other["uid"] and is_head(pod)
            if same and pod["metadata"]["uid"] != written.metadata["uid"] and runs(pod):
                yield f"heads {pod['metadata']['name']} and {written.name} both run"


class NewHeadNames(Oracle):
    """A head never has the name of an earlier head that the status of its RayCluster named, unless the name is fixed by
    the settings, or the name was dropped because that head of a job in SidecarMode never began."""

    name = "head-names"

    def __init__(self, world: World, history: ClusterHistory) -> None:
        super().__init__(world, history)
        self._named: dict[str, set[str]] = {}

    def written(self, written: Written) -> Iterator[str]:
        meta = written.metadata
        if written.resource == CLUSTERS and is_operator(written.by):
            head = (written.object.get("status") or {}).get("head") or {}
            if (meta.get("labels") or {}).get(names.LABEL_JOB_SUBMISSION_MODE) != "SidecarMode":
                self._named.setdefault(meta["uid"], set()).add(head.get("podName", ""))
        if written.resource != "pods" or written.type != "ADDED" or not is_head(written.object):
            return
        owner = controller_of(written.object) or {}
        is_fixed = written.name.endswith("-head")
        if written.name in self._named.get(owner.get("uid", ""), ()) and not is_fixed:
            yield f"{written.by} created head {written.name}: an earlier head had this name"


class PodDeletions(Oracle):
    """The operator deletes a Pod only for a reason: its cluster goes, is suspended or is recreated; its group is
    removed, suspended or has too many; a rolling update replaces it; it is named in workersToDelete; it has failed; or
    it is a second head."""

    name = "pod-deletion"

    def written(self, written: Written) -> Iterator[str]:
        if written.resource != "pods" or not is_operator(written.by):
            return
        before = self.world.live["pods"].get(f"{written.metadata['namespace']}/{written.name}")
        if before is None or before["metadata"].get("deletionTimestamp"):
            return
        goes = written.type == "DELETED" or written.metadata.get("deletionTimestamp")
        if not goes or self._is_suspending(before):
            return
        if not self.history.may_delete(before, written.at):
            yield f"{written.by} deleted Pod {written.name}, and no rule allows it"

    def _is_suspending(self, pod: Object) -> bool:
        """As in KubeRay, a suspension that has begun ends, also if the user withdraws it before all Pods are gone."""
        owner = controller_of(pod)
        if owner is None or not self.history.was_to_suspend(owner["uid"]):
            return False
        key = f"{pod['metadata']['namespace']}/{owner['name']}"
        cluster = self.world.live["rayclusters.ray.io"].get(key) or {}
        conditions = (cluster.get("status") or {}).get("conditions") or ()
        return any(
            one["type"] == "RayClusterSuspending" and one["status"] == "True" for one in conditions
        )


class NoExtraPods(Oracle):
    """A worker group never has more living Pods than its spec asked for lately."""

    name = "no-extra-pods"

    def after(self, written: Written) -> Iterator[str]:
        if written.resource == "pods" and written.type == "ADDED" and not self.world.paused:
            extra = self.history.surplus(written.object, written.at)
            if extra:
                yield f"{written.by} created {written.name}: {extra}"


class RollsGently(Oracle):
    """A rolling update deletes a ready worker only if as many of its group stay ready as `maxUnavailable` allows."""

    name = "rolls-gently"

    def written(self, written: Written) -> Iterator[str]:
        if written.resource != "pods" or not is_operator(written.by):
            return
        before = self.world.live["pods"].get(f"{written.metadata['namespace']}/{written.name}")
        if before is None or before["metadata"].get("deletionTimestamp") or not is_ready(before):
            return
        goes = written.type == "DELETED" or written.metadata.get("deletionTimestamp")
        least = self.history.least_ready(before, written.at) if goes else None
        if least is None or self.world.paused or is_head(before):
            return
        stay = sum(self._is_mate(before, pod) for pod in self.world.all("pods"))
        if stay < least:
            yield f"{written.by} deleted {written.name}: {stay} stay ready, and {least} must"

    @staticmethod
    def _is_mate(pod: Object, other: Object) -> bool:
        """Whether the other one is a ready worker of the same group."""
        mine, meta = pod["metadata"], other["metadata"]
        owners = (controller_of(pod) or {}).get("uid"), (controller_of(other) or {}).get("uid")
        groups = [(one.get("labels") or {}).get(names.LABEL_GROUP) for one in (mine, meta)]
        same = owners[0] == owners[1] and groups[0] == groups[1] and mine["uid"] != meta["uid"]
        return same and not meta.get("deletionTimestamp") and is_ready(other)
