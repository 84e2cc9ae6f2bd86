"""Pods that a workload controls: indexes, selectors, adoption, and building them from a template. Pure.

ReplicaSets, StatefulSets and DaemonSets share these rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from manta.api import selectors
from manta.api.meta import Key, ObjectMeta
from manta.api.resources import PODS, Resource
from manta.api.times import parse_time
from manta.localplane.builtin.views import Json, Pod, as_json
from manta.reconcile.actions import Patch
from manta.reconcile.causes import ActionCause
from manta.reconcile.plan import NOTHING, Plan, Wait
from manta.runtime.index import HasMetadata, by_controller
from manta.runtime.informer import Informer


class _HasSelector(Protocol):
    @property
    def selector(self) -> Json: ...


class Workload(Protocol):
    """A kind that selects Pods by labels."""

    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def spec(self) -> _HasSelector: ...


def _orphan_in(one: HasMetadata) -> tuple[str, ...]:
    return () if one.metadata.controller else (one.metadata.namespace,)


POD_INDEXES = {"controller": by_controller, "orphan": _orphan_in}
"""Pods by the UID of their controller, and Pods without a controller by namespace."""


def selects(workload: Workload, pod: Pod) -> bool:
    selector = selectors.from_object(workload.spec.selector)
    return bool(workload.spec.selector) and selector.matches(pod.metadata.labels)


def adopters(
    workloads: Informer[Any], *, of_deleted: bool = False
) -> Callable[[Pod | None, Pod | None], list[Key]]:
    """Maps a Pod without controller to the workloads that would adopt it, by their index `namespace`.

    `of_deleted`: also from a Pod that was deleted, because a workload may need its name.
    """

    def keys(old: Pod | None, new: Pod | None) -> list[Key]:
        pod = old if new is None and of_deleted else new
        if pod is None or pod.metadata.controller is not None or not pod.metadata.labels:
            return []
        candidates = workloads.by("namespace", pod.metadata.namespace)
        return [one.metadata.key for one in candidates if selects(one, pod)]

    return keys


# ── availability ─────────────────────────────────────────────────────────────────────────
def available_in(pod: Pod, min_ready_seconds: int, now: datetime) -> timedelta | None:
    """How long until the Pod counts as available; None while it is not ready."""
    ready = pod.condition("Ready")
    if ready is None or ready.status != "True":
        return None
    if not min_ready_seconds or not ready.last_transition_time:
        return timedelta(0)
    since = parse_time(ready.last_transition_time)
    return max(since + timedelta(seconds=min_ready_seconds) - now, timedelta(0))


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    return available_in(pod, min_ready_seconds, now) == timedelta(0)


def until_available(pods: Iterable[Pod], min_ready_seconds: int, now: datetime) -> Plan:
    """Reconcile again when the next ready Pod becomes available."""
    if not min_ready_seconds:
        return NOTHING
    waits = [available_in(pod, min_ready_seconds, now) for pod in pods]
    pending = [wait for wait in waits if wait]
    return Plan(wait=Wait("ready Pods become available", min(pending))) if pending else NOTHING


# ── ownership ────────────────────────────────────────────────────────────────────────────
def adopt(resource: Resource, owner: ObjectMeta, pod: Pod, cause: ActionCause) -> Patch:
    """Make `owner` the controller of a Pod that has none."""
    owners = [*as_json(pod.metadata.owner_references), resource.controller_reference(owner)]
    return _own(pod, owners, cause)


def release(pod: Pod, cause: ActionCause) -> Patch:
    owners = [one for one in pod.metadata.owner_references if not one.controller]
    return _own(pod, as_json(owners), cause)


def _own(pod: Pod, owners: list[dict[str, Any]], cause: ActionCause) -> Patch:
    return Patch(
        PODS,
        pod.metadata.key,
        {"metadata": {"ownerReferences": owners or None}},
        cause,
        uid=pod.metadata.uid,
        resource_version=pod.metadata.resource_version,
    )


def pod_from_template(
    resource: Resource, owner: ObjectMeta, template: Mapping[str, Any], **names: str
) -> dict[str, Any]:
    """A Pod of a template, controlled by `owner`. `names` is its name or generateName."""
    meta = template.get("metadata") or {}
    kept = {name: meta[name] for name in ("labels", "annotations", "finalizers") if meta.get(name)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **names,
            "namespace": owner.namespace,
            **kept,
            "ownerReferences": [resource.controller_reference(owner)],
        },
        "spec": template.get("spec") or {},
    }
