"""Facts that follow from a RayCluster alone (and, for DNS names, from the cluster domain)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from manta.api.meta import ObjectMeta
from manta.api.numbers import parse_count
from manta.api.ray import names
from manta.api.ray.cluster import AuthMode, AutoscalerVersion, RayCluster, RayClusterSpec
from manta.api.ray.job import SubmissionMode
from manta.api.ray.naming import check_name

REDIS_CLEANUP_TIMEOUT: Final = timedelta(seconds=300)


class Creator(StrEnum):
    """The kind of the object that created this RayCluster, by its label; RayCluster means the user did."""

    CLUSTER = "RayCluster"
    JOB = "RayJob"
    SERVICE = "RayService"


class StorageBackend(StrEnum):
    """Where the GCS stores its tables, so that they survive the head."""

    NONE = ""
    REDIS = "redis"
    ROCKSDB = "rocksdb"


def creator(meta: ObjectMeta) -> Creator:
    try:
        return Creator(meta.labels.get(names.LABEL_ORIGIN_KIND, ""))
    except ValueError:
        return Creator.CLUSTER


def submits_beside_head(cluster: RayCluster) -> bool:
    """Whether a RayJob in SidecarMode owns it: each head Pod has a submitter of its own."""
    return cluster.metadata.labels.get(names.LABEL_JOB_SUBMISSION_MODE) == SubmissionMode.SIDECAR


def is_managed_elsewhere(managed_by: str | None) -> bool:
    """Whether `spec.managedBy` names another operator."""
    return bool(managed_by) and managed_by != names.MANAGED_BY_OPERATOR


# ── the head's address ───────────────────────────────────────────────────────────────────


def head_port(spec: RayClusterSpec) -> str:
    return spec.head_group_spec.ray_start_params.get("port") or str(names.PORT_GCS)


def has_dashboard(spec: RayClusterSpec) -> bool:
    value = spec.head_group_spec.ray_start_params.get("include-dashboard", "true")
    return value.strip().lower() != "false"


def head_service_name(cluster: RayCluster) -> str:
    custom = (cluster.spec.head_group_spec.head_service or {}).get("metadata") or {}
    return custom.get("name") or f"{cluster.metadata.name}-head-svc"


def head_fqdn(cluster: RayCluster, domain: str) -> str:
    return f"{head_service_name(cluster)}.{cluster.metadata.namespace}.svc.{domain}"


# ── autoscaling ──────────────────────────────────────────────────────────────────────────


def autoscaling(spec: RayClusterSpec) -> bool:
    return bool(spec.enable_in_tree_autoscaling)


def autoscaler_version(spec: RayClusterSpec) -> str:
    """`v1`, `v2`, or empty: then the Ray version decides."""
    options = spec.autoscaler_options
    return (options.version or "") if options else ""


def runs_autoscaler_v2(spec: RayClusterSpec) -> bool:
    """Whether autoscaler v2 runs, by the version field or by Ray's environment variable."""
    if autoscaler_version(spec) == AutoscalerVersion.V2:
        return True
    env = env_of(ray_container_of(spec.head_group_spec.template))
    return env.get(names.ENV_ENABLE_AUTOSCALER_V2, "").lower() in ("1", "true")


def pods_never_restart(spec: RayClusterSpec) -> bool:
    """Autoscaler v2 identifies nodes by Pod name: a restarted container would confuse it (C17)."""
    return autoscaling(spec) and runs_autoscaler_v2(spec)


def service_account_name(cluster: RayCluster) -> str:
    """The ServiceAccount of the autoscaler: the user's, or one that the operator creates."""
    return _own_service_account(cluster) or check_name(cluster.metadata.name)


def names_own_service_account(cluster: RayCluster) -> bool:
    return bool(_own_service_account(cluster))


def _own_service_account(cluster: RayCluster) -> str:
    spec = cluster.spec.head_group_spec.template.get("spec") or {}
    return spec.get("serviceAccountName") or ""


# ── GCS fault tolerance ──────────────────────────────────────────────────────────────────


def storage_backend(cluster: RayCluster) -> StorageBackend:
    options = cluster.spec.gcs_fault_tolerance_options
    if options is not None:
        return StorageBackend(options.backend or StorageBackend.REDIS)
    by_annotation = cluster.metadata.annotations.get(names.ANNOTATION_FT_ENABLED, "")
    return StorageBackend.REDIS if by_annotation.lower() == "true" else StorageBackend.NONE


def keeps_job_records(cluster: RayCluster) -> bool:
    """Whether the records of Ray's jobs outlive the head. Redis without an address keeps nothing."""
    options, backend = cluster.spec.gcs_fault_tolerance_options, storage_backend(cluster)
    if options is not None and backend is StorageBackend.REDIS:
        return bool(options.redis_address)
    return backend is not StorageBackend.NONE


