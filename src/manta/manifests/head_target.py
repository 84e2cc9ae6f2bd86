"""The labels that select the head, and the ports on which it listens.

A running head takes precedence over the spec: an edit of the head's template does not change a running Pod. While a
head Pod exists, its own labels and ports are used, until a head created from the edited spec replaces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from manta.api.core import Pod
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.well_known import LABEL_APP_CREATED_BY, LABEL_APP_NAME
from manta.manifests.pod_metadata import pod_labels
from manta.rules.traits import ray_container_of

DEFAULT_PORTS: Mapping[str, int] = {
    names.PORT_NAME_CLIENT: names.PORT_CLIENT,
    names.PORT_NAME_GCS: names.PORT_GCS,
    names.PORT_NAME_DASHBOARD: names.PORT_DASHBOARD,
    names.PORT_NAME_METRICS: names.PORT_METRICS,
    names.PORT_NAME_SERVE: names.PORT_SERVE,
}

# The head Service selects by these. A template may override the last three, so their values come from the
# labels that the head Pod really gets.
_SELECTED_BY = (
    names.LABEL_CLUSTER,
    names.LABEL_NODE_TYPE,
    names.LABEL_IDENTIFIER,
    LABEL_APP_NAME,
    LABEL_APP_CREATED_BY,
)


def head_selector(cluster: RayCluster, head: Pod | None = None) -> dict[str, str]:
    """The labels that select `head`, or the head that the spec would create."""
    labels = head.metadata.labels if head else _labels_of_spec(cluster)
    return {key: labels[key] for key in _SELECTED_BY if key in labels}


def _labels_of_spec(cluster: RayCluster) -> Mapping[str, str]:
    group = cluster.spec.head_group_spec
    return pod_labels(
        cluster,
        group.template,
        node_type=names.NODE_HEAD,
        group=names.HEAD_GROUP,
        extra=group.labels,
    )


def head_ports(cluster: RayCluster, head: Pod | None = None) -> dict[str, int]:
    """Port numbers by name: what `head` listens on, and what the spec adds to it.

    If the spec has another number for a name, the head's number stays. A port that only the head declares stays,
    unless the spec has another name for its number.
    """
    wanted = _ports_of_spec(cluster)
    if head is None:
        return wanted
    declared = declared_head_ports(cluster, head)
    known = (
        declared if declared.keys() - {names.PORT_NAME_METRICS} else {**DEFAULT_PORTS, **declared}
    )
    ports = {name: known[name] for name in wanted if name in known}
    for name, number in (*wanted.items(), *declared.items()):
        if name not in ports and number not in ports.values():
            ports[name] = number
    return ports


def declared_head_ports(cluster: RayCluster, head: Pod) -> dict[str, int]:
    """The ports of the Ray container of a head Pod; the metrics port is always among them.

    The container is found by its name, because a webhook may insert a sidecar before it. If the name in the spec was
    edited since, it is the first container.
    """
    name = ray_container_of(cluster.spec.head_group_spec.template).get("name")
    containers = head.spec.containers
    named = (one for one in containers if one.name == name)
    container = next(named, containers[0] if containers else None)
    declared = container.ports if container else ()
    return _by_name((one.name, one.container_port) for one in declared)


def _ports_of_spec(cluster: RayCluster) -> dict[str, int]:
    """The container's ports, or Ray's defaults if it names none."""
    declared = ray_container_of(cluster.spec.head_group_spec.template).get("ports") or ()
    if not declared:
        return dict(DEFAULT_PORTS)
    ports = _by_name((one.get("name") or "", int(one["containerPort"])) for one in declared)
    if names.PORT_METRICS not in ports.values():
        ports.setdefault(names.PORT_NAME_METRICS, names.PORT_METRICS)
    return ports


def _by_name(declared: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Each number once, by its first name: the API server refuses a Service with duplicates."""
    ports: dict[str, int] = {}
    for name, number in declared:
        if number not in ports.values():
            ports[name or f"{number}-port"] = number
    return ports
