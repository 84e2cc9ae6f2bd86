"""Builders for StatefulSets, DaemonSets, CronJobs and their revisions and Pods."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.meta import ObjectMeta
from manta.api.revisions import ControllerRevision
from manta.localplane.builtin import views, workload_views
from manta.localplane.builtin.deployment.snapshot import template_hash
from manta.localplane.builtin.revisions import revision_data, revision_name
from support.plane_objects import a_pod, a_template, ago, owned_by


def _meta(name: str, more: dict[str, Any] | None) -> dict[str, Any]:
    base = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    return {**base, "creationTimestamp": ago(3600), **(more or {})}


def a_revision(owner: str, template: dict[str, Any], number: int = 1) -> ControllerRevision:
    name = revision_name(ObjectMeta(name=owner), template)
    document = {"metadata": _meta(name, None), "revision": number, "data": revision_data(template)}
    return msgspec.convert(document, ControllerRevision)


def a_claim(name: str, **meta: Any) -> views.Claim:
    return msgspec.convert({"metadata": _meta(name, {"resourceVersion": "1", **meta})}, views.Claim)


# ── StatefulSet ──────────────────────────────────────────────────────────────────────────
def a_stateful_set(
    *, status: dict[str, Any] | None = None, meta: dict[str, Any] | None = None, **spec: Any
) -> workload_views.StatefulSet:
    document = {
        "metadata": _meta("s", meta),
        "spec": {
            "replicas": 1,
            "serviceName": "peers",
            "selector": {"matchLabels": {"app": "s"}},
            "template": a_template("v1", "s"),
            **spec,
        },
        "status": status or {},
    }
    return msgspec.convert(document, workload_views.StatefulSet)


def a_member(ordinal: int, image: str = "v1", **more: Any) -> views.Pod:
    """A ready Pod of the StatefulSet `s`, unless the arguments say otherwise."""
    revision = revision_name(ObjectMeta(name="s"), a_template(image, "s"))
    meta = {**owned_by("StatefulSet", "s", "uid-s", api_version="apps/v1"), **more.pop("meta", {})}
    labels = more.pop("labels", {"app": "s", "controller-revision-hash": revision})
    settings: dict[str, Any] = {"phase": "Running", "ready": True, **more}
    return a_pod(f"s-{ordinal}", labels=labels, meta=meta, **settings)


# ── DaemonSet ────────────────────────────────────────────────────────────────────────────
def a_daemon_set(*, meta: dict[str, Any] | None = None, **spec: Any) -> workload_views.DaemonSet:
    document = {
        "metadata": _meta("d", meta),
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": a_template("v1", "d"),
            **spec,
        },
    }
    return msgspec.convert(document, workload_views.DaemonSet)


def a_daemon(name: str, node: str, image: str = "v1", **more: Any) -> views.Pod:
    """A ready Pod of the DaemonSet `d` on a node, unless the arguments say otherwise."""
    mark = template_hash(a_template(image, "d"))
    meta = {**owned_by("DaemonSet", "d", "uid-d", api_version="apps/v1"), **more.pop("meta", {})}
    settings: dict[str, Any] = {"phase": "Running", "ready": True, "node": node, **more}
    return a_pod(name, labels={"app": "d", "controller-revision-hash": mark}, meta=meta, **settings)


# ── CronJob ──────────────────────────────────────────────────────────────────────────────
def a_cron_job(
    *, status: dict[str, Any] | None = None, meta: dict[str, Any] | None = None, **spec: Any
) -> workload_views.CronJob:
    document = {
        "metadata": _meta("c", meta),
        "spec": {
            "schedule": "*/10 * * * *",
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {}}},
            **spec,
        },
        "status": status or {},
    }
    return msgspec.convert(document, workload_views.CronJob)
