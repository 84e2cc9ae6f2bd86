"""Mutual TLS between Ray processes: volumes, environment, and a wait for the certificate."""

from __future__ import annotations

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.manifests.containers import (
    Json,
    add_missing_env,
    add_mount,
    add_volume,
    env_from_field,
    env_value,
    has_mount_at,
    limits_equal_requests,
    ray_container,
)

# The certificate is issued again once this Pod's address is known. Ray reads it only at its start, so the
# start has to wait. openssl compares the addresses, because it prints IPv6 differently than Kubernetes
# (FD00:0:0:0:0:0:0:1 for fd00::1). Its output is checked, because older versions exit with 0 in any case; an
# empty address would match anything.
_WAIT = f"""\
until [ -n "${{POD_IP}}" ] \\
  && openssl x509 -in {names.MOUNT_TLS}/tls.crt -noout -checkip "${{POD_IP}}" 2>/dev/null \\
  | grep -F "does match certificate" >/dev/null; do
  echo "Waiting until the certificate of this Pod names its address ${{POD_IP}}."
  sleep 2
done
"""


def secret_name(cluster: RayCluster, *, head: bool) -> str:
    return f"ray-{'head' if head else 'worker'}-secret-{cluster.metadata.name}"


def add_tls_volume(cluster: RayCluster, pod_spec: Json, *, head: bool) -> None:
    secret = {"secretName": secret_name(cluster, head=head)}
    add_volume(pod_spec, {"name": names.VOLUME_TLS, "secret": secret})


def add_tls(container: Json) -> None:
    """Configure a container that connects to Ray, the autoscaler too (C88)."""
    add_missing_env(
        container,
        [
            env_value(names.ENV_USE_TLS, "1"),
            env_value(names.ENV_TLS_SERVER_CERT, f"{names.MOUNT_TLS}/tls.crt"),
            env_value(names.ENV_TLS_SERVER_KEY, f"{names.MOUNT_TLS}/tls.key"),
            env_value(names.ENV_TLS_CA_CERT, f"{names.MOUNT_TLS}/ca.crt"),
        ],
    )
    _mount(container)


def prepend_wait_container(pod_spec: Json) -> None:
    ray = ray_container(pod_spec)
    container: Json = {
        "name": names.CONTAINER_WAIT_TLS,
        "image": ray.get("image", ""),
        "command": ["sh", "-c", _WAIT],
        "env": [env_from_field(names.ENV_POD_IP, "status.podIP")],
        "resources": limits_equal_requests("50m", "64Mi"),
    }
    for field in ("imagePullPolicy", "securityContext"):
        if ray.get(field):
            container[field] = ray[field]
    _mount(container)
    pod_spec["initContainers"] = [container, *(pod_spec.get("initContainers") or ())]


def _mount(container: Json) -> None:
    if not has_mount_at(container, names.MOUNT_TLS):
        mount = {"name": names.VOLUME_TLS, "mountPath": names.MOUNT_TLS, "readOnly": True}
        add_mount(container, mount)
