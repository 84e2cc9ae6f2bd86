"""`manta apply -f FILE`: make the server's objects as the files say, by server-side apply.

Objects that kubectl applied, or will apply, are shared with it: see `cli/kubectl_fields.py`.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from manta.api.meta import Key
from manta.api.resources import Resource
from manta.cli.connection import (
    add_connection_flags,
    add_namespace_flag,
    namespace_of,
    open_client,
)
from manta.cli.kinds import Kinds
from manta.cli.kubectl_fields import FIELD_MANAGER, migration, with_last_applied
from manta.cli.manifests import Document, read_manifests
from manta.cli.usage import UsageError, examples
from manta.kube.client import Client
from manta.kube.errors import ApiError, Conflict, NotFound

UNKNOWN_FIELD = ": field not declared in schema"
"""How a server words it, with status 500."""
BOOKKEEPING = frozenset(("managedFields", "resourceVersion", "generation"))


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "apply",
        help="create or change objects from files",
        description="Create the objects of the files, or change those that are there. kubectl may "
        "apply the same objects before and after.",
        **examples(
            ("manta apply -f cluster.yaml", "create or change what the file holds"),
            ("manta apply -f manifests/", "all .yaml, .yml and .json files of a directory"),
            ("cat x.yaml | manta apply -f -", "from standard input"),
            ("manta apply -f x.yaml --dry-run", "let the server check, change nothing"),
        ),
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        required=True,
        metavar="FILE",
        help="a file, a directory, or - for standard input; may be given more than once",
    )
    add_namespace_flag(parser)
    parser.add_argument(
        "--force-conflicts",
        action="store_true",
        help="also change fields that somebody else has set since",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="let the server check, change nothing"
    )
    add_connection_flags(parser)


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
    """Apply one object; answers with what happened, as kubectl words it."""
    resource = kinds.of(document["apiVersion"], document["kind"])
    metadata = dict(document["metadata"])
    where = metadata.get("namespace", namespace) if resource.namespaced else ""
    if where:
        metadata["namespace"] = where
    key = Key(where, metadata["name"])
    live, shared = await _take_over(client, resource, key, dry_run=dry_run)
    try:
        written = await client.patch(
            resource,
            key,
            with_last_applied({**document, "metadata": metadata}),
            kind="apply",
            field_manager=FIELD_MANAGER,
            force=force or (dry_run and shared),
            dry_run=dry_run,
            into=dict,
        )
    except Conflict as error:
        raise UsageError(
            f"{resource.kind.lower()}/{key.name}: {error.message}. Take these fields out of the "
            "file, or change them with --force-conflicts"
        ) from error
    except ApiError as error:
        field, found, _ = error.message.rpartition(UNKNOWN_FIELD)
        if not found:
            raise
        raise UsageError(
            f"{resource.kind.lower()}/{key.name}: unknown field {field.rpartition(' ')[2]!r}: is it "
            "spelt correctly, and is the CRD up to date?"
        ) from error
    verb = "created" if live is None else "configured"
    if live is not None and _same(live, written):
        verb = "unchanged"
    return f"{resource.kind.lower()}/{key.name} {verb}{' (dry run)' if dry_run else ''}"


def _same(live: Document, written: Document) -> bool:
    """But for the bookkeeping; a dry run gives no new version."""
    return _content(live) == _content(written)


def _content(document: Document) -> Document:
    meta = {k: v for k, v in document["metadata"].items() if k not in BOOKKEEPING}
    return {**document, "metadata": meta}


async def _take_over(
    client: Client, resource: Resource, key: Key, *, dry_run: bool
) -> tuple[Document | None, bool]:
    """The object that is there, and whether others of us own fields. None: there is no object.

    A dry run changes no owners: it must then be forced, or it would find conflicts that are none.
    """
    try:
        live = await client.get(resource, key)
    except NotFound:
        return None, False
    patch = migration(live)
    if patch and not dry_run:
        await client.patch(resource, key, patch, kind="json")
    return live, bool(patch)
