"""The RayCluster of a RayService, with annotations that identify the spec that it was created from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manta.api.numbers import parse_count
from manta.api.ray import names
from manta.api.ray.cluster import RayClusterSpec
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.ray.service import RayService
from manta.api.well_known import ANNOTATION_LAST_APPLIED
from manta.manifests.containers import Json, copy_json
from manta.rules.serve_config import ON_HEAD_ONLY, has_proxies_on_workers, parse_serve_config
from manta.rules.spec_hash import spec_hash
from manta.rules.traits import autoscaling
from manta.rules.validation.violation import Violation

# Annotations that belong to the RayService alone.
_NOT_COPIED = (
    ANNOTATION_LAST_APPLIED,
    names.ANNOTATION_CANARY,
    names.ANNOTATION_CANARY_PAUSE,
    names.ANNOTATION_CANARY_PROMOTE,
    names.ANNOTATION_CANARY_ABORT,
)


def build_service_cluster(
    service: RayService,
    cluster_spec: Mapping[str, Any],
    name: str,
    version: str,
    *,
    from_smallest: bool = False,
) -> Json:
    """The RayCluster. `cluster_spec` is what the user wrote, copied unchanged.

    `from_smallest`: start with `minReplicas`; the autoscaler adds workers. For the pending cluster of an incremental
    upgrade, which needs no capacity yet.
    """
    spec = copy_json(cluster_spec)
    if from_smallest:
        for group in spec.get("workerGroupSpecs") or ():
            group.pop("replicas", None)
    annotations = {
        key: text for key, text in service.metadata.annotations.items() if key not in _NOT_COPIED
    }
    if not _workers_take_requests(service):
        annotations[names.ANNOTATION_SERVE_PROXIES] = ON_HEAD_ONLY
    return {
        "apiVersion": RAY_CLUSTERS.api_version,
        "kind": RAY_CLUSTERS.kind,
        "metadata": {
            "name": name,
            "namespace": service.metadata.namespace,
            "labels": {**service.metadata.labels, **origin_labels(service)},
            "annotations": annotations | identity(service, version),
            "ownerReferences": [service_reference(service)],
        },
        "spec": spec,
    }


_NO_NUMBER = "by manta"
"""KubeRay compares a pending cluster's hash with its own, whichever operator wrote it, and starts the upgrade
again if they differ; but it accepts a cluster whose group count it cannot parse. So an upgrade that is handed
back to KubeRay goes on with the existing cluster."""


def _workers_take_requests(service: RayService) -> bool:
    config = parse_serve_config(service.spec.serve_config_v2)
    return isinstance(config, Violation) or has_proxies_on_workers(config)


def identity(service: RayService, version: str) -> dict[str, str]:
    """The annotations that identify the spec which a cluster was created from."""
    spec = service.spec.ray_cluster_config
    replicas = {} if autoscaling(spec) else {names.ANNOTATION_REPLICAS: ",".join(_replicas(spec))}
    return {
        names.ANNOTATION_SPEC_HASH: spec_hash(spec),
        names.ANNOTATION_WORKER_GROUP_COUNT: f"{len(spec.worker_group_specs)} {_NO_NUMBER}",
        names.ANNOTATION_OPERATOR_VERSION: version,
        **replicas,
    }


def _replicas(spec: RayClusterSpec) -> list[str]:
    groups = spec.worker_group_specs
    return [f"{one.group_name}={one.replicas}" for one in groups if one.replicas is not None]


def replicas_asked_for(annotations: Mapping[str, str]) -> dict[str, int] | None:
    """The replicas by group when the RayService last wrote its cluster; None: unknown."""
    text = annotations.get(names.ANNOTATION_REPLICAS)
    if text is None:
        return None
    pairs = (one.partition("=") for one in text.split(",") if one)
    return {name: int(number) for name, _, number in pairs if number.isdecimal()}


def groups_made_with(annotations: Mapping[str, str]) -> int | None:
    """How many worker groups the spec had when the cluster was created; None: unknown."""
    count = annotations.get(names.ANNOTATION_WORKER_GROUP_COUNT, "").partition(" ")[0]
    return parse_count(count)


def origin_labels(service: RayService) -> dict[str, str]:
    return {
        names.LABEL_ORIGIN_NAME: service.metadata.name,
        names.LABEL_ORIGIN_KIND: RAY_SERVICES.kind,
    }


def service_reference(service: RayService) -> Json:
    return RAY_SERVICES.controller_reference(service.metadata)
