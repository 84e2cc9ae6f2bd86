"""`manta delete KIND NAME` or `-f FILE`: remove objects, and wait until they are gone."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from manta.api.meta import Key, Object
from manta.api.resources import Resource
from manta.cli.connection import (
    add_connection_flags,
    add_namespace_flag,
    namespace_of,
    open_client,
)
from manta.cli.kinds import Kinds
from manta.cli.manifests import read_manifests
from manta.cli.usage import UsageError
from manta.kube.client import Client
from manta.kube.errors import NotFound


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("delete", help="remove objects")
    parser.add_argument(
        "kind",
        nargs="?",
        help="kind, or KIND/NAME; `clusters`, `jobs` and `services` are Ray's: say `jobs.batch` and `svc` "
        "for Kubernetes' own",
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("-f", "--filename", action="append", default=[], metavar="FILE")
    add_namespace_flag(parser)
    parser.add_argument("--no-wait", action="store_true", help="do not wait until they are gone")
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    if not args.kind and not args.filename:
        raise UsageError("what is to be deleted? manta delete KIND NAME, or manta delete -f FILE")
    return asyncio.run(_delete(args))


async def _delete(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        kinds = await Kinds.discover(client)
        targets = _targets(args, kinds)
        for resource, key in targets:
            present = await client.delete(resource, key)
            verdict = "deleted" if present else "was not there"
            print(f"{resource.kind.lower()}/{key.name} {verdict}")
        if not args.no_wait:
            await asyncio.gather(*(_until_gone(client, *target) for target in targets))
    return 0


def _targets(args: argparse.Namespace, kinds: Kinds) -> list[tuple[Resource, Key]]:
    targets, namespace = [], namespace_of(args)
    for document in read_manifests(args.filename):
        resource = kinds.of(document["apiVersion"], document["kind"])
        metadata = document["metadata"]
        where = metadata.get("namespace", namespace) if resource.namespaced else ""
        targets.append((resource, Key(where, metadata["name"])))
    if args.kind:
        word, _, inline = args.kind.partition("/")
        resource = kinds.named(word)
        names = [*([inline] if inline else []), *args.names]
        if not names:
            raise UsageError(f"which {resource.plural}? name at least one")
        where = namespace if resource.namespaced else ""
        targets.extend((resource, Key(where, name)) for name in names)
    return targets


async def _until_gone(client: Client, resource: Resource, key: Key) -> None:
    try:
        seen = await client.get(resource, key, into=Object)
    except NotFound:
        return
    watch = client.watch(
        resource,
        key.namespace,
        into=Object,
        fields=f"metadata.name={key.name}",
        resource_version=seen.metadata.resource_version,
    )
    async for event in watch:
        if event.type == "DELETED":
            return
