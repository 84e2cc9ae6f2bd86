"""What the specs of clusters asked for lately, and how many Pods they had: the memory of the oracles.

The operator may act on a view that is a little old, so a rule holds if it held at any time within the window.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from manta.api.ray import names
from manta.api.ray.cluster import RayClusterSpec, WorkerGroupSpec
from manta.rules.spec_hash import spec_hash
from simulation.actions import ACTIONS
from simulation.plane import Written
from simulation.story import Story

Object = dict[str, Any]
CLUSTERS = "rayclusters.ray.io"
WINDOW = 120.0
"""Seconds for which the operator may act on an old view, if faults make it blind or slow."""
SHORT_WINDOW = 15.0
"""The same in stories in which nothing does: its own requests take their time."""
BLINDING = ("operator", "server", "watch", "ray")
"""Areas of steps that let the operator act on an old view."""


@dataclass(slots=True)
class _Version:
    since: float
    spec: RayClusterSpec
    deleting: bool
    until: float = float("inf")


@dataclass(slots=True)
class _Pod:
    """When a Pod was alive, and when the operator deleted it."""

    name: str
    replica: str
    born: float
    ended: float = float("inf")
    deleted: float = float("inf")


@dataclass(slots=True)
class _Cluster:
    versions: list[_Version] = field(default_factory=list)
    gone_at: float = float("inf")


@dataclass
class ClusterHistory:
    window: float = WINDOW
    clusters: dict[str, _Cluster] = field(default_factory=dict)
    """By UID."""
    _pods: dict[tuple[str, str], dict[str, _Pod]] = field(default_factory=lambda: defaultdict(dict))
    """By cluster and group, then by the Pod's UID."""
    _troubled: dict[tuple[str, str], float] = field(default_factory=dict)
    """When a Pod of a multi-host replica was lost: by cluster and replica."""
    _owners: dict[str, float] = field(default_factory=dict)
    """When an object with this UID was deleted."""
    now: float = 0.0

    def see(self, written: Written) -> None:
        self.now = written.at
        if written.type == "DELETED":
            self._owners[written.metadata.get("uid", "")] = written.at
        if written.resource == CLUSTERS:
            self._see_cluster(written)
        elif written.resource == "pods":
            self._see_pod(written)

    def existed(self, uid: str, window: float) -> bool:
        """Whether an object with this UID was deleted no longer ago than the window."""
        return self.now - self._owners.get(uid, -1e9) <= window

    # ── clusters ─────────────────────────────────────────────────────────────────────────

    def _see_cluster(self, written: Written) -> None:
        known = self.clusters.setdefault(written.metadata["uid"], _Cluster())
        spec = msgspec.convert(written.object.get("spec") or {}, RayClusterSpec)
        deleting = bool(written.metadata.get("deletionTimestamp")) or written.type == "DELETED"
        if written.type == "DELETED":
            known.gone_at = written.at
        last = known.versions[-1] if known.versions else None
        if last is None or (last.spec, last.deleting) != (spec, deleting):
            if last is not None:
                last.until = written.at
            known.versions.append(_Version(written.at, spec, deleting))

    def _recent(self, uid: str, at: float) -> Iterator[_Version]:
        for version in self.clusters.get(uid, _Cluster()).versions:
            if version.until >= at - self.window:
                yield version

    # ── Pods ─────────────────────────────────────────────────────────────────────────────

    def _see_pod(self, written: Written) -> None:
        uid, group, replica = _place(written.object)
        if not uid:
            return
        pod = self._pods[uid, group].setdefault(
            written.metadata["uid"], _Pod(written.name, replica, written.at)
        )
        going = _is_going(written)
        if going and replica:
            self._troubled[uid, replica] = written.at
        if going and written.by.startswith("operator"):
            pod.deleted = min(pod.deleted, written.at)
        if going:
            pod.ended = min(pod.ended, written.at)

    def _lately(self, uid: str, group: str, at: float) -> list[_Pod]:
        """All Pods that were alive at some time within the window."""
        return [pod for pod in self._pods[uid, group].values() if pod.ended >= at - self.window]

    def _mates(self, uid: str, group: str, name: str, replica: str) -> set[str]:
        """The names of the Pods that live and die with this one: all hosts of its replica."""
        pods = self._pods[uid, group].values()
        return {name, *(pod.name for pod in pods if replica and pod.replica == replica)}

    def _alive(self, uid: str, group: str) -> int:
        return sum(pod.ended == float("inf") for pod in self._pods[uid, group].values())

    # ── rules ────────────────────────────────────────────────────────────────────────────

    def may_delete(self, pod: Object, at: float) -> bool:
        uid, group, replica = _place(pod)
        cluster = self.clusters.get(uid)
        if cluster is None or cluster.gone_at <= at or _has_ended(pod) or _has_crashed(pod):
            return True
        versions = list(self._recent(uid, at))
        if any(one.deleting or one.spec.suspend for one in versions):
            return True
        if self._recreates(cluster, pod, at):
            return True
        if group == names.HEAD_GROUP:
            return len(self._lately(uid, group, at)) > 1
        return self._may_shrink(versions, pod, at) or (
            bool(replica) and at - self._troubled.get((uid, replica), -1e9) <= self.window
        )

    def was_to_suspend(self, uid: str) -> bool:
        """Whether the spec of this cluster ever asked for a suspension."""
        cluster = self.clusters.get(uid)
        return cluster is not None and any(one.spec.suspend for one in cluster.versions)

    def _may_shrink(self, versions: list[_Version], pod: Object, at: float) -> bool:
        uid, group, replica = _place(pod)
        fewest: int | None = None
        mates = self._mates(uid, group, pod["metadata"]["name"], replica)
        for version in versions:
            found = _group(version.spec, group)
            if found is None or found.suspend:
                return True
            if mates & set(found.scale_strategy.workers_to_delete):
                return True
            if replica and len(mates) < found.num_of_hosts:
                return True  # it was never completed
            wanted = _wanted(found)
            fewest = wanted if fewest is None else min(fewest, wanted)
        lately = self._lately(uid, group, at)
        deleted = sum(pod.deleted <= at for pod in lately)
        # Whatever Pods the operator saw, it left as many as were wanted: this deletion is one more.
        return fewest is not None and len(lately) - deleted > fewest

    @staticmethod
    def _recreates(cluster: _Cluster, pod: Object, at: float) -> bool:
        """Whether an upgrade strategy allowed to replace the Pods of an earlier spec."""
        wanted = any(
            one.spec.upgrade_strategy is not None
            and one.spec.upgrade_strategy.type in ("Recreate", "RollingUpdate")
            for one in cluster.versions
        )
        return wanted and len({spec_hash(one.spec) for one in cluster.versions}) > 1

    def most_wanted(self, pod: Object, at: float) -> int:
        """The most Pods that any spec of the window asks for in the group of this Pod; -1 if none has the group."""
        uid, group, _ = _place(pod)
        most = 1 if group == names.HEAD_GROUP else -1
        for version in self._recent(uid, at):
            found = _group(version.spec, group)
            if found is not None:
                surge = rolling_limits(version.spec, found)[0] * found.num_of_hosts
                most = max(most, _wanted(found) + surge)
        return most

    def least_ready(self, pod: Object, at: float) -> int | None:
        """How many workers of its group a rolling update must leave ready; None: some spec of the window, or a Pod that
        was lost, allows to delete it anyway."""
        uid, group, _ = _place(pod)
        least: int | None = None
        for version in self._recent(uid, at):
            found = _group(version.spec, group)
            strategy = version.spec.upgrade_strategy
            if found is None or found.suspend or version.spec.suspend or version.deleting:
                return None
            if strategy is None or strategy.type != "RollingUpdate" or found.num_of_hosts > 1:
                return None
            if found.scale_strategy.workers_to_delete:
                return None
            count = _wanted(found) - rolling_limits(version.spec, found)[1]
            least = count if least is None else min(least, count)
        lost = [one for one in self._lately(uid, group, at) if one.ended < one.deleted]
        return None if lost else least

    def surplus(self, pod: Object, at: float) -> str:
        """Why this new Pod is one too many; empty if it is not."""
        uid, group, _ = _place(pod)
        if not uid:
            return ""
        most, alive = self.most_wanted(pod, at), self._alive(uid, group)
        if most >= 0 and alive > most and group != names.HEAD_GROUP:
            return f"group {group} has {alive} Pods, but at most {most} were wanted lately"
        return ""


