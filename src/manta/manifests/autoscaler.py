"""The autoscaler sidecar of the head Pod: Ray's own process, with the user's overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.manifests.auth import add_auth
from manta.manifests.containers import (
    Json,
    add_env,
    copy_json,
    env_from_field,
    env_from_label,
    env_value,
    limits_equal_requests,
    ray_container,
)
from manta.manifests.ray_start import bash
from manta.manifests.tls import add_tls
from manta.rules.traits import autoscaler_version, tls

COMMAND = (
    "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME)"
    " --cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
)
# As in autoscalerOptions; the user's value, even an empty object, replaces ours.
_REPLACED = ("image", "imagePullPolicy", "resources", "securityContext")
_REPLACED_IF_ANY = ("command", "args")
_APPENDED = ("env", "envFrom", "volumeMounts")


def add_version_env(cluster: RayCluster, container: Json) -> None:
    """Set the autoscaler version in the head's environment; without one Ray decides."""
    version = autoscaler_version(cluster.spec)
    if version:
        chosen = "true" if version == "v2" else "false"
        add_env(container, [env_value(names.ENV_ENABLE_AUTOSCALER_V2, chosen)])


def build_autoscaler(
    cluster: RayCluster, pod_spec: Json, *, login_shell: bool, options: Mapping[str, Any]
) -> Json:
    """`options` is `spec.autoscalerOptions` as the user wrote it."""
    container = _default(ray_container(pod_spec), login_shell=login_shell)
    for field in _REPLACED:
        if options.get(field) is not None:
            container[field] = copy_json(options[field])
    for field in _REPLACED_IF_ANY:
        if options.get(field):
            container[field] = copy_json(options[field])
    for field in _APPENDED:
        if options.get(field):
            container[field] = [*(container.get(field) or ()), *copy_json(options[field])]
    add_auth(cluster, pod_spec, container)
    if tls(cluster.spec):
        add_tls(container)
    return container


def _default(ray: Mapping[str, Any], *, login_shell: bool) -> Json:
    container: Json = {
        "name": names.CONTAINER_AUTOSCALER,
        "image": ray.get("image", ""),
        "imagePullPolicy": "IfNotPresent",
        "command": bash(login=login_shell),
        "args": [COMMAND],
        "env": [
            env_from_label(names.ENV_CLUSTER_NAME, names.LABEL_CLUSTER),
            env_from_field(names.ENV_CLUSTER_NAMESPACE, "metadata.namespace"),
            env_from_field(names.ENV_HEAD_POD_NAME, "metadata.name"),
            env_value(names.ENV_CRD_VERSION, "v1"),
            env_value(names.ENV_AUTOSCALER_START_COMMAND, COMMAND),
        ],
        "resources": limits_equal_requests("500m", "512Mi"),
    }
    security = ray.get("securityContext") or {}
    if security and not security.get("privileged"):
        # A restricted namespace requires this of every container.
        container["securityContext"] = copy_json(security)
    return container
