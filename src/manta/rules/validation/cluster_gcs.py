"""Rules of GCS fault tolerance (KubeRay's rules RC17 to RC33, numbered as in the tests). An empty annotation or parameter counts as none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from manta.api.ray import names
from manta.api.ray.cluster import GcsBackend, GcsFaultToleranceOptions, RayClusterSpec
from manta.rules.settings import Settings
from manta.rules.traits import env_of, ray_container_of
from manta.rules.validation.violation import Violation

_ENV = "headGroupSpec.template.spec.containers[0].env"


def gcs_violations(
    spec: RayClusterSpec, annotations: Mapping[str, str], settings: Settings, at: str
) -> Iterator[Violation]:
    options = spec.gcs_fault_tolerance_options
    annotated = annotations.get(names.ANNOTATION_FT_ENABLED, "")
    yield from _username(spec, at)
    if options is None:
        if annotated.lower() != "true":
            cure = "has no effect without fault tolerance; set spec.gcsFaultToleranceOptions"
            yield from _forbidden_env(spec, at, names.ENV_REDIS_ADDRESS, cure)
        return
    if annotated:
        cure = "remove it: spec.gcsFaultToleranceOptions says the same"
        yield Violation(_annotation(names.ANNOTATION_FT_ENABLED), annotated, cure)
    yield from _set_twice(spec, annotations, at)
    if options.backend == GcsBackend.ROCKSDB:
        yield from _rocksdb(spec, options, settings, at)
    elif options.storage is not None:
        cure = "is for the backend rocksdb; remove it, or choose that backend"
        yield Violation(f"{at}.gcsFaultToleranceOptions.storage", "set", cure)


def _username(spec: RayClusterSpec, at: str) -> Iterator[Violation]:
    cure = "use spec.gcsFaultToleranceOptions.redisUsername"
    value = spec.head_group_spec.ray_start_params.get("redis-username", "")
    if value:
        yield Violation(f"{at}.headGroupSpec.rayStartParams.redis-username", value, cure)
    yield from _forbidden_env(spec, at, names.ENV_REDIS_USERNAME, cure)


def _set_twice(
    spec: RayClusterSpec, annotations: Mapping[str, str], at: str
) -> Iterator[Violation]:
    cure = "remove it and use spec.gcsFaultToleranceOptions"
    if spec.head_group_spec.ray_start_params.get("redis-password"):
        yield Violation(f"{at}.headGroupSpec.rayStartParams.redis-password", "***", cure)
    yield from _forbidden_env(spec, at, names.ENV_REDIS_PASSWORD, cure)
    yield from _forbidden_env(spec, at, names.ENV_REDIS_ADDRESS, cure)
    key = names.ANNOTATION_EXTERNAL_STORAGE_NAMESPACE
    if annotations.get(key):
        yield Violation(_annotation(key), annotations[key], cure)


def _rocksdb(
    spec: RayClusterSpec, options: GcsFaultToleranceOptions, settings: Settings, at: str
) -> Iterator[Violation]:
    where = f"{at}.gcsFaultToleranceOptions"
    if not settings.gates.gcs_fault_tolerance_embedded_storage:
        cure = "needs the feature gate GCSFaultToleranceEmbeddedStorage"
        yield Violation(f"{where}.backend", options.backend, cure)
    # Do not show values that may contain a password, such as redis://user:password@host.
    redis = {
        "redisAddress": "set" if options.redis_address else None,
        "redisUsername": "set" if options.redis_username is not None else None,
        "redisPassword": "set" if options.redis_password is not None else None,
        "externalStorageNamespace": options.external_storage_namespace or None,
    }
    for name, value in redis.items():
        if value is not None:
            yield Violation(f"{where}.{name}", value, "is for Redis; remove it for rocksdb")
    yield from _claim(options, where)
    cure = "is set by the operator for the backend rocksdb; remove it"
    yield from _forbidden_env(spec, at, names.ENV_GCS_STORAGE, cure)
    yield from _forbidden_env(spec, at, names.ENV_GCS_STORAGE_PATH, cure)
    yield from _reserved_volume(spec, at)


def _claim(options: GcsFaultToleranceOptions, where: str) -> Iterator[Violation]:
    storage = options.storage
    if storage is None or not storage.claim_name:
        return
    shape = {
        "size": str(storage.size) if storage.size is not None else None,
        "storageClassName": storage.storage_class_name,
        "accessModes": list(storage.access_modes) or None,
    }
    for name, value in shape.items():
        if value is not None:
            cure = f"remove it, or claimName: that claim ({storage.claim_name}) is yours already"
            yield Violation(f"{where}.storage.{name}", value, cure)


def _reserved_volume(spec: RayClusterSpec, at: str) -> Iterator[Violation]:
    where = f"{at}.headGroupSpec.template.spec"
    cure = "is where the embedded store is mounted; choose another"
    for mount in ray_container_of(spec.head_group_spec.template).get("volumeMounts") or ():
        if mount.get("name") == names.VOLUME_GCS_STORAGE:
            yield Violation(f"{where}.containers[0].volumeMounts", mount["name"], cure)
        if mount.get("mountPath") == names.MOUNT_GCS_STORAGE:
            yield Violation(f"{where}.containers[0].volumeMounts", mount["mountPath"], cure)
    for volume in (spec.head_group_spec.template.get("spec") or {}).get("volumes") or ():
        if volume.get("name") == names.VOLUME_GCS_STORAGE:
            yield Violation(f"{where}.volumes", volume["name"], cure)


def _forbidden_env(spec: RayClusterSpec, at: str, name: str, cure: str) -> Iterator[Violation]:
    if name in env_of(ray_container_of(spec.head_group_spec.template)):
        yield Violation(f"{at}.{_ENV}", name, cure)


def _annotation(key: str) -> str:
    return f"metadata.annotations[{key}]"
