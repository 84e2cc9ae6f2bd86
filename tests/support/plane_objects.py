"""Builders for the objects that the built-in controllers read: one line per object in a test."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from manta.api.times import format_time
from manta.localplane.builtin import views

NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


def ago(seconds: float) -> str:
    return format_time(NOW - timedelta(seconds=seconds))


def a_pod(
    name: str = "p",
    *,
    cpu: str | None = None,
    memory: str | None = None,
    labels: dict[str, str] | None = None,
    node: str = "",
    phase: str = "Pending",
    ready: bool = False,
    meta: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> views.Pod:
    requests = {
        key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None
    }
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    conditions = (
        [{"type": "Ready", "status": "True", "lastTransitionTime": ago(0)}] if ready else []
    )
    manifest = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": labels or {},
            "creationTimestamp": ago(60),
            **(meta or {}),
        },
        "spec": {"nodeName": node, "containers": [container], **spec},
        "status": {"phase": phase, "conditions": conditions, **(status or {})},
    }
    return msgspec.convert(manifest, views.Pod)


def a_node(
    name: str = "n1",
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    labels: dict[str, str] | None = None,
    taints: list[dict[str, str]] | None = None,
    ready: str = "True",
    unschedulable: bool = False,
) -> views.Node:
    manifest = {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels or {}},
        "spec": {"taints": taints or [], "unschedulable": unschedulable},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    return msgspec.convert(manifest, views.Node)


def owned_by(kind: str, name: str, uid: str, *, api_version: str = "batch/v1") -> dict[str, Any]:
    """The metadata of a dependent, with its controller."""
    return {
        "ownerReferences": [
            {
                "apiVersion": api_version,
                "kind": kind,
                "name": name,
                "uid": uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    }


def a_job(
    name: str = "j",
    *,
    status: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    **spec: Any,
) -> views.Job:
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"restartPolicy": "Never", "containers": []},
    }
    manifest = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **(meta or {})},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "template": template,
            **spec,
        },
        "status": status or {},
    }
    return msgspec.convert(manifest, views.Job)


def a_job_pod(
    name: str, phase: str = "Running", *, ended: float = 0, tracked: bool = True, **more: Any
) -> views.Pod:
    """A Pod of the Job `j`; `ended` says how many seconds ago its container did."""
    meta = owned_by("Job", "j", "uid-j")
    if tracked:
        meta["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    over = {"terminated": {"exitCode": 0, "finishedAt": ago(ended)}}
    state = over if phase in ("Succeeded", "Failed") else {"running": {}}
    status = {"containerStatuses": [{"name": "c", "state": state, **more.pop("container", {})}]}
    return a_pod(name, phase=phase, meta={**meta, **more.pop("meta", {})}, status=status, **more)


def a_deployment(
    name: str = "d",
    *,
    status: dict[str, Any] | None = None,
    meta: dict[str, Any] | None = None,
    **spec: Any,
) -> views.Deployment:
    manifest = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "generation": 1,
            **(meta or {}),
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": a_template("v1", name),
            "progressDeadlineSeconds": 600,
            **spec,
        },
        "status": status or {},
    }
    return msgspec.convert(manifest, views.Deployment)


def a_template(image: str = "v1", app: str = "d") -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }


def a_replica_set(
    name: str = "r",
    replicas: int = 1,
    *,
    available: int = 0,
    meta: dict[str, Any] | None = None,
    **spec: Any,
) -> views.ReplicaSet:
    """A ReplicaSet of the Deployment `d` all of whose Pods exist."""
    counts = {"replicas": replicas, "readyReplicas": available, "availableReplicas": available}
    manifest = {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "generation": 1,
            "creationTimestamp": ago(60),
            **owned_by("Deployment", "d", "uid-d", api_version="apps/v1"),
            **(meta or {}),
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "d"}},
            "template": a_template(),
            **spec,
        },
        "status": counts,
    }
    return msgspec.convert(manifest, views.ReplicaSet)
