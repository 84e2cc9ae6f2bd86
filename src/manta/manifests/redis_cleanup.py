"""The Job that removes a deleted cluster's tables from Redis."""

from __future__ import annotations

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.naming import trim_job_name
from manta.manifests.containers import (
    Json,
    add_env,
    env_value,
    limits_equal_requests,
    ray_container,
)
from manta.manifests.head_pod import build_head_pod
from manta.manifests.ownership import owned_by
from manta.manifests.ray_start import bash
from manta.rules.settings import Settings

DEADLINE_SECONDS = 300

# One line for one shell word: no double quotes inside.
_CLEAN = """\
import os, sys; from urllib.parse import urlparse; \
from ray._private.gcs_utils import cleanup_redis_storage; \
address = os.getenv('RAY_REDIS_ADDRESS', '').split(',')[0]; \
url = urlparse(address if '://' in address else 'redis://' + address); \
names = cleanup_redis_storage.__code__.co_varnames; \
user = {'username': os.getenv('REDIS_USERNAME', url.username or '')} if 'username' in names else {}; \
sys.exit(0 if cleanup_redis_storage(host=url.hostname, port=url.port or 6379, \
password=os.getenv('REDIS_PASSWORD', url.password or ''), use_ssl=url.scheme == 'rediss', \
storage_namespace=os.getenv('RAY_external_storage_namespace', ''), **user) else 1)"""


def cleanup_job_name(cluster: RayCluster) -> str:
    return trim_job_name(f"{cluster.metadata.name}-redis-cleanup")


def build_cleanup_job(cluster: RayCluster, settings: Settings) -> Json:
    """The Job. Its Pod is the head Pod without Ray: the same image, environment and volumes reach Redis."""
    pod = build_head_pod(cluster, settings, spec_hash="")
    labels = {
        key: value
        for key, value in pod["metadata"]["labels"].items()
        # A queueing system could hold the Job back for ever (C95).
        if not key.startswith(names.PREFIX_KUEUE)
    }
    labels[names.LABEL_NODE_TYPE] = names.NODE_REDIS_CLEANUP
    annotations = {
        key: value
        for key, value in pod["metadata"]["annotations"].items()
        if key not in (names.ANNOTATION_RECREATE_HASH, names.ANNOTATION_STARTED_WITH)
    }
    meta = {"labels": labels, "annotations": annotations}
    spec = {
        "backoffLimit": 0,
        "activeDeadlineSeconds": DEADLINE_SECONDS,
        "template": {"metadata": meta, "spec": _pod_spec(pod["spec"], settings)},
    }
    job_meta = {"name": cleanup_job_name(cluster), "namespace": cluster.metadata.namespace, **meta}
    return owned_by(
        cluster, {"apiVersion": "batch/v1", "kind": "Job", "metadata": job_meta, "spec": spec}
    )


def _pod_spec(head: Json, settings: Settings) -> Json:
    container = {
        key: value
        for key, value in ray_container(head).items()
        if key not in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle")
    }
    container["command"] = bash(login=settings.login_shell)
    container["args"] = [f'python -c "{_CLEAN}"']
    container["resources"] = limits_equal_requests("200m", "256Mi")
    add_env(
        container,
        [
            env_value(names.ENV_REDIS_CONNECT_RETRIES, "120"),
            env_value(names.ENV_REDIS_CONNECT_WAIT, "500"),
        ],
    )
    kept = [
        one for one in head.get("initContainers") or () if one["name"] != names.CONTAINER_WAIT_TLS
    ]
    spec = {**head, "containers": [container], "restartPolicy": "Never"}
    gates = [
        one for one in head.get("schedulingGates") or () if one["name"] != names.GATE_HEAD_NOTED
    ]
    for field in ("initContainers", "schedulingGates"):
        spec.pop(field, None)
    # The head's scheduling gate would never be removed from this Pod.
    return (
        spec
        | ({"initContainers": kept} if kept else {})
        | ({"schedulingGates": gates} if gates else {})
    )
