"""The history collector: a sidecar that uploads logs and events before the Pod is deleted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.well_known import ANNOTATION_KEEP_VOLUME, ANNOTATION_POSTS_PORT
from manta.manifests.auth import add_auth
from manta.manifests.containers import (
    Json,
    add_env,
    add_missing_env,
    copy_json,
    env_from_field,
    env_value,
)
from manta.rules.settings import Settings

HISTORY_BY_NODE: Final = "node"
"""The value of `--history-store` on `manta up`."""
_EVENTS_URL = f"http://localhost:{names.PORT_COLLECTOR_EVENTS}/v1/events"
_EVENT_TYPES = (
    "TASK_DEFINITION_EVENT,TASK_LIFECYCLE_EVENT,ACTOR_TASK_DEFINITION_EVENT,TASK_PROFILE_EVENT,"
    "DRIVER_JOB_DEFINITION_EVENT,DRIVER_JOB_LIFECYCLE_EVENT,ACTOR_DEFINITION_EVENT,"
    "ACTOR_LIFECYCLE_EVENT,NODE_DEFINITION_EVENT,NODE_LIFECYCLE_EVENT"
)
_WORKER_EVENT_TYPES = "WORKER_DEFINITION_EVENT,WORKER_LIFECYCLE_EVENT"
_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "64Mi"},
    "limits": {"cpu": "200m", "memory": "256Mi"},
}


def collector_options(cluster: RayCluster) -> Mapping[str, Any] | None:
    """The collector's options as the user wrote them; None if the cluster keeps no history."""
    options = cluster.spec.history_server_options
    if options is None or options.collector_options is None:
        return None
    plain: Mapping[str, Any] = msgspec.to_builtins(options.collector_options)
    return plain


def _wants_history(cluster: RayCluster) -> bool:
    """A collector of the user's own goes first."""
    refused = cluster.metadata.annotations.get(names.ANNOTATION_HISTORY, "") == "false"
    return collector_options(cluster) is None and not refused


def kept_by_sidecar(cluster: RayCluster, settings: Settings) -> bool:
    """Whether a sidecar of ours ships the history of this cluster."""
    chosen = settings.history_store not in ("", HISTORY_BY_NODE) and bool(settings.history_image)
    return chosen and _wants_history(cluster)


def exports_events(cluster: RayCluster, settings: Settings) -> bool:
    """Whether somebody takes the events of this cluster's Ray nodes."""
    return (
        collector_options(cluster) is not None
        or kept_by_node(cluster, settings)
        or kept_by_sidecar(cluster, settings)
    )


def build_sidecar(cluster: RayCluster, settings: Settings, *, head: bool, fqdn: str) -> Json:
    """`manta collect` as a native sidecar: it starts before Ray and ends after it.

    The Secret `manta-history` of the namespace may hold the credentials of the store.
    """
    container: Json = {
        "name": names.CONTAINER_HISTORY,
        "image": settings.history_image,
        "command": ["manta", "collect"],
        "restartPolicy": "Always",
        "resources": copy_json(_RESOURCES),
        "envFrom": [{"secretRef": {"name": names.SECRET_HISTORY, "optional": True}}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    add_env(container, _environment(cluster, head=head, fqdn=fqdn))
    add_env(
        container,
        [
            env_from_field(names.ENV_POD_NAME, "metadata.name"),
            env_value(names.ENV_HISTORY_STORE, settings.history_store),
            env_value(names.ENV_RAY_VERSION, cluster.spec.ray_version or ""),
        ],
    )
    return container


def kept_by_node(cluster: RayCluster, settings: Settings) -> bool:
    """Whether the node agent keeps the history of this cluster."""
    return settings.history_store == HISTORY_BY_NODE and _wants_history(cluster)


def history_annotations(cluster: RayCluster, settings: Settings) -> dict[str, str]:
    """What the node agent, and whoever reads what it kept, must know of a Pod."""
    if not kept_by_node(cluster, settings):
        return {}
    meta = cluster.metadata
    kind = (meta.labels.get(names.LABEL_ORIGIN_KIND) or RAY_CLUSTERS.kind).lower()
    name = meta.labels.get(names.LABEL_ORIGIN_NAME) or meta.name
    return {
        ANNOTATION_KEEP_VOLUME: names.VOLUME_LOGS,
        ANNOTATION_POSTS_PORT: str(names.PORT_COLLECTOR_EVENTS),
        names.ANNOTATION_HISTORY: f"{kind}/{name}/{meta.name}",
        names.ANNOTATION_HISTORY_RAY_VERSION: cluster.spec.ray_version or "",
    }


def add_event_export(container: Json, *, ours: bool = False, promptly: bool = False) -> None:
    """Configure this Ray node to send its events to localhost.

    `ours`: those of workers too, which KubeRay's collector does not get. `promptly`: twice a second instead
    of once.
    """
    types = f"{_EVENT_TYPES},{_WORKER_EVENT_TYPES}" if ours else _EVENT_TYPES
    if promptly:
        add_missing_env(container, [env_value(names.ENV_TASK_EVENTS_INTERVAL, "500")])
    add_missing_env(
        container,
        [
            env_value(names.ENV_ENABLE_RAY_EVENT, "true"),
            env_value(names.ENV_ENABLE_CORE_WORKER_EVENTS, "true"),
            env_value(names.ENV_EVENTS_EXPORT_ADDRESS, _EVENTS_URL),
            env_value(names.ENV_PUBLISHER_EVENT_TYPES, types),
            env_value(names.ENV_EXPOSABLE_EVENT_TYPES, types),
        ],
    )


def build_collector(
    cluster: RayCluster, pod_spec: Json, options: Mapping[str, Any], *, head: bool, fqdn: str
) -> Json:
    container: Json = {
        "name": names.CONTAINER_COLLECTOR,
        "imagePullPolicy": "IfNotPresent",
        "resources": copy_json(_RESOURCES),
        **{key: copy_json(value) for key, value in options.items() if key != "env"},
    }
    add_env(container, _environment(cluster, head=head, fqdn=fqdn))
    add_env(container, options.get("env") or ())
    add_auth(cluster, pod_spec, container)
    return container


def _environment(cluster: RayCluster, *, head: bool, fqdn: str) -> list[Json]:
    meta = cluster.metadata
    env = [
        env_from_field(names.ENV_POD_IP, "status.podIP"),
        env_value(names.ENV_CLUSTER_NAME, meta.name),
        env_value(names.ENV_CLUSTER_NAMESPACE, meta.namespace),
        env_value(names.ENV_RAY_ROLE, "Head" if head else "Worker"),
        env_value(names.ENV_EVENTS_PORT, str(names.PORT_COLLECTOR_EVENTS)),
        env_value(names.ENV_FQ_RAY_IP, fqdn),
    ]
    for name, label in (
        (names.ENV_OWNER_KIND, names.LABEL_ORIGIN_KIND),
        (names.ENV_OWNER_NAME, names.LABEL_ORIGIN_NAME),
    ):
        if meta.labels.get(label):
            env.append(env_value(name, meta.labels[label]))
    if head:
        env.append(
            env_value(names.ENV_DASHBOARD_ADDRESS, f"http://localhost:{names.PORT_DASHBOARD}")
        )
    return env
