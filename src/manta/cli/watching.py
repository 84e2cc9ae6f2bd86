"""Objects of one kind as they are and as they change, for the flags `--watch` of commands."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from manta.api.meta import Key
from manta.api.resources import Resource
from manta.kube.client import Client
from manta.kube.errors import Gone, NotFound

Change = tuple[str, dict[str, Any]]
"""INITIAL, ADDED, MODIFIED or DELETED, and the object."""


async def watch_objects(
    client: Client, resource: Resource, key: Key, labels: str = ""
) -> AsyncIterator[Change]:
    """Those that are there, then every change, for ever. A key without a name means all of them.

    NotFound when an object is named and not there.
    """
    fields = f"metadata.name={key.name}" if key.name else ""
    listed = await client.list(resource, key.namespace, labels=labels, fields=fields)
    if key.name and not listed.items:
        await client.get(resource, key)  # says that it is not there, in the server's words
    known: dict[str, dict[str, Any]] = {}
    kind = "INITIAL"
    while True:
        for item in listed.items:
            uid = item["metadata"]["uid"]
            if known.get(uid) != item:
                known[uid] = item
                yield kind, item
        version, kind = listed.resource_version, "MODIFIED"
        try:
            while True:
                async for event in client.watch(
                    resource, key.namespace, labels=labels, fields=fields, resource_version=version
                ):
                    version = event.resource_version
                    if event.type in ("ADDED", "MODIFIED", "DELETED"):
                        known[event.object["metadata"]["uid"]] = event.object
                        yield event.type, event.object
        except (Gone, NotFound):  # too old a version: list again, and go on from there
            listed = await client.list(resource, key.namespace, labels=labels, fields=fields)
