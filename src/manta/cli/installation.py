"""Puts the operator, or only what it needs, into a cluster; finds it there again.

`install` is for `manta up`, whose operator is no Pod: CRDs, a namespace, an account, its permissions.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from manta.api.crds import crd_documents
from manta.api.meta import Key
from manta.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
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
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists

OPERATOR = NAME

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
    one.kind: one for one in (*OURS, NAMESPACES, CUSTOM_RESOURCE_DEFINITIONS)
}


def resource_of(document: dict[str, Any]) -> Resource:
    return RESOURCES[document["kind"]]


def key_of(document: dict[str, Any]) -> Key:
    metadata = document["metadata"]
    return Key(metadata.get("namespace", ""), metadata["name"])


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
