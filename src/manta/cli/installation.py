"""What the operator needs of a cluster: CRDs, a namespace, a ServiceAccount and its permissions.

The rules are those of the chart (`charts/manta`), and a test compares both.
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
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists

OPERATOR = "manta-operator"
NAMESPACE = "manta-system"
READ = ("get", "list", "watch")
WRITE = ("create", "delete", "patch")


def _rule(group: str, resources: str, *verbs: str) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": list(verbs)}


RAY_KINDS = "rayclusters rayjobs rayservices raycronjobs"
RULES: tuple[dict[str, Any], ...] = (
    _rule("", "pods", *READ, *WRITE, "deletecollection"),
    _rule("", "services persistentvolumeclaims", *READ, *WRITE),
    _rule("", "serviceaccounts", *READ, "create"),
    _rule("", "secrets", "get", "create"),
    _rule("", "pods/proxy services/proxy", "get", "create", "update"),
    # Held only so that it may be granted to the Role of an autoscaler.
    _rule("", "pods/resize", "patch"),
    _rule("ray.io", RAY_KINDS, *READ, *WRITE, "update"),
    _rule(
        "ray.io", " ".join(f"{kind}/status" for kind in RAY_KINDS.split()), "get", "patch", "update"
    ),
    _rule("ray.io", " ".join(f"{kind}/finalizers" for kind in RAY_KINDS.split()), "update"),
    _rule("batch", "jobs", *READ, *WRITE),
    _rule("rbac.authorization.k8s.io", "roles rolebindings", *READ, *WRITE),
    _rule("networking.k8s.io", "ingresses networkpolicies", *READ, *WRITE),
    _rule("gateway.networking.k8s.io", "gateways httproutes", *READ, *WRITE),
    _rule("discovery.k8s.io", "endpointslices", *READ),
    _rule("events.k8s.io", "events", "create", "patch"),
    _rule("coordination.k8s.io", "leases", "create", "get", "update", "patch"),
    _rule("apiextensions.k8s.io", "customresourcedefinitions", "get"),
)


async def install(client: Client) -> None:
    """Make the cluster ready for the operator. Safe to repeat; objects of the same content stay."""
    async with asyncio.TaskGroup() as group:
        for document in crd_documents():
            group.create_task(_ensure(client, CUSTOM_RESOURCE_DEFINITIONS, document))
        for resource, document in _objects():
            group.create_task(_ensure(client, resource, document))
    await _ensure(client, SERVICE_ACCOUNTS, _named(OPERATOR, namespace=NAMESPACE))


def _objects() -> list[tuple[Resource, dict[str, Any]]]:
    role = {**_named(OPERATOR), "rules": list(RULES)}
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
