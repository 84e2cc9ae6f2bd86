"""Objects and their changes, by watches: for `--watch`, and to wait for a state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, Final

from manta.api.meta import Key
from manta.api.resources import Resource
from manta.kube.client import Client
from manta.kube.errors import Gone, MantaError, NotFound, TooManyRequests, Unavailable, Unreachable

Document = dict[str, Any]
Change = tuple[str, Document]
"""INITIAL, ADDED, MODIFIED or DELETED, and the object."""
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 10.0
"""Seconds before a lost connection is tried again: doubled each time."""


class DeletedError(MantaError):
    """The object was deleted while somebody waited for it."""


async def watch_objects(
    client: Client, resource: Resource, key: Key, labels: str = ""
) -> AsyncIterator[Change]:
    """Yield the existing objects, then every change. A key without a name selects all objects.

    Raises NotFound if a named object does not exist.
    """
    fields = f"metadata.name={key.name}" if key.name else ""
    listed = await client.list(resource, key.namespace, labels=labels, fields=fields)
    if key.name and not listed.items:
        await client.get(resource, key)  # raises NotFound with the server's message
    known: dict[str, Document] = {}
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
        except (Gone, NotFound):  # the version is too old: list again
            listed = await client.list(resource, key.namespace, labels=labels, fields=fields)


async def watch_object(
    client: Client, resource: Resource, key: Key, uid: str = ""
) -> AsyncGenerator[Document | None, None]:
    """Yield the object now and after each change; None, and the end, when it is gone.

    With `uid`, another object of the same name counts as gone. Errors of the first request are raised;
    later a lost connection is opened again, for as long as the caller waits.
    """
    listed = await _listed(client, resource, key)
    pause = FIRST_PAUSE_SECONDS
    while True:
        found, version = listed
        if found is None or (uid and found["metadata"]["uid"] != uid):
            yield None
            return
        yield found
        try:
            watch = client.watch(
                resource,
                key.namespace,
                fields=f"metadata.name={key.name}",
                resource_version=version,
            )
            async with aclosing(watch) as events:
                async for event in events:
                    pause = FIRST_PAUSE_SECONDS
                    if event.type == "DELETED":
                        yield None
                        return
                    if event.type != "BOOKMARK":
                        yield event.object
        except (Gone, NotFound):
            pass
        except (Unreachable, Unavailable, TooManyRequests):
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        listed = await _listed_again(client, resource, key)


async def states(client: Client, resource: Resource, key: Key) -> AsyncGenerator[Document, None]:
    """Like `watch_object`, but raises NotFound if the object never existed, and DeletedError when it is gone."""
    seen = False
    async with aclosing(watch_object(client, resource, key)) as found:
        async for document in found:
            if document is None:
                break
            seen = True
            yield document
    if not seen:
        await client.get(resource, key)  # raises NotFound with the server's message
    raise DeletedError(f"{resource.kind.lower()}/{key.name} was deleted")


async def _listed(client: Client, resource: Resource, key: Key) -> tuple[Document | None, str]:
    """The object if it exists, and the version to watch from."""
    listing = await client.list(resource, key.namespace, fields=f"metadata.name={key.name}")
    return (listing.items[0] if listing.items else None), listing.resource_version


async def _listed_again(
    client: Client, resource: Resource, key: Key
) -> tuple[Document | None, str]:
    """Like `_listed`, once the server answers again."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        try:
            return await _listed(client, resource, key)
        except (Unreachable, Unavailable, TooManyRequests):
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
