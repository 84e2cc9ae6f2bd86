"""Rolling updates of a RayCluster as commands and programs steer them: history, undo, pause, resume.

Only the RayCluster is written, as its user; the operator does the rest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from manta.api.conditions import find
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType, RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import CONTROLLER_REVISIONS
from manta.api.revisions import ControllerRevision
from manta.api.usage import UsageError
from manta.api.well_known import ANNOTATION_CHANGE_CAUSE
from manta.kube.client import Client
from manta.rules.differences import Difference, differences
from manta.rules.revisions import is_same, spec_in, undone
from manta.rules.rolling_update import rolling_update

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Revision:
    """One recorded revision, for people."""

    number: int
    state: str
    """`newest`, `complete`, `failed`, or empty: it never was complete."""
    cause: str
    """kubectl's change-cause, or else what changed since the revision before it."""
    changes: tuple[Difference, ...]
    data: Mapping[str, Any]
    failure: str = ""


async def history(client: Client, key: Key) -> list[Revision]:
    """Oldest first. Raises UsageError if the cluster has no rolling update."""
    cluster = await _rolling(client, key)
    return described(await _recorded(client, cluster))


async def _rolling(client: Client, key: Key) -> RayCluster:
    cluster = await client.get(RAY_CLUSTERS, key, into=RayCluster)
    if rolling_update(cluster) is None:
        raise UsageError(
            f"raycluster/{key.name} has no rolling update: set spec.upgradeStrategy.type to RollingUpdate,"
            f" or annotate it {names.ANNOTATION_ROLLING_UPDATE}=true"
        )
    return cluster


async def _recorded(client: Client, cluster: RayCluster) -> list[ControllerRevision]:
    meta = cluster.metadata
    found = await client.list(
        CONTROLLER_REVISIONS,
        meta.namespace,
        into=ControllerRevision,
        labels=f"{names.LABEL_CLUSTER}={meta.name}",
    )
    own = [one for one in found.items if one.metadata.is_controlled_by(meta.uid)]
    return sorted(own, key=lambda one: one.revision)


def described(revisions: list[ControllerRevision]) -> list[Revision]:
    found: list[Revision] = []
    for at, one in enumerate(revisions):
        notes = one.metadata.annotations
        failure = notes.get(names.ANNOTATION_ROLLOUT_FAILED, "")
        before = revisions[at - 1].data.get("spec") if at else None
        after = one.data.get("spec")
        changes = differences(before, after) if before is not None else ()
        cause = notes.get(ANNOTATION_CHANGE_CAUSE) or _summary(changes)
        is_newest = one is revisions[-1]
        complete = names.ANNOTATION_ROLLOUT_COMPLETED in notes
        state = "failed" if failure else "newest" if is_newest else "complete" if complete else ""
        found.append(Revision(one.revision, state, cause, changes, one.data, failure))
    return found


def _summary(changes: tuple[Difference, ...]) -> str:
    if not changes:
        return "<none>"
    more = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
    return f"{changes[0]}{more}"


# ── writing ──────────────────────────────────────────────────────────────────────────────


async def undo(client: Client, key: Key, number: int = 0) -> str:
    """Put the templates of a revision back into the spec; 0: of the one before the newest. Says what was done."""
    cluster = await _rolling(client, key)
    revisions = await _recorded(client, cluster)
    wanted = _choose(revisions, cluster, number)
    document = await client.get(RAY_CLUSTERS, key)
    if is_same(spec_in(wanted.data), cluster.spec):
        return f"raycluster/{key.name} has the spec of revision {wanted.revision} already"
    spec = undone(document["spec"], wanted.data)
    await client.patch(RAY_CLUSTERS, key, [_unchanged(document), _set("/spec", spec)], kind="json")
    return f"raycluster/{key.name} rolled back to revision {wanted.revision}"


def _choose(
    revisions: list[ControllerRevision], cluster: RayCluster, number: int
) -> ControllerRevision:
    known = ", ".join(str(one.revision) for one in revisions)
    if number:
        for one in revisions:
            if one.revision == number:
                return one
        raise UsageError(
            f"--to-revision {number}: there is no such revision; known: {known or 'none'}"
        )
    failed = names.ANNOTATION_ROLLOUT_FAILED
    for one in reversed(revisions):
        if not is_same(spec_in(one.data), cluster.spec) and failed not in one.metadata.annotations:
            return one
    raise UsageError(f"raycluster/{cluster.metadata.name} has no earlier revision")


async def set_paused(client: Client, key: Key, *, paused: bool) -> str:
    """Pause or resume. Resuming a revision that was given up, or that stopped, tries it once more. Says what was
    done."""
    cluster = await _rolling(client, key)
    options = rolling_update(cluster)
    document, name = await client.get(RAY_CLUSTERS, key), f"raycluster/{key.name}"
    if options is not None and bool(options.paused) != paused:
        change = _pause(document, cluster, paused=paused)
        await client.patch(RAY_CLUSTERS, key, [_unchanged(document), *change], kind="json")
        return f"{name} {'paused' if paused else 'resumed'}"
    if paused:
        return f"{name} is already paused"
    revisions = await _recorded(client, cluster)
    newest = revisions[-1] if revisions else None
    if newest is None or not _has_ended(cluster, newest):
        return f"{name} is not paused"
    note = {names.ANNOTATION_ROLLING_UPDATE_RETRY: str(newest.revision)}
    await client.patch(RAY_CLUSTERS, key, {"metadata": {"annotations": note}})
    return f"{name} tries revision {newest.revision} again"


def _has_ended(cluster: RayCluster, newest: ControllerRevision) -> bool:
    """Whether its rolling update was given up, or stopped at the deadline."""
    found = find(cluster.status.conditions, ClusterConditionType.ROLLING_UPDATE)
    has_stopped = found is not None and found.reason == "ProgressDeadlineExceeded"
    return has_stopped or names.ANNOTATION_ROLLOUT_FAILED in newest.metadata.annotations


def _pause(document: Document, cluster: RayCluster, *, paused: bool) -> list[Document]:
    """In the spec, or in the annotation if that has the options."""
    strategy = document["spec"].get("upgradeStrategy")
    if strategy and strategy.get("type"):
        options = {**(strategy.get("rollingUpdate") or {}), "paused": paused}
        return [_set("/spec/upgradeStrategy/rollingUpdate", options)]
    given = msgspec.to_builtins(rolling_update(cluster)) | {"paused": paused}
    path = f"/metadata/annotations/{names.ANNOTATION_ROLLING_UPDATE.replace('/', '~1')}"
    return [_set(path, json.dumps(given))]


def _unchanged(document: Document) -> Document:
    """The patch fails if somebody else wrote meanwhile."""
    version = document["metadata"]["resourceVersion"]
    return {"op": "test", "path": "/metadata/resourceVersion", "value": version}


def _set(path: str, value: Any) -> Document:
    return {"op": "add", "path": path, "value": value}
