"""Wait for Ray objects by watches, and say what they wait for."""

from __future__ import annotations

import sys
from contextlib import aclosing
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import Resource
from manta.client.readiness import judge
from manta.client.watch import states
from manta.kube.client import Client

Document = dict[str, Any]


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
