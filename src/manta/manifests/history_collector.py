"""The history collector: a sidecar that ships logs and events before the Pod is gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.manifests.auth import add_auth
from manta.manifests.containers import (
    Json,
    add_env,
    add_missing_env,
    copy_json,
    env_from_field,
    env_value,
)

_EVENTS_URL = f"http://localhost:{names.PORT_COLLECTOR_EVENTS}/v1/events"
_EVENT_TYPES = (
    "TASK_DEFINITION_EVENT,TASK_LIFECYCLE_EVENT,ACTOR_TASK_DEFINITION_EVENT,TASK_PROFILE_EVENT,"
    "DRIVER_JOB_DEFINITION_EVENT,DRIVER_JOB_LIFECYCLE_EVENT,ACTOR_DEFINITION_EVENT,"
    "ACTOR_LIFECYCLE_EVENT,NODE_DEFINITION_EVENT,NODE_LIFECYCLE_EVENT"
)
_RESOURCES = {
    "requests": {"cpu": "50m", "memory": "64Mi"},
    "limits": {"cpu": "200m", "memory": "256Mi"},
}


def collector_options(cluster: RayCluster) -> Mapping[str, Any] | None:
    """As the user wrote them; None when the cluster keeps no history."""
    options = cluster.spec.history_server_options
    if options is None or options.collector_options is None:
        return None
    plain: Mapping[str, Any] = msgspec.to_builtins(options.collector_options)
    return plain


def add_event_export(container: Json) -> None:
    """Make this Ray node send its events to the collector beside it."""
    add_missing_env(
        container,
        [
            env_value(names.ENV_ENABLE_RAY_EVENT, "true"),
            env_value(names.ENV_ENABLE_CORE_WORKER_EVENTS, "true"),
            env_value(names.ENV_EVENTS_EXPORT_ADDRESS, _EVENTS_URL),
            env_value(
                "RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES",
                _EVENT_TYPES,
            ),
            env_value("RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES", _EVENT_TYPES),
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
