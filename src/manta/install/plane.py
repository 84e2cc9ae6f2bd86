"""Prepare the API server of `manta up` for its operator, which is a process and not a Pod.

It needs the CRDs, a namespace, a ServiceAccount and its permissions. A marker tells a plane of
`manta up` from a Kubernetes cluster.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from manta.api.crds import crd_documents
from manta.api.meta import Key
from manta.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    SERVICES,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Resource,
)
from manta.api.usage import UsageError
from manta.install.operator_manifests import (
    NAME,
    NAMESPACE,
    Installation,
    access_objects,
    namespace_object,
)
from manta.install.permissions import PERMISSIONS
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, Forbidden, NotFound

OPERATOR = NAME
PLANE_MARKER = Key("kube-system", "manta-plane")
"""A ConfigMap that every plane of `manta up` has."""

OURS = (
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    DEPLOYMENTS,
    POD_DISRUPTION_BUDGETS,
    SERVICES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
"""The kinds of an installation, in the order of their deletion: webhooks before what serves them."""

RESOURCES: dict[str, Resource] = {
    one.kind: one for one in (*OURS, NAMESPACES, CUSTOM_RESOURCE_DEFINITIONS, CONFIG_MAPS)
}


def resource_of(document: dict[str, Any]) -> Resource:
    return RESOURCES[document["kind"]]


def key_of(document: dict[str, Any]) -> Key:
    metadata = document["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


async def mark_plane(client: Client, directory: Path) -> None:
    """Write the marker, with the state directory of the plane."""
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PLANE_MARKER.name, "namespace": PLANE_MARKER.namespace},
        "data": {"directory": str(directory)},
    }
    await _ensure(client, document)


async def plane_directory(client: Client) -> Path | None:
    """The state directory of this plane; None if this is not a plane of `manta up`."""
    try:
        found = await client.get(CONFIG_MAPS, PLANE_MARKER)
    except (NotFound, Forbidden):  # the kubeconfig of a plane may read it
        return None
    return Path((found.get("data") or {}).get("directory", ""))


async def refuse_plane(client: Client, verb: str) -> None:
    """Raise UsageError on a plane of `manta up`, which runs its own operator."""
    if (where := await plane_directory(client)) is None:
        return
    raise UsageError(
        f"`manta {verb}` is for Kubernetes clusters, but this API server is the plane of `manta up` "
        f"in {where}, which runs its own operator. Choose a cluster with --kubeconfig or --context, "
        f"or stop the plane with `manta down --dir {where}`"
    )


async def install(client: Client) -> None:
    """Create all that an operator with every feature needs. Idempotent."""
    everything = Installation(features=frozenset(one.when for one in PERMISSIONS))
    await _ensure(client, namespace_object(everything))
    async with asyncio.TaskGroup() as group:
        for document in (*crd_documents(), *access_objects(everything)):
            group.create_task(_ensure(client, document))


async def _ensure(client: Client, document: dict[str, Any]) -> None:
    """Create the object, or update it with a merge patch."""
    resource, key = resource_of(document), key_of(document)
    try:
        await client.create(resource, key.namespace, document)
    except AlreadyExists:
        await client.patch(resource, key, document)


async def operator_token(client: Client, seconds: int) -> str:
    """A token of the operator's ServiceAccount, from the TokenRequest API."""
    path = SERVICE_ACCOUNTS.path(NAMESPACE, OPERATOR, "token")
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    response = await client.send("POST", path, body=msgspec.json.encode(request))
    return str(msgspec.json.decode(response.body)["status"]["token"])
