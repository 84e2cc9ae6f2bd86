"""Puts the operator, or only what it needs, into a cluster; finds it there again.

`install` is for `manta up`, whose operator is no Pod: CRDs, a namespace, an account, its permissions.
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
from manta.cli.operator_objects import (
    NAME,
    NAMESPACE,
    Installation,
    access_objects,
    namespace_object,
)
from manta.cli.permissions import PERMISSIONS
from manta.cli.usage import UsageError
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, Forbidden, NotFound

OPERATOR = NAME
PLANE_MARKER = Key("kube-system", "manta-plane")
"""A ConfigMap on every plane of `manta up`: its operator belongs to it, and to no `manta install`."""

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
"""The kinds that an installation is made of, in the order in which they go: nobody is asked who is gone."""

RESOURCES: dict[str, Resource] = {
    one.kind: one for one in (*OURS, NAMESPACES, CUSTOM_RESOURCE_DEFINITIONS, CONFIG_MAPS)
}


def resource_of(document: dict[str, Any]) -> Resource:
    return RESOURCES[document["kind"]]


def key_of(document: dict[str, Any]) -> Key:
    metadata = document["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


async def mark_plane(client: Client, directory: Path) -> None:
    """Say on the server itself that it is a plane of `manta up`, and where its state is."""
    document = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": PLANE_MARKER.name, "namespace": PLANE_MARKER.namespace},
        "data": {"directory": str(directory)},
    }
    await _ensure(client, document)


async def plane_directory(client: Client) -> Path | None:
    """Where the state of this server is, if it is a plane of `manta up`."""
    try:
        found = await client.get(CONFIG_MAPS, PLANE_MARKER)
    except (NotFound, Forbidden):  # a plane's kubeconfig is its administrator's
        return None
    return Path((found.get("data") or {}).get("directory", ""))


async def refuse_plane(client: Client, verb: str) -> None:
    """Installing there, or removing what `manta up` has made, would leave it without an operator."""
    if (where := await plane_directory(client)) is None:
        return
    raise UsageError(
        f"`manta {verb}` is for Kubernetes clusters, and this server is the plane of `manta up` in "
        f"{where}, which runs an operator of its own. Name a cluster with --kubeconfig or "
        f"--context, or stop the plane with `manta down --dir {where}`"
    )


async def install(client: Client) -> None:
    """Make the cluster ready for an operator with every feature. Safe to repeat."""
    everything = Installation(features=frozenset(one.when for one in PERMISSIONS))
    await _ensure(client, namespace_object(everything))
    async with asyncio.TaskGroup() as group:
        for document in (*crd_documents(), *access_objects(everything)):
            group.create_task(_ensure(client, document))


async def _ensure(client: Client, document: dict[str, Any]) -> None:
    """Create, or bring up to date with a merge patch where it is there already."""
    resource, key = resource_of(document), key_of(document)
    try:
        await client.create(resource, key.namespace, document)
    except AlreadyExists:
        await client.patch(resource, key, document)


async def operator_token(client: Client, seconds: int) -> str:
    """A token of the operator's ServiceAccount, by the TokenRequest API."""
    path = SERVICE_ACCOUNTS.path(NAMESPACE, OPERATOR, "token")
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    response = await client.send("POST", path, body=msgspec.json.encode(request))
    return str(msgspec.json.decode(response.body)["status"]["token"])