def rolling_limits(spec: RayClusterSpec, group: WorkerGroupSpec) -> tuple[int, int]:
    """How many Pods of a group a rolling update may add, and how many may be missing: from the words of the API."""
    strategy = spec.upgrade_strategy
    if strategy is None or strategy.type != "RollingUpdate":
        return 0, 0
    given = strategy.rolling_update
    surge, unavailable = (given.max_surge, given.max_unavailable) if given else (None, None)
    for one in given.groups if given else ():
        if one.group_name == group.group_name:
            surge = surge if one.max_surge is None else one.max_surge
            unavailable = unavailable if one.max_unavailable is None else one.max_unavailable
    count = _wanted(group) // group.num_of_hosts
    if surge is None:
        surge = 0 if unavailable is not None or spec.enable_in_tree_autoscaling else 1
    more = _part(surge, count, up=True)
    fewer = _part(unavailable, count, up=False) if unavailable is not None else 0
    return more, fewer if fewer or more else 1


def _part(text: int | str, count: int, *, up: bool) -> int:
    if isinstance(text, int):
        return text
    percent = int(text.removesuffix("%")) * count
    return -(-percent // 100) if up else percent // 100


def window_of(story: Story) -> float:
    """How old the view of the operator may be in this story."""
    blind = any(ACTIONS[step.do].area in BLINDING for step in story.steps)
    return WINDOW if blind else SHORT_WINDOW


def _is_going(written: Written) -> bool:
    marked = bool(written.metadata.get("deletionTimestamp"))
    return written.type == "DELETED" or marked or _has_ended(written.object)


def _wanted(group: WorkerGroupSpec) -> int:
    """Pods of a group, computed from the words of the API, not by the code under test."""
    if group.suspend:
        return 0
    least = group.min_replicas or 0
    count = max(least if group.replicas is None else group.replicas, least)
    most = count if group.max_replicas is None else group.max_replicas
    return min(count, most) * group.num_of_hosts


def _group(spec: RayClusterSpec, name: str) -> WorkerGroupSpec | None:
    return next((one for one in spec.worker_group_specs if one.group_name == name), None)


def _place(pod: Object) -> tuple[str, str, str]:
    """UID of the cluster, group, and replica of a multi-host group; empty if it is no Pod of a cluster."""
    owners = pod["metadata"].get("ownerReferences") or ()
    uid = next((one["uid"] for one in owners if one["kind"] == "RayCluster"), "")
    labels = pod["metadata"].get("labels") or {}
    if names.LABEL_NODE_TYPE not in labels:
        return "", "", ""
    return uid, labels.get(names.LABEL_GROUP, ""), labels.get(names.LABEL_REPLICA_NAME, "")


def _has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")


def _has_crashed(pod: Object) -> bool:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return any("terminated" in (one.get("state") or {}) for one in statuses)
