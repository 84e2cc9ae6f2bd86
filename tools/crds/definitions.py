"""The four CustomResourceDefinitions: names, versions, columns, and the types behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
from tools.crds.alpha import Alpha
from tools.crds.schema import Dialect, Schema, struct_schema

from manta.api.ray.cluster import RayCluster
from manta.api.ray.cronjob import RayCronJob
from manta.api.ray.job import RayJob
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.ray.service import RayService
from manta.api.resources import Resource

Column = tuple[str, str, str, int]
"""Name, type, JSON path, priority (1 = only in wide output)."""


@dataclass(frozen=True)
class Kind:
    resource: Resource
    view: type[msgspec.Struct]
    columns: tuple[Column, ...]
    alpha: bool = False
    alpha_columns: tuple[Column, ...] = ()

    @property
    def name(self) -> str:
        return self.resource.group_resource


_CLUSTER_COLUMNS: tuple[Column, ...] = (
    ("desired workers", "integer", ".status.desiredWorkerReplicas", 0),
    ("available workers", "integer", ".status.availableWorkerReplicas", 0),
    ("cpus", "string", ".status.desiredCPU", 0),
    ("memory", "string", ".status.desiredMemory", 0),
    ("gpus", "string", ".status.desiredGPU", 0),
    ("tpus", "string", ".status.desiredTPU", 1),
    ("status", "string", ".status.state", 0),
    ("age", "date", ".metadata.creationTimestamp", 0),
    ("head pod IP", "string", ".status.head.podIP", 1),
    ("head service IP", "string", ".status.head.serviceIP", 1),
)

KINDS: tuple[Kind, ...] = (
    Kind(RAY_CLUSTERS, RayCluster, _CLUSTER_COLUMNS, alpha=True, alpha_columns=_CLUSTER_COLUMNS),
    Kind(
        RAY_JOBS,
        RayJob,
        (
            ("job status", "string", ".status.jobStatus", 0),
            ("deployment status", "string", ".status.jobDeploymentStatus", 0),
            ("ray cluster name", "string", ".status.rayClusterName", 0),
            ("start time", "string", ".status.startTime", 0),
            ("end time", "string", ".status.endTime", 0),
            ("age", "date", ".metadata.creationTimestamp", 0),
        ),
        alpha=True,
    ),
    Kind(
        RAY_SERVICES,
        RayService,
        (
            ("service status", "string", ".status.serviceStatus", 0),
            ("num serve endpoints", "string", ".status.numServeEndpoints", 0),
        ),
        alpha=True,
    ),
    Kind(
        RAY_CRON_JOBS,
        RayCronJob,
        (
            ("schedule", "string", ".spec.schedule", 0),
            ("timezone", "string", ".spec.timeZone", 0),
            ("last schedule", "date", ".status.lastScheduleTime", 0),
            ("age", "date", ".metadata.creationTimestamp", 0),
            ("suspend", "boolean", ".spec.suspend", 0),
        ),
    ),
)


def definition(kind: Kind) -> dict[str, Any]:
    resource = kind.resource
    versions = [_version(kind, "v1", Dialect(), kind.columns)]
    if kind.alpha:
        versions.append(_alpha_version(kind))
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.name},
        "spec": {
            "group": resource.group,
            "names": {
                "categories": ["all"],
                "kind": resource.kind,
                "listKind": f"{resource.kind}List",
                "plural": resource.plural,
                "singular": resource.kind.lower(),
            },
            "scope": "Namespaced",
            "versions": versions,
        },
    }


def _alpha_version(kind: Kind) -> dict[str, Any]:
    name = kind.resource.kind
    return {
        **_version(kind, "v1alpha1", Alpha(), kind.alpha_columns),
        "storage": False,
        "deprecated": True,
        "deprecationWarning": (
            f"ray.io/v1alpha1 {name} is deprecated; use ray.io/v1 {name}. v1alpha1 receives no new"
            " fields and will be unavailable in KubeRay 1.9."
        ),
    }


def _version(
    kind: Kind, name: str, dialect: Dialect, columns: tuple[Column, ...]
) -> dict[str, Any]:
    version: dict[str, Any] = {"name": name, "served": True, "storage": True}
    if columns:
        version["additionalPrinterColumns"] = [_column(column) for column in columns]
    version["subresources"] = {"status": {}}
    version["schema"] = {"openAPIV3Schema": _root_schema(kind.view, dialect)}
    return version


def _column(column: Column) -> dict[str, Any]:
    name, kind, path, priority = column
    printed: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    return {**printed, "priority": priority} if priority else printed


def _root_schema(view: type[msgspec.Struct], dialect: Dialect) -> Schema:
    spec, status = (
        struct_schema(field.type, dialect)
        for field in msgspec.structs.fields(view)
        if field.name in ("spec", "status")
    )
    text = {"type": "string"}
    return {
        "type": "object",
        # The SDK adds a line for each field below the first paragraph.
        "description": (view.__doc__ or "").partition("\n\n")[0],
        "properties": {
            "apiVersion": text,
            "kind": text,
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }
