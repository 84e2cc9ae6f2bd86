"""The Services of a RayCluster: for the head, for multi-host workers, and for Ray Serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.naming import check_label
from manta.manifests.containers import Json, copy_json
from manta.manifests.head_target import head_ports, head_selector
from manta.manifests.ownership import owned_by
from manta.manifests.propagated_metadata import propagated_metadata
from manta.rules.settings import Settings
from manta.rules.traits import head_service_name

_OF_ONE_SERVICE: Final = frozenset(
    ("clusterIP", "clusterIPs", "loadBalancerIP", "healthCheckNodePort")
)


def build_head_service(cluster: RayCluster, settings: Settings, head: Pod | None = None) -> Json:
    """The head Service. `head` is the existing head Pod, if any, which it selects."""
    selector = head_selector(cluster, head)
    ports = _service_ports(head_ports(cluster, head))
    if custom := cluster.spec.head_group_spec.head_service:
        manifest = _customised(cluster, custom, selector, ports)
    else:
        manifest = _standard(cluster, settings, selector, ports)
    return owned_by(cluster, manifest)


def _standard(
    cluster: RayCluster, settings: Settings, selector: Mapping[str, str], ports: list[Json]
) -> Json:
    type_ = cluster.spec.head_group_spec.service_type or "ClusterIP"
    by_name = sorted(ports, key=lambda port: port["name"])
    spec: Json = {"type": type_, "selector": dict(selector), "ports": by_name}
    if type_ == "ClusterIP" and not settings.head_cluster_ip_service:
        # Workers must resolve the head before it is Ready: its readiness may need them (C80).
        spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    meta = _meta(cluster, head_service_name(cluster), selector)
    return _service(propagated_metadata(meta, cluster.spec.head_service_annotations, {}), spec)


def _customised(
    cluster: RayCluster, custom: Mapping[str, Any], selector: Mapping[str, str], ports: list[Json]
) -> Json:
    """The user's own head Service, with our selector and the ports that it lacks."""
    user_meta, spec = custom.get("metadata") or {}, copy_json(custom.get("spec") or {})
    annotations = {**(user_meta.get("annotations") or {}), **cluster.spec.head_service_annotations}
    meta = _meta(cluster, head_service_name(cluster), selector)
    known = {port.get("name") for port in spec.get("ports") or ()}
    taken = {port.get("port") for port in spec.get("ports") or ()}
    # KubeRay appends a port that the user listed already, which the API server refuses.
    missing = [port for port in ports if port["name"] not in known and port["port"] not in taken]
    spec["ports"] = [*(spec.get("ports") or ()), *missing]
    spec["selector"] = dict(selector)
    spec.setdefault("type", cluster.spec.head_group_spec.service_type or "ClusterIP")
    return _service(propagated_metadata(meta, annotations, user_meta.get("labels") or {}), spec)


def build_second_head_service(
    cluster: RayCluster, settings: Settings, head: Pod | None = None
) -> Json:
    """The head Service with a stable name, beside the RayCluster's own, which keeps the addresses that the user
    chose: no two Services can have the same."""
    service = build_head_service(cluster, settings, head)
    spec = {name: one for name, one in service["spec"].items() if name not in _OF_ONE_SERVICE}
    if service["spec"].get("clusterIP") == "None":
        spec["clusterIP"] = "None"
    spec["ports"] = [
        {name: one for name, one in port.items() if name != "nodePort"} for port in spec["ports"]
    ]
    return {**service, "spec": spec}


def custom_head_annotations(cluster: RayCluster) -> dict[str, str]:
    """Annotations of `headService.metadata`. The stable head Services of a RayService or RayJob have them too:
    one of them may keep a load balancer internal."""
    custom = (cluster.spec.head_group_spec.head_service or {}).get("metadata") or {}
    return dict(custom.get("annotations") or {})


def build_headless_service(cluster: RayCluster) -> Json:
    """The headless Service that gives the hosts of a multi-host replica DNS names."""
    name = cluster.metadata.name
    meta = _meta(cluster, f"{name}-headless", {names.LABEL_HEADLESS_WORKER_SERVICE: name})
    selector = {names.LABEL_CLUSTER: name, names.LABEL_NODE_TYPE: names.NODE_WORKER}
    spec = {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True}
    return owned_by(cluster, _service(meta, {"type": "ClusterIP", **spec}))


def build_serve_service(cluster: RayCluster, head: Pod | None = None) -> Json:
    name = cluster.metadata.name
    labels = {
        names.LABEL_ORIGIN_NAME: name,
        names.LABEL_ORIGIN_KIND: "RayCluster",
        names.LABEL_SERVE: check_label(f"{name}-serve"),
    }
    spec = {
        "type": cluster.spec.head_group_spec.service_type or "ClusterIP",
        "selector": {names.LABEL_CLUSTER: name},
        "ports": serve_ports(cluster, head),
    }
    return owned_by(cluster, _service(_meta(cluster, f"{name}-serve-svc", labels), spec))


def serve_ports(cluster: RayCluster, head: Pod | None = None) -> list[Json]:
    """The ports `serve` and `serve-*`, such as `serve-grpc`; empty if the head declares none."""
    return [
        {"name": name, "port": port, "protocol": "TCP", "targetPort": port}
        for name, port in sorted(head_ports(cluster, head).items())
        if name == names.PORT_NAME_SERVE or name.startswith(f"{names.PORT_NAME_SERVE}-")
    ]


def wants_serve_service(cluster: RayCluster) -> bool:
    value = cluster.metadata.annotations.get(names.ANNOTATION_ENABLE_SERVE_SERVICE, "")
    return value.lower() == "true"


def wants_headless_service(cluster: RayCluster) -> bool:
    return any(group.num_of_hosts > 1 for group in cluster.spec.worker_group_specs)


def _service_ports(numbers: Mapping[str, int]) -> list[Json]:
    """The ports of a head, by name, as a Service lists them."""
    return [
        {"name": name, "port": port, "protocol": "TCP", "targetPort": port, "appProtocol": "tcp"}
        for name, port in numbers.items()
    ]


def _meta(cluster: RayCluster, name: str, labels: Mapping[str, str]) -> Json:
    return {"name": name, "namespace": cluster.metadata.namespace, "labels": dict(labels)}


def _service(meta: Json, spec: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}
