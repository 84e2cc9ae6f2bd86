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
from manta.cli.get import wanted
from manta.cli.kinds import Kinds
from manta.cli.manifests import read_manifests
from manta.cli.usage import UsageError, examples
from manta.kube.client import Client
from manta.kube.errors import NotFound


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "delete",
        help="delete objects",
        description="Delete objects, and wait until they are gone.",
        **examples(
            ("manta delete raycluster demo", "by name"),
            ("manta delete -f cluster.yaml", "what a file holds"),
            ("manta delete pods -l ray.io/cluster=demo", "by labels"),
            ("manta delete rayjobs --all -n team-a", "all of a namespace"),
        ),
    )
    parser.add_argument("kind", nargs="?", help="kinds, such as pods,svc, or KIND/NAME")
    parser.add_argument("names", nargs="*", metavar="NAME", help="names, or more KIND/NAME")
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="FILE",
        help="delete what this file, directory or standard input (-) holds",
    )
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="such as a=b,c!=d")
    parser.add_argument("--all", action="store_true", help="all of this kind in the namespace")
    add_namespace_flag(parser)
    parser.set_defaults(all_namespaces=False)
    parser.add_argument("--no-wait", action="store_true", help="do not wait until they are gone")
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    if not args.kind and not args.filename:
        raise UsageError("what is to be deleted? manta delete KIND NAME, or manta delete -f FILE")
    return asyncio.run(_delete(args))


async def _delete(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        kinds = await Kinds.discover(client)
        targets = [*_written(args, kinds), *await _named(client, args, kinds)]
        if not targets:
            print(f"No {args.kind} with the labels {args.selector}." if args.selector else "None.")
        for resource, key in targets:
            present = await client.delete(resource, key)
            verdict = "deleted" if present else "was not there"
            print(f"{resource.kind.lower()}/{key.name} {verdict}")
        if not args.no_wait:
            await asyncio.gather(*(_until_gone(client, *target) for target in targets))
    return 0


def _written(args: argparse.Namespace, kinds: Kinds) -> list[tuple[Resource, Key]]:
    targets, namespace = [], namespace_of(args)
    documents = read_manifests(args.filename)
    if args.filename and not documents:
        raise UsageError(f"no objects in {', '.join(args.filename)}: nothing was deleted")
    for document in documents:
        resource = kinds.of(document["apiVersion"], document["kind"])
        metadata = document["metadata"]
        where = metadata.get("namespace", namespace) if resource.namespaced else ""
        targets.append((resource, Key(where, metadata["name"])))
    return targets


async def _named(
    client: Client, args: argparse.Namespace, kinds: Kinds
) -> list[tuple[Resource, Key]]:
    """Those that the words name, or all with the labels; never all of a kind by mistake."""
    if not args.kind:
        return []
    targets: list[tuple[Resource, Key]] = []
    for one in wanted(args, kinds):
        if one.key.name and args.all:
            raise UsageError(f"--all and the name {one.key.name}: leave out one of them")
        if one.key.name:
            targets.append((one.resource, one.key))
        elif args.selector or args.all:
            listed = await client.list(
                one.resource, one.key.namespace, into=Object, labels=args.selector
            )
            targets += [(one.resource, item.metadata.key) for item in listed.items]
        else:
            raise UsageError(
                f"which {one.resource.plural}? name at least one, or say -l LABELS or --all"
            )
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
