"""`manta apply -f FILE`: server-side apply of the objects in files.

It uses the field manager of kubectl, so that kubectl can apply the same objects: see `cli/server/field_ownership.py`.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from manta.api.meta import Key
from manta.api.resources import Resource
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.discovery import Kinds
from manta.cli.server.field_ownership import FIELD_MANAGER, migration, with_last_applied
from manta.cli.server.manifests import Document, add_filename_flag, read_manifests
from manta.kube.client import Client
from manta.kube.errors import ApiError, Conflict, NotFound

UNKNOWN_FIELD = ": field not declared in schema"
"""Part of the message with which the API server rejects an unknown field, with status 500."""
SERVER_FIELDS = frozenset(("managedFields", "resourceVersion", "generation"))


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "apply",
        description="Create or change the objects of the files. kubectl can apply the same objects.",
        **examples(
            ("manta apply -f cluster.yaml", "create or change the objects of the file"),
            ("manta apply -f manifests/", "all .yaml, .yml and .json files of a directory"),
            ("cat x.yaml | manta apply -f -", "from standard input"),
            ("manta apply -f x.yaml --dry-run", "validate on the server, change nothing"),
        ),
    )
    add_filename_flag(parser, "apply these objects", required=True)
    parser.add_argument(
        "--force-conflicts",
        action="store_true",
        help="also change fields that another field manager owns",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="validate on the server, change nothing"
    )
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    documents = read_manifests(args.filename)
    if not documents:
        raise UsageError(f"no objects in {', '.join(args.filename)}: nothing was applied")
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
    """Apply one object. Returns what happened, as kubectl prints it. Raises UsageError on a conflict."""
    resource, key = kinds.locate(document, namespace)
    live, written = await server_side_apply(
        client, resource, key, document, force=force, dry_run=dry_run
    )
    verb = "created" if live is None else "configured"
    if live is not None and _same(live, written):
        verb = "unchanged"
    return f"{resource.kind.lower()}/{key.name} {verb}{' (dry run)' if dry_run else ''}"


async def server_side_apply(
    client: Client,
    resource: Resource,
    key: Key,
    document: Document,
    *,
    force: bool = False,
    dry_run: bool = False,
    conflict_advice: str = "use --force-conflicts",
) -> tuple[Document | None, Document]:
    """Apply one object. Returns it as it was before (None: it did not exist) and as it is now.

    Raises UsageError on a conflict. Its message advises to remove the fields from the file, or `conflict_advice`.
    """
    metadata = dict(document["metadata"])
    if key.namespace:
        metadata["namespace"] = key.namespace
    live, needs_migration = await _migrate_ownership(client, resource, key, dry_run=dry_run)
    try:
        written = await client.patch(
            resource,
            key,
            with_last_applied({**document, "metadata": metadata}),
            kind="apply",
            field_manager=FIELD_MANAGER,
            force=force or (dry_run and needs_migration),
            dry_run=dry_run,
            into=dict,
        )
    except Conflict as error:
        raise UsageError(
            f"{resource.kind.lower()}/{key.name}: {error.message}. Remove these fields from the "
            f"file, or {conflict_advice}"
        ) from error
    except ApiError as error:
        field, found, _ = error.message.rpartition(UNKNOWN_FIELD)
        if not found:
            raise
        raise UsageError(
            f"{resource.kind.lower()}/{key.name}: unknown field {field.rpartition(' ')[2]!r}: is it "
            "spelt correctly, and is the CRD up to date?"
        ) from error
    return live, written


def _same(live: Document, written: Document) -> bool:
    """Whether the content is equal. A dry run returns no new resourceVersion to compare."""
    return _content(live) == _content(written)


def _content(document: Document) -> Document:
    meta = {k: v for k, v in document["metadata"].items() if k not in SERVER_FIELDS}
    return {**document, "metadata": meta}


async def _migrate_ownership(
    client: Client, resource: Resource, key: Key, *, dry_run: bool
) -> tuple[Document | None, bool]:
    """The existing object or None, and whether its field ownership had to be migrated to server-side apply.

    A dry run does not migrate. The caller must then force the apply, or it would report false conflicts.
    """
    try:
        live = await client.get(resource, key)
    except NotFound:
        return None, False
    patch = migration(live)
    if patch and not dry_run:
        await client.patch(resource, key, patch, kind="json")
    return live, bool(patch)
