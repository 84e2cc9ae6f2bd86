"""What keeps the history of a Ray Pod: our sidecar, KubeRay's collector, or the node agent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    add_mount,
    add_volume,
    copy_json,
    env_from_field,
    env_value,
)
from manta.manifests.volumes import share_logs
from manta.rules.history import (
    HistoryCollector,
    collector_options,
    history_collector,
    history_store,
)
from manta.rules.settings import Settings

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
_SAME_AS_RAY: Final = ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile")


def add_collector(
    cluster: RayCluster, settings: Settings, spec: Json, ray: Json, *, head: bool, fqdn: str
) -> None:
    """Add what keeps the history of this Pod: a container, or a volume that the node agent keeps."""
    match history_collector(cluster, settings):
        case HistoryCollector.NONE:
            return
        case HistoryCollector.NODE:
            share_logs(spec, (ray,))
        case HistoryCollector.SIDECAR:
            sidecar = _build_sidecar(cluster, settings, ray, head=head, fqdn=fqdn)
            if head:  # it asks the dashboard
                add_auth(cluster, spec, sidecar)
            _mount_volumes(spec, ray, sidecar, history_store(cluster.spec, settings))
            _place_sidecar(spec, sidecar, native=settings.native_sidecars)
        case HistoryCollector.KUBERAY:
            collector = _build_collector(cluster, spec, head=head, fqdn=fqdn)
            spec["containers"].append(collector)
            share_logs(spec, (ray, collector))


def _build_sidecar(
    cluster: RayCluster, settings: Settings, ray: Json, *, head: bool, fqdn: str
) -> Json:
    """`manta collect`, which never ends by itself: a store that fails must not fail the Pod.

    The Secret `manta-history` of the namespace may hold the credentials of the store.
    """
    container: Json = {
        "name": names.CONTAINER_HISTORY,
        "image": settings.history_image,
        "command": ["manta", "collect"],
        "args": ["--never-exit", "--spool", names.MOUNT_HISTORY_SPOOL],
        "resources": copy_json(_RESOURCES),
        **_options(cluster, ("imagePullPolicy", "resources")),
        "envFrom": [{"secretRef": {"name": names.SECRET_HISTORY, "optional": True}}],
        "securityContext": _security_context(ray),
    }
    # Init containers get the address of the head later, and a name twice cannot be applied.
    env = _environment(cluster, head=head, fqdn=fqdn)
    add_env(container, [one for one in env if one["name"] != names.ENV_FQ_RAY_IP])
    add_env(
        container,
        [
            env_from_field(names.ENV_POD_NAME, "metadata.name"),
            env_value(names.ENV_HISTORY_STORE, settings.history_store),
            env_value(names.ENV_RAY_VERSION, cluster.spec.ray_version or ""),
        ],
    )
    add_env(container, _options(cluster, ("env",)).get("env") or ())
    return container


def _options(cluster: RayCluster, fields: Iterable[str]) -> Json:
    """These fields of the collector's options, as far as the user wrote them."""
    options = collector_options(cluster.spec)
    written: Mapping[str, Any] = {} if options is None else msgspec.to_builtins(options)
    return {name: copy_json(written[name]) for name in fields if name in written}


def _security_context(ray: Json) -> Json:
    """The least rights, as the user of the Ray container: it can read Ray's logs, and where a namespace
    or OpenShift restricts users, the Pod stays as admissible as it was."""
    chosen = ray.get("securityContext") or {}
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
        **{name: copy_json(chosen[name]) for name in _SAME_AS_RAY if name in chosen},
    }


def _mount_volumes(spec: Json, ray: Json, sidecar: Json, store: str) -> None:
    """Ray's own `/tmp/ray`, wherever the user put it; a spool that only the sidecar sees."""
    own = [one for one in ray.get("volumeMounts") or () if one["mountPath"] == names.MOUNT_LOGS]
    for mount in own[:1]:
        add_mount(sidecar, copy_json(mount))
    share_logs(spec, (ray, sidecar))
    add_volume(spec, {"name": names.VOLUME_HISTORY_SPOOL, "emptyDir": {}})
    spool = {"name": names.VOLUME_HISTORY_SPOOL, "mountPath": names.MOUNT_HISTORY_SPOOL}
    add_mount(sidecar, spool)
    if store.startswith("file://"):
        path = store.removeprefix("file://")
        add_mount(sidecar, {"name": names.VOLUME_HISTORY, "mountPath": path})


def _place_sidecar(spec: Json, sidecar: Json, *, native: bool) -> None:
    """A native sidecar starts before Ray and ends after it. Before Kubernetes 1.29 it would be an init
    container that never ends, and no Ray Pod would start: there it is an ordinary container."""
    if not native:
        spec["containers"].append(sidecar)
        return
    sidecar["restartPolicy"] = "Always"
    spec["initContainers"] = [sidecar, *(spec.get("initContainers") or ())]


def history_annotations(cluster: RayCluster, settings: Settings) -> dict[str, str]:
    """What the node agent, and whoever reads what it kept, must know of a Pod."""
    if history_collector(cluster, settings) is not HistoryCollector.NODE:
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


def add_event_export(cluster: RayCluster, settings: Settings, container: Json) -> None:
    """Configure this Ray node to send its events to localhost, if somebody takes them there.

    KubeRay's collector does not get the events of workers. On `manta up` they come twice a second.
    """
    collector = history_collector(cluster, settings)
    if collector is HistoryCollector.NONE:
        return
    types = (
        _EVENT_TYPES
        if collector is HistoryCollector.KUBERAY
        else f"{_EVENT_TYPES},{_WORKER_EVENT_TYPES}"
    )
    if collector is HistoryCollector.NODE:
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


def _build_collector(cluster: RayCluster, pod_spec: Json, *, head: bool, fqdn: str) -> Json:
    container: Json = {
        "name": names.CONTAINER_COLLECTOR,
        "imagePullPolicy": "IfNotPresent",
        "resources": copy_json(_RESOURCES),
        **_options(cluster, ("image", "imagePullPolicy", "resources")),
    }
    add_env(container, _environment(cluster, head=head, fqdn=fqdn))
    add_env(container, _options(cluster, ("env",)).get("env") or ())
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
