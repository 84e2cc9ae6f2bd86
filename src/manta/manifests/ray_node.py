"""The Ray container of every node: command, environment, port and probes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.manifests.auth import add_auth
from manta.manifests.containers import (
    Json,
    add_env,
    add_missing_env,
    env_from_field,
    env_from_label,
    env_value,
)
from manta.manifests.history_collector import add_event_export
from manta.manifests.probes import add_probes
from manta.manifests.ray_start import Params, bash, container_args, render, with_container_resources
from manta.manifests.tls import add_tls, add_tls_volume, prepend_wait_container
from manta.rules.serve_config import serves_on_workers
from manta.rules.settings import Settings
from manta.rules.traits import Creator, creator, head_fqdn, head_port, tls


@dataclass(frozen=True, slots=True)
class Node:
    """What the containers of a cluster's head, or of its workers, are built from."""

    cluster: RayCluster
    settings: Settings
    head: bool

    @property
    def fqdn(self) -> str:
        """The DNS name of the head Service."""
        return head_fqdn(self.cluster, self.settings.cluster_domain)

    @property
    def port(self) -> str:
        """The port of the GCS."""
        return head_port(self.cluster.spec)

    @property
    def creator(self) -> Creator:
        """The kind of object that the cluster was created for."""
        return creator(self.cluster.metadata)


def complete_ray_container(
    node: Node, container: Json, params: Params, *, keep_command: bool
) -> None:
    """Complete the first container of a Ray Pod. `keep_command`: do not wrap the user's command in `ray start`."""
    command = render(with_container_resources(params, container), head=node.head)
    add_missing_env(container, node.settings.default_container_envs)
    _add_environment(node, container, command)
    if not keep_command and not _starts_ray_itself(container):
        _wrap_command(node, container, command)
    _add_metrics_port(container)
    if node.settings.inject_probes:
        add_probes(
            container,
            params,
            head=node.head,
            serving=serves_on_workers(node.cluster.metadata),
            ray_version=node.cluster.spec.ray_version,
        )


def add_credentials(node: Node, spec: Json, container: Json) -> None:
    """Add tokens and certificates to the Ray container and to the init containers `wait-gcs-ready`, even if the
    user wrote them."""
    inits = spec.get("initContainers") or ()
    waits = [one for one in inits if one.get("name") == names.CONTAINER_WAIT_GCS]
    for one in (container, *waits):
        add_auth(node.cluster, spec, one)
    if not tls(node.cluster.spec):
        return
    add_tls_volume(node.cluster, spec, head=node.head)
    for one in (container, *waits):
        add_tls(one)
    prepend_wait_container(spec)


def _starts_ray_itself(container: Mapping[str, Any]) -> bool:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return "ray start" in "".join(f" {word} " for word in words)


def _wrap_command(node: Node, container: Json, command: str) -> None:
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    container["command"] = bash(login=node.settings.login_shell)
    container["args"] = [container_args(command, words)]


def _add_environment(node: Node, container: Json, command: str) -> None:
    if not node.head:
        add_env(container, head_address_env(node))
    add_env(
        container,
        [
            env_from_label(names.ENV_CLUSTER_NAME, names.LABEL_CLUSTER),
            env_from_field(names.ENV_CLUSTER_NAMESPACE, "metadata.namespace"),
            env_from_field(names.ENV_CLOUD_INSTANCE_ID, "metadata.name"),
            env_from_label(names.ENV_NODE_TYPE_NAME, names.LABEL_GROUP),
            env_value(names.ENV_RAY_START_COMMAND, command),
        ],
    )
    add_missing_env(container, [env_value(names.ENV_RAY_PORT, node.port), *_serve_tuning(node)])
    host = "127.0.0.1" if node.head else node.fqdn
    add_missing_env(
        container,
        [
            env_value(names.ENV_RAY_ADDRESS, f"{host}:{node.port}"),
            env_value(names.ENV_USAGE_STATS_IN_USE, "1"),
        ],
    )
    if node.head:
        tags = f"kuberay_version={node.settings.version};kuberay_crd={node.creator}"
        add_env(container, [env_value(names.ENV_USAGE_STATS_TAGS, tags)])
    add_missing_env(container, [env_value(names.ENV_DASHBOARD_K8S_DISK_USAGE, "1")])
    add_event_export(node.cluster, node.settings, container)


def head_address_env(node: Node) -> list[Json]:
    fqdn = node.fqdn
    return [
        env_value(names.ENV_FQ_RAY_IP, fqdn),
        env_value(names.ENV_RAY_IP, fqdn.split(".", 1)[0]),
    ]


def _serve_tuning(node: Node) -> list[Json]:
    """For a RayService: timeouts that detect a lost head within seconds."""
    if node.creator is not Creator.SERVICE:
        return []
    return [
        env_value(names.ENV_SERVE_TASK_DEATH_INFO_TIMEOUT, "0"),
        env_value(names.ENV_GCS_REQUEST_TIMEOUT, "5"),
        env_value(names.ENV_SERVE_KV_TIMEOUT, "5"),
    ]


def _add_metrics_port(container: Json) -> None:
    ports = container.get("ports") or []
    if not any(port.get("name") == names.PORT_NAME_METRICS for port in ports):
        added = {"name": names.PORT_NAME_METRICS, "containerPort": names.PORT_METRICS}
        container["ports"] = [*ports, added]
