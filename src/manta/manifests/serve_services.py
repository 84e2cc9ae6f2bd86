"""The Services of a RayService: for the head, for requests, and one per cluster for a traffic split.

The first two have stable names; an upgrade changes their selectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.naming import check_label
from manta.api.ray.service import RayService
from manta.manifests.containers import Json, copy_json
from manta.manifests.head_target import head_ports
from manta.manifests.ownership import owned_by
from manta.manifests.propagated_metadata import propagated_metadata
from manta.manifests.service_cluster import origin_labels, service_reference
from manta.manifests.services import build_second_head_service, custom_head_annotations, serve_ports
from manta.rules.settings import Settings


def head_service_name(service: RayService) -> str:
    return f"{service.metadata.name}-head-svc"


def serve_service_name(service: RayService) -> str:
    custom = (service.spec.serve_service or {}).get("metadata") or {}
    return custom.get("name") or f"{service.metadata.name}-serve-svc"


def cluster_serve_service_name(cluster_name: str) -> str:
    return f"{cluster_name}-serve-svc"


def build_service_head_service(
    service: RayService, cluster: RayCluster, settings: Settings, head: Pod | None = None
) -> Json:
    """`<rayservice>-head-svc`: a stable name for the head of the serving cluster."""
    manifest = build_second_head_service(cluster, settings, head)
    name = service.metadata.name
    labels = {
        **origin_labels(service),
        names.LABEL_NODE_TYPE: names.NODE_HEAD,
        names.LABEL_IDENTIFIER: check_label(f"{name}-head"),
    }
    meta = _meta(service, head_service_name(service), labels)
    manifest["metadata"] = propagated_metadata(meta, custom_head_annotations(cluster), {})
    return manifest


def build_serve_service(service: RayService, cluster: RayCluster, head: Pod | None = None) -> Json:
    """`<rayservice>-serve-svc`, or the user's own: selects the Pods of the serving cluster."""
    custom = service.spec.serve_service or {}
    user_meta, spec = custom.get("metadata") or {}, copy_json(custom.get("spec") or {})
    spec |= {
        "selector": serve_selector(cluster.metadata.name),
        "ports": _ports(serve_ports(cluster, head), spec.get("ports") or ()),
    }
    spec.setdefault("type", cluster.spec.head_group_spec.service_type or "ClusterIP")
    labels = {**(user_meta.get("labels") or {}), **_serve_labels(service, service.metadata.name)}
    meta = _meta(service, serve_service_name(service), labels)
    meta = propagated_metadata(meta, user_meta.get("annotations") or {}, {})
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def build_shared_serve_service(
    service: RayService, cluster: RayCluster, head: Pod | None = None
) -> Json:
    """The same Service during a canary: selects the Pods of both clusters that were chosen to serve."""
    manifest = build_serve_service(service, cluster, head)
    manifest["spec"]["selector"] = shared_selector(service)
    return manifest


def build_cluster_serve_service(
    service: RayService, cluster: RayCluster, head: Pod | None = None
) -> Json:
    """The Service of one cluster, as a weighted backend of the HTTPRoute."""
    name = cluster.metadata.name
    meta = {
        "name": cluster_serve_service_name(name),
        "namespace": cluster.metadata.namespace,
        # Named after the cluster, as in KubeRay, so that a selector distinguishes the two Services.
        "labels": {**_serve_labels(service, name), names.LABEL_ORIGIN_NAME: name},
    }
    spec = {
        "type": cluster.spec.head_group_spec.service_type or "ClusterIP",
        "selector": serve_selector(name),
        "ports": serve_ports(cluster, head),
    }
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
    return owned_by(cluster, manifest)


def serve_selector(cluster_name: str) -> dict[str, str]:
    """Selects Pods with a working Serve proxy: workers always, the head while its label says so."""
    return {names.LABEL_CLUSTER: cluster_name, names.LABEL_SERVE: names.SERVE_TRUE}


def shared_selector(service: RayService) -> dict[str, str]:
    return {names.LABEL_SERVING: service.metadata.name, names.LABEL_SERVE: names.SERVE_TRUE}


def serve_port(cluster: RayCluster, head: Pod | None) -> int:
    """The HTTP port: `serve`, or Ray's default."""
    return head_ports(cluster, head).get(names.PORT_NAME_SERVE, names.PORT_SERVE)


def _ports(found: list[Json], wished: Any) -> list[Json]:
    """The head's ports; a port of the same name in the user's Service wins."""
    by_name = {port.get("name"): port for port in wished}
    if not found:
        return [copy_json(port) for port in wished]
    return [copy_json(by_name.get(port["name"], port)) for port in found]


def _serve_labels(service: RayService, name: str) -> dict[str, str]:
    return {**origin_labels(service), names.LABEL_SERVE: check_label(f"{name}-serve")}


def _meta(service: RayService, name: str, labels: Mapping[str, str]) -> Json:
    return {
        "name": name,
        "namespace": service.metadata.namespace,
        "labels": dict(labels),
        "ownerReferences": [service_reference(service)],
    }
