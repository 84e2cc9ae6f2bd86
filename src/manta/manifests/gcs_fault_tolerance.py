"""GCS fault tolerance: environment, volume and claim of the head's storage.

Passwords are references to the user's Secret, never text (C73).
"""

from __future__ import annotations

from manta.api.ray import names
from manta.api.ray.cluster import (
    GcsEmbeddedStorage,
    GcsStorageDeletionPolicy,
    RayCluster,
    RedisCredential,
)
from manta.manifests.containers import (
    Json,
    add_env,
    add_missing_env,
    add_mount,
    add_volume,
    env_value,
)
from manta.manifests.ownership import owned_by
from manta.manifests.ray_start import Params
from manta.rules.traits import StorageBackend, storage_backend, storage_namespace

RECONNECT_SECONDS = "600"
"""How long a worker survives without its head. Ray's default of a minute is too short for a new Pod."""
CLAIM_SIZE = "1Gi"


def head_annotations(cluster: RayCluster) -> dict[str, str]:
    backend = storage_backend(cluster)
    enabled = backend is not StorageBackend.NONE
    annotations = {names.ANNOTATION_FT_ENABLED: "true" if enabled else "false"}
    if backend is StorageBackend.REDIS:
        annotations[names.ANNOTATION_EXTERNAL_STORAGE_NAMESPACE] = storage_namespace(cluster)
    return annotations


def redis_params(cluster: RayCluster) -> dict[str, str]:
    """Parameters of `ray start` that refer to the credentials in the environment."""
    options = cluster.spec.gcs_fault_tolerance_options
    params: dict[str, str] = {}
    if options is not None and options.redis_username is not None:
        params["redis-username"] = f"${names.ENV_REDIS_USERNAME}"
    if options is not None and options.redis_password is not None:
        params["redis-password"] = f"${names.ENV_REDIS_PASSWORD}"
    return params


def add_to_head(cluster: RayCluster, pod_spec: Json, container: Json, params: Params) -> None:
    match storage_backend(cluster):
        case StorageBackend.NONE:
            return
        case StorageBackend.REDIS:
            _add_redis(cluster, container, params)
        case StorageBackend.ROCKSDB:
            _add_rocksdb(cluster, pod_spec, container)


def add_to_worker(cluster: RayCluster, container: Json) -> None:
    if storage_backend(cluster) is not StorageBackend.NONE:
        entry = env_value(names.ENV_GCS_RECONNECT_TIMEOUT, RECONNECT_SECONDS)
        add_missing_env(container, [entry])


def _add_redis(cluster: RayCluster, container: Json, params: Params) -> None:
    add_missing_env(
        container, [env_value(names.ENV_EXTERNAL_STORAGE_NAMESPACE, storage_namespace(cluster))]
    )
    options = cluster.spec.gcs_fault_tolerance_options
    if options is None:
        password = params.get("redis-password")
        if password:
            add_missing_env(container, [env_value(names.ENV_REDIS_PASSWORD, password)])
        return
    add_env(container, [env_value(names.ENV_REDIS_ADDRESS, options.redis_address)])
    for name, credential in (
        (names.ENV_REDIS_USERNAME, options.redis_username),
        (names.ENV_REDIS_PASSWORD, options.redis_password),
    ):
        if credential is not None:
            add_env(container, [_credential(name, credential)])


def _credential(name: str, credential: RedisCredential) -> Json:
    if credential.value_from:
        return {"name": name, "valueFrom": credential.value_from}
    return env_value(name, credential.value)


def _add_rocksdb(cluster: RayCluster, pod_spec: Json, container: Json) -> None:
    add_env(
        container,
        [
            env_value(names.ENV_GCS_STORAGE, "rocksdb"),
            env_value(names.ENV_GCS_STORAGE_PATH, names.MOUNT_GCS_STORAGE),
        ],
    )
    claim = {"claimName": claim_name(cluster)}
    add_volume(pod_spec, {"name": names.VOLUME_GCS_STORAGE, "persistentVolumeClaim": claim})
    mount = {"name": names.VOLUME_GCS_STORAGE, "mountPath": names.MOUNT_GCS_STORAGE}
    sub_path = _storage(cluster).sub_path
    add_mount(container, mount | ({"subPath": sub_path} if sub_path else {}))


# ── the claim ────────────────────────────────────────────────────────────────────────────


def claim_name(cluster: RayCluster) -> str:
    return _storage(cluster).claim_name or f"{cluster.metadata.name}-gcs-pvc"


def claim_is_the_users(cluster: RayCluster) -> bool:
    return bool(_storage(cluster).claim_name)


def claim_outlives_cluster(cluster: RayCluster) -> bool:
    return _storage(cluster).deletion_policy == GcsStorageDeletionPolicy.RETAIN


def build_claim(cluster: RayCluster) -> Json:
    storage = _storage(cluster)
    spec: Json = {
        "accessModes": list(storage.access_modes or ("ReadWriteOnce",)),
        "resources": {"requests": {"storage": str(storage.size or CLAIM_SIZE)}},
    }
    if storage.storage_class_name is not None:
        spec["storageClassName"] = storage.storage_class_name
    manifest: Json = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": claim_name(cluster),
            "namespace": cluster.metadata.namespace,
            "labels": {names.LABEL_CLUSTER: cluster.metadata.name},
        },
        "spec": spec,
    }
    return manifest if claim_outlives_cluster(cluster) else owned_by(cluster, manifest)


def _storage(cluster: RayCluster) -> GcsEmbeddedStorage:
    options = cluster.spec.gcs_fault_tolerance_options
    return (options.storage if options else None) or GcsEmbeddedStorage()
