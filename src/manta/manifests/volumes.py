"""The volumes that every Ray Pod gets: shared memory for objects, and the session directory."""

from __future__ import annotations

from collections.abc import Iterable

from manta.api.ray import names
from manta.manifests.containers import Json, add_mount, add_volume, has_mount_at, ray_container
from manta.manifests.ray_start import Params


def add_shared_memory(pod_spec: Json, params: Params) -> None:
    """Memory-backed `/dev/shm` for Ray's object store, as large as the container's memory.

    Nothing is added when the user placed the store elsewhere or mounts something there.
    """
    container = ray_container(pod_spec)
    if "plasma-directory" in params or has_mount_at(container, names.MOUNT_SHARED_MEMORY):
        return
    resources = container.get("resources") or {}
    size = (resources.get("limits") or {}).get("memory") or (resources.get("requests") or {}).get(
        "memory"
    )
    memory: Json = {"medium": "Memory"} | ({"sizeLimit": size} if size else {})
    add_volume(pod_spec, {"name": names.VOLUME_SHARED_MEMORY, "emptyDir": memory})
    mount = {"name": names.VOLUME_SHARED_MEMORY, "mountPath": names.MOUNT_SHARED_MEMORY}
    add_mount(container, mount)


def share_logs(pod_spec: Json, containers: Iterable[Json]) -> None:
    """Share one `/tmp/ray` between these containers; one that already mounts it keeps its own."""
    add_volume(pod_spec, {"name": names.VOLUME_LOGS, "emptyDir": {}})
    for container in containers:
        if not has_mount_at(container, names.MOUNT_LOGS):
            add_mount(container, {"name": names.VOLUME_LOGS, "mountPath": names.MOUNT_LOGS})
