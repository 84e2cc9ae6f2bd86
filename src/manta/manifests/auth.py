"""Token authentication: the containers' token, and the Secret that contains it."""

from __future__ import annotations

from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.manifests.containers import (
    Json,
    add_missing_env,
    add_mount,
    add_volume,
    env_value,
    has_mount_at,
    has_mount_of,
)
from manta.manifests.ownership import owned_by
from manta.rules.traits import auth_secret_name, kubernetes_token_auth, token_auth


def add_auth(cluster: RayCluster, pod_spec: Json, container: Json) -> None:
    """Give one container of a Ray Pod the cluster's token, if authentication is on.

    Variables of the user's own stay.
    """
    if not token_auth(cluster.spec):
        return
    add_missing_env(container, [env_value(names.ENV_AUTH_MODE, "token")])
    if kubernetes_token_auth(cluster.spec):
        _present_service_account(pod_spec, container)
        return
    secret = {"name": auth_secret_name(cluster), "key": names.SECRET_KEY_AUTH_TOKEN}
    token = {"name": names.ENV_AUTH_TOKEN, "valueFrom": {"secretKeyRef": secret}}
    add_missing_env(container, [token])


def _present_service_account(pod_spec: Json, container: Json) -> None:
    """Ray validates the token by a TokenReview; the kubelet renews it.

    The lifetime is the API server's default of an hour. It extends tokens of exactly 3607 seconds
    to a year, for clients that never reload them.
    """
    add_missing_env(container, [env_value(names.ENV_ENABLE_K8S_TOKEN_AUTH, "true")])
    token = {"serviceAccountToken": {"path": "token"}}
    add_volume(pod_spec, {"name": names.VOLUME_TOKEN, "projected": {"sources": [token]}})
    if not has_mount_of(container, names.VOLUME_TOKEN) and not has_mount_at(
        container, names.MOUNT_TOKEN
    ):
        mount = {"name": names.VOLUME_TOKEN, "mountPath": names.MOUNT_TOKEN, "readOnly": True}
        add_mount(container, mount)


def build_auth_secret(cluster: RayCluster) -> Json:
    """The Secret without its token: the executor generates it, so that no plan, log or snapshot contains one."""
    return owned_by(
        cluster,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": auth_secret_name(cluster),
                "namespace": cluster.metadata.namespace,
                "labels": {names.LABEL_CLUSTER: cluster.metadata.name},
            },
            "type": "Opaque",
        },
    )
