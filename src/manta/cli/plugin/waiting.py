"""Wait for Ray objects by watches, and say what they wait for."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import Resource
from manta.client.readiness import judge
from manta.client.watch import watch_object
from manta.kube.client import Client
from manta.kube.errors import MantaError

Document = dict[str, Any]


class DeletedError(MantaError):
    """The object was deleted while the command waited for it."""


async def states(client: Client, resource: Resource, key: Key) -> AsyncGenerator[Document, None]:
    """The object now and after each change. Raises DeletedError when it is gone."""
    async with aclosing(watch_object(client, resource, key)) as found:
        async for document in found:
            if document is None:
                break
            yield document
    raise DeletedError(f"{resource.kind} {key} was deleted")


async def until_exists(client: Client, resource: Resource, key: Key) -> None:
    """Return when the object exists. A RayJob names its RayCluster before it creates it."""
    while True:
        watch = client.watch(
            resource, key.namespace, fields=f"metadata.name={key.name}", initial_events=True
        )
        async with aclosing(watch) as events:
            async for event in events:
                if event.type in ("ADDED", "MODIFIED"):
                    return


async def until_cluster(client: Client, key: Key, *, verbose: bool = False) -> Document:
    """The RayCluster once it is provisioned or ready. Says what it waits for if `verbose`."""
    said = ""
    await until_exists(client, RAY_CLUSTERS, key)
    async for cluster in states(client, RAY_CLUSTERS, key):
        if is_provisioned(cluster):
            return cluster
        why = judge(RAY_CLUSTERS.kind, cluster).why
        if verbose and why != said:
            note(f"raycluster/{key.name}: {why}")
            said = why
    raise AssertionError("states() never ends")


def is_provisioned(cluster: Document) -> bool:
    status = cluster.get("status") or {}
    conditions = status.get("conditions") or ()
    done = any(
        one["type"] == "RayClusterProvisioned" and one["status"] == "True" for one in conditions
    )
    return done or status.get("state") == "ready"


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