def storage_namespace(cluster: RayCluster) -> str:
    """The storage namespace. By default the UID, so that a new cluster with the same name never finds old
    tables (C69)."""
    options = cluster.spec.gcs_fault_tolerance_options
    chosen = options.external_storage_namespace if options else ""
    annotated = cluster.metadata.annotations.get(names.ANNOTATION_EXTERNAL_STORAGE_NAMESPACE, "")
    return chosen or annotated or cluster.metadata.uid


# ── security ─────────────────────────────────────────────────────────────────────────────


def redis_cleanup_timeout(meta: ObjectMeta) -> timedelta:
    """How long a RayCluster that is deleted waits for its Redis to be cleaned."""
    seconds = parse_count(meta.annotations.get(names.ANNOTATION_FT_DELETION_TIMEOUT, ""))
    return timedelta(seconds=seconds) if seconds else REDIS_CLEANUP_TIMEOUT


def token_auth(spec: RayClusterSpec) -> bool:
    return spec.auth_options is not None and spec.auth_options.mode == AuthMode.TOKEN


def kubernetes_token_auth(spec: RayClusterSpec) -> bool:
    return token_auth(spec) and bool(spec.auth_options and spec.auth_options.enable_k8s_token_auth)


def makes_auth_secret(spec: RayClusterSpec) -> bool:
    """Whether the operator creates the token Secret: the user has none, and Kubernetes issues no tokens."""
    own = bool(spec.auth_options and spec.auth_options.secret_name)
    return token_auth(spec) and not own and not kubernetes_token_auth(spec)


def auth_secret_name(cluster: RayCluster) -> str:
    options = cluster.spec.auth_options
    return (options.secret_name if options else "") or check_name(cluster.metadata.name)


def tls(spec: RayClusterSpec) -> bool:
    return spec.tls_options is not None and bool(spec.tls_options.enabled)


# ── draining ─────────────────────────────────────────────────────────────────────────────

MAX_DRAIN_SECONDS = 86400


def drain_seconds(annotations: Mapping[str, str]) -> int:
    """How many seconds a worker may drain before it is deleted; 0: no draining (C96)."""
    text = annotations.get(names.ANNOTATION_DRAIN_SECONDS, "")
    return min(int(text), MAX_DRAIN_SECONDS) if text.isdecimal() and text.isascii() else 0


def protects_head(annotations: Mapping[str, str]) -> bool:
    return annotations.get(names.ANNOTATION_PROTECT_HEAD, "").lower() == "true"


# ── containers and versions ─────────────────────────────────────────────────────────────────


def overwrites_command(annotations: Mapping[str, str]) -> bool:
    return annotations.get(names.ANNOTATION_OVERWRITE_COMMAND, "").lower() == "true"


def ray_version_at_least(text: str, minimum: tuple[int, int, int]) -> bool:
    version = parse_ray_version(text)
    return version is not None and version >= minimum


def parse_ray_version(text: str) -> tuple[int, int, int] | None:
    """`2.53.0`, `v2.9`, `2.53.0rc1` or `2.53.0-py311` as three numbers; None if it is no version."""
    numbers: list[int] = []
    for part in text.strip().removeprefix("v").split("-", 1)[0].split("+", 1)[0].split(".")[:3]:
        digits = _leading_digits(part)
        if not digits:
            return None
        numbers.append(int(digits[:9]))
    if not numbers:
        return None
    padded = (*numbers, 0, 0)
    return padded[0], padded[1], padded[2]


def _leading_digits(part: str) -> str:
    length = next((at for at, char in enumerate(part) if not char.isdecimal()), len(part))
    return part[:length]


def group_templates(spec: RayClusterSpec, at: str) -> dict[str, Mapping[str, Any]]:
    """The Pod templates of the head and of all worker groups, by the path of their group."""
    workers = enumerate(spec.worker_group_specs)
    return {
        f"{at}.headGroupSpec": spec.head_group_spec.template,
        **{f"{at}.workerGroupSpecs[{number}]": group.template for number, group in workers},
    }


def ray_container_of(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The template's first container; empty if there is none (validation reports that)."""
    containers = (template.get("spec") or {}).get("containers") or [{}]
    first: Mapping[str, Any] = containers[0]
    return first


def env_of(container: Mapping[str, Any]) -> dict[str, str]:
    """Variables by name; those with `valueFrom` have the value ''."""
    return {one["name"]: one.get("value") or "" for one in container.get("env") or ()}
