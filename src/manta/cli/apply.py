"""`manta apply -f FILE`: make the server's objects as the files say, by server-side apply."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from manta.api.meta import Key
from manta.cli.connection import (
    add_connection_flags,
    add_namespace_flag,
    namespace_of,
    open_client,
)
from manta.cli.kinds import Kinds
from manta.cli.manifests import Document, read_manifests
from manta.kube.client import Client
from manta.kube.errors import NotFound

FIELD_MANAGER = "manta-cli"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("apply", help="create or change objects from files")
    parser.add_argument("-f", "--filename", action="append", required=True, metavar="FILE")
    add_namespace_flag(parser)
    parser.add_argument(
        "--force-conflicts", action="store_true", help="take fields over from others"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="let the server check, change nothing"
    )
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    documents = read_manifests(args.filename)
    return asyncio.run(_apply(args, documents))


async def _apply(args: argparse.Namespace, documents: list[Document]) -> int:
    async with open_client(args) as client:
        kinds, namespace = await Kinds.discover(client), namespace_of(args)
        for document in documents:
            text = await apply_document(
                client,
                kinds,
                document,
                namespace=namespace,
                force=args.force_conflicts,
                dry_run=args.dry_run,
            )
            print(text)
    return 0


async def apply_document(
    client: Client,
    kinds: Kinds,
    document: Document,
    *,
    namespace: str = "default",
    force: bool = False,
    dry_run: bool = False,
) -> str:
    """Apply one object; answers with what happened, as kubectl words it."""
    resource = kinds.of(document["apiVersion"], document["kind"])
    metadata = dict(document["metadata"])
    where = metadata.get("namespace", namespace) if resource.namespaced else ""
    if where:
        metadata["namespace"] = where
    key = Key(where, metadata["name"])
    before = await _version(client, resource, key)
    written = await client.patch(
        resource,
        key,
        {**document, "metadata": metadata},
        kind="apply",
        field_manager=FIELD_MANAGER,
        force=force,
        dry_run=dry_run,
    )
    if before is None:
        verb = "created"
    else:
        verb = "unchanged" if before == written.metadata.resource_version else "configured"
    suffix = " (dry run)" if dry_run else ""
    return f"{resource.kind.lower()}/{key.name} {verb}{suffix}"


async def _version(client: Client, resource: Any, key: Key) -> str | None:
    from manta.kube.client import Written

    try:
        return (await client.get(resource, key, into=Written)).metadata.resource_version
    except NotFound:
        return None
