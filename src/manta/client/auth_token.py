"""The authentication token of a RayCluster, from its Secret."""

from __future__ import annotations

import base64
import binascii

from manta.api.core import Pod
from manta.api.meta import Key
from manta.api.ray.cluster import RayCluster
from manta.api.ray.names import SECRET_KEY_AUTH_TOKEN
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import PODS, SECRETS
from manta.kube.client import Client
from manta.kube.errors import Forbidden, MantaError, NotFound
from manta.ray.models import Target
from manta.rules.running_head import as_it_runs
from manta.rules.traits import head_service_name, kubernetes_token_auth, token_auth


class TokenError(MantaError):
    """The RayCluster has no token."""


async def target_of(client: Client, cluster: RayCluster) -> Target:
    """The dashboard of a cluster, with its token if it wants one. Raises TokenError."""
    running = await _as_it_runs(client, cluster)
    token = await _token_of(client, running) if token_auth(running.spec) else ""
    return Target(cluster.metadata.namespace, head_service_name(cluster), host="", token=token)


async def token_if_any(client: Client, key: Key) -> str:
    """The token of a cluster with token authentication; else empty."""
    cluster = await _read(client, key)
    return await _token_of(client, cluster) if token_auth(cluster.spec) else ""


async def token_of(client: Client, key: Key) -> str:
    """The token, from the Secret of the cluster or the one that the user named. Raises TokenError."""
    cluster = await _read(client, key)
    if not token_auth(cluster.spec):
        raise TokenError(
            f"RayCluster {key} was not configured to use authentication tokens "
            "(spec.authOptions.mode: token)"
        )
    return await _token_of(client, cluster)


async def _read(client: Client, key: Key) -> RayCluster:
    return await _as_it_runs(client, await client.get(RAY_CLUSTERS, key, into=RayCluster))


async def _as_it_runs(client: Client, cluster: RayCluster) -> RayCluster:
    """The cluster with the authentication of its running head. For who may not read Pods the spec counts."""
    namespace, name = cluster.metadata.namespace, cluster.status.head.pod_name
    if not name:
        return cluster
    try:
        return as_it_runs(cluster, await client.get(PODS, Key(namespace, name), into=Pod))
    except (Forbidden, NotFound):
        return cluster


async def _token_of(client: Client, cluster: RayCluster) -> str:
    options, key = cluster.spec.auth_options, cluster.metadata.key
    if kubernetes_token_auth(cluster.spec):
        service = f"-n {key.namespace} service/{head_service_name(cluster)}"
        raise TokenError(
            f"RayCluster {key} has no token of its own: it accepts tokens of Kubernetes (enableK8sTokenAuth), and yours "
            f"is not handed to it. Run `kubectl port-forward {service} 8265`, and give Ray the token of an account that "
            f"may ray:write this cluster (`kubectl create token NAME`)"
        )
    name = (options.secret_name if options is not None else "") or key.name
    secret = await client.get(SECRETS, Key(key.namespace, name))
    encoded = (secret.get("data") or {}).get(SECRET_KEY_AUTH_TOKEN)
    if encoded is None:
        raise TokenError(f"Secret {key.namespace}/{name} does not have an {SECRET_KEY_AUTH_TOKEN}")
    try:
        return base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise TokenError(
            f"{SECRET_KEY_AUTH_TOKEN} of Secret {key.namespace}/{name} is not text"
        ) from error
