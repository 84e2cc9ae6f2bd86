"""The head Pod: the user's template, completed."""

from __future__ import annotations

import msgspec

from manta.api.conditions import find
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType, RayCluster
from manta.api.ray.naming import fixed_pod_name, pod_name_prefix
from manta.manifests import gcs_fault_tolerance as fault_tolerance
from manta.manifests.autoscaler import add_version_env, build_autoscaler
from manta.manifests.containers import Json, add_env, copy_json, ray_container
from manta.manifests.gang import supports_scheduling_gates
from manta.manifests.history_collector import add_collector, history_annotations
from manta.manifests.pod_metadata import build_metadata, pod_annotations, pod_labels
from manta.manifests.ray_node import Node, add_credentials, complete_ray_container, head_address_env
from manta.manifests.ray_start import Params, complete_head, with_group_labels, with_group_resources
from manta.manifests.volumes import add_shared_memory, share_logs
from manta.rules.running_head import start_annotation
from manta.rules.settings import Settings
from manta.rules.suffix import suffix
from manta.rules.traits import (
    autoscaling,
    overwrites_command,
    pods_never_restart,
    service_account_name,
    submits_beside_head,
)


def head_pod_name(cluster: RayCluster, settings: Settings) -> str:
    """The name of the next head: a function of the cluster and of the head that it replaces, or of the edit that
    resumed the cluster.

    Every operator that replaces the same head computes the same name, so that the API server
    refuses a second one (C01), and a head never has the name of one before it (ADR 9).
    """
    meta = cluster.metadata
    if settings.deterministic_head_pod_name:
        return fixed_pod_name(meta.name, names.NODE_HEAD, suffix(meta.name))
    prefix = pod_name_prefix(meta.name, names.NODE_HEAD)
    follows = cluster.status.head.pod_name or _resumed_by(cluster)
    return f"{prefix}{suffix(meta.uid, names.NODE_HEAD, follows)}"


def _resumed_by(cluster: RayCluster) -> str:
    """The generation that resumed the cluster last; empty if it was never suspended."""
    suspended = find(cluster.status.conditions, ClusterConditionType.SUSPENDED)
    return str(suspended.observed_generation or "") if suspended else ""


def build_head_pod(cluster: RayCluster, settings: Settings, *, spec_hash: str) -> Json:
    group = cluster.spec.head_group_spec
    labels = pod_labels(
        cluster,
        group.template,
        node_type=names.NODE_HEAD,
        group=names.HEAD_GROUP,
        extra=group.labels,
    )
    annotations = pod_annotations(
        cluster,
        group.template,
        {
            **fault_tolerance.head_annotations(cluster),
            **history_annotations(cluster, settings),
            **start_annotation(cluster),
            names.ANNOTATION_RECREATE_HASH: spec_hash,
            names.ANNOTATION_OPERATOR_VERSION: settings.version,
        },
    )
    meta = build_metadata(
        cluster,
        group.template,
        settings,
        name=head_pod_name(cluster, settings),
        labels=labels,
        annotations=annotations,
    )
    keep_command = overwrites_command(annotations)
    spec = build_head_spec(cluster, settings, keep_command=keep_command)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def head_params(cluster: RayCluster) -> dict[str, str]:
    group = cluster.spec.head_group_spec
    params: Params = group.ray_start_params
    if group.resources:
        params = with_group_resources(params, group.resources)
    params = with_group_labels(params, group.labels)
    completed = complete_head(params, autoscaling=autoscaling(cluster.spec))
    return {**completed, **fault_tolerance.redis_params(cluster)}


def build_head_spec(cluster: RayCluster, settings: Settings, *, keep_command: bool) -> Json:
    node = Node(cluster, settings, head=True)
    params = head_params(cluster)
    spec: Json = copy_json(cluster.spec.head_group_spec.template.get("spec") or {})
    container = ray_container(spec)
    if autoscaling(cluster.spec):
        _add_autoscaler(node, spec, container)
    fault_tolerance.add_to_head(cluster, spec, container, params)
    add_credentials(node, spec, container)
    complete_ray_container(node, container, params, keep_command=keep_command)
    add_shared_memory(spec, params)
    add_collector(cluster, settings, spec, container, head=True, fqdn=node.fqdn)
    spec["containers"] += copy_json(settings.head_sidecar_containers)
    for init in spec.get("initContainers") or ():
        add_env(init, head_address_env(node))
    chosen_by_scheduler = not spec.get("nodeName")
    if submits_beside_head(cluster) and chosen_by_scheduler and supports_scheduling_gates(settings):
        _add_gate(spec)
    return spec


def _add_gate(spec: Json) -> None:
    """Add the scheduling gate: the Pod must not start before the status names it."""
    gates = spec.get("schedulingGates") or []
    spec["schedulingGates"] = [*gates, {"name": names.GATE_HEAD_NOTED}]


def _add_autoscaler(node: Node, spec: Json, container: Json) -> None:
    cluster = node.cluster
    spec["serviceAccountName"] = service_account_name(cluster)
    chosen = cluster.spec.autoscaler_options
    options = msgspec.to_builtins(chosen) if chosen else {}
    sidecar = build_autoscaler(
        cluster, spec, login_shell=node.settings.login_shell, options=options
    )
    spec["containers"].append(sidecar)
    add_version_env(cluster, container)
    if pods_never_restart(cluster.spec) and not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Never"
    share_logs(spec, (container, sidecar))
