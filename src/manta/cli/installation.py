"""What the operator needs of a cluster: CRDs, a namespace, a ServiceAccount and its permissions.

The permissions are those of `permissions.py`, as in the chart.
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
    NAMESPACES,
    SERVICE_ACCOUNTS,
    Resource,
)
from manta.cli.permissions import LEASE_PERMISSIONS, PERMISSIONS, rules
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists

OPERATOR = "manta-operator"
NAMESPACE = "manta-system"


async def install(client: Client) -> None:
    """Make the cluster ready for the operator. Safe to repeat; objects of the same content stay."""
    async with asyncio.TaskGroup() as group:
        for document in crd_documents():
            group.create_task(_ensure(client, CUSTOM_RESOURCE_DEFINITIONS, document))
        for resource, document in _objects():
            group.create_task(_ensure(client, resource, document))
    await _ensure(client, SERVICE_ACCOUNTS, _named(OPERATOR, namespace=NAMESPACE))


def _objects() -> list[tuple[Resource, dict[str, Any]]]:
    held = [*rules(one.when for one in PERMISSIONS), *(one.rule for one in LEASE_PERMISSIONS)]
    role = {**_named(OPERATOR), "rules": held}
    binding = {
        **_named(OPERATOR),
        "roleRef": {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": OPERATOR},
        "subjects": [{"kind": "ServiceAccount", "name": OPERATOR, "namespace": NAMESPACE}],
    }
    return [
        (NAMESPACES, _named(NAMESPACE)),
        (CLUSTER_ROLES, role),
        (CLUSTER_ROLE_BINDINGS, binding),
    ]


def _named(name: str, namespace: str = "") -> dict[str, Any]:
    where = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, **where, "labels": {"app.kubernetes.io/name": "manta"}}}


async def _ensure(client: Client, resource: Resource, document: dict[str, Any]) -> None:
    """Create, or bring up to date with a merge patch where it is there already."""
    body = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
    namespace = body["metadata"].get("namespace", "")
    try:
        await client.create(resource, namespace, body)
    except AlreadyExists:
        await client.patch(resource, Key(namespace, body["metadata"]["name"]), body)


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
