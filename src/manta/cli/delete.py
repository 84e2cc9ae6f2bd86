"""`manta delete KIND NAME` or `-f FILE`: delete objects, and wait until they are gone."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from manta.api.meta import Key, Object
from manta.api.resources import Resource
from manta.api.usage import UsageError
from manta.cli.get import selections
from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.discovery import Kinds
from manta.cli.server.manifests import add_filename_flag, read_manifests
from manta.client.watch import watch_object
from manta.kube.client import Client


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "delete",
        description="Delete objects, and wait until they are gone.",
        **examples(
            ("manta delete raycluster demo", "by name"),
            ("manta delete -f cluster.yaml", "the objects of a file"),
            ("manta delete pods -l ray.io/cluster=demo", "by labels"),
            ("manta delete rayjobs --all -n team-a", "all of one kind in a namespace"),
        ),
    )
    parser.add_argument("kind", nargs="?", help="kinds, such as pods,svc, or KIND/NAME")
    parser.add_argument("names", nargs="*", metavar="NAME", help="names, or more KIND/NAME")
    add_filename_flag(parser, "delete these objects", default=[])
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="such as a=b,c!=d")
    parser.add_argument("--all", action="store_true", help="all of this kind in the namespace")
    parser.set_defaults(all_namespaces=False)
    parser.add_argument("--no-wait", action="store_true", help="do not wait until they are gone")
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    if not args.kind and not args.filename:
        raise UsageError(
            "name an object or a file: manta delete KIND NAME, or manta delete -f FILE"
        )
    return asyncio.run(_delete(args))


async def _delete(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        kinds = await Kinds.discover(client)
        targets = [*_from_files(args, kinds), *await _named(client, args, kinds)]
        if not targets:
            print(f"No {args.kind} with the labels {args.selector}." if args.selector else "None.")
        for resource, key in targets:
            present = await client.delete(resource, key)
            verdict = "deleted" if present else "not found"
            print(f"{resource.kind.lower()}/{key.name} {verdict}")
        if not args.no_wait:
            await asyncio.gather(*(_until_gone(client, *target) for target in targets))
    return 0


def _from_files(args: argparse.Namespace, kinds: Kinds) -> list[tuple[Resource, Key]]:
    documents = read_manifests(args.filename)
    if args.filename and not documents:
        raise UsageError(f"no objects in {', '.join(args.filename)}: nothing was deleted")
    return [kinds.locate(document, namespace_of(args)) for document in documents]


async def _named(
    client: Client, args: argparse.Namespace, kinds: Kinds
) -> list[tuple[Resource, Key]]:
    """The named objects, or those with the labels. All of a kind only with --all."""
    if not args.kind:
        return []
    targets: list[tuple[Resource, Key]] = []
    for one in selections(args, kinds):
        if one.key.name and args.all:
            raise UsageError(f"--all and the name {one.key.name}: use only one of them")
        if one.key.name:
            targets.append((one.resource, one.key))
        elif args.selector or args.all:
            listed = await client.list(
                one.resource, one.key.namespace, into=Object, labels=args.selector
            )
            targets += [(one.resource, item.metadata.key) for item in listed.items]
        else:
            raise UsageError(f"name {one.resource.plural} to delete, or use -l LABELS or --all")
    return targets


async def _until_gone(client: Client, resource: Resource, key: Key) -> None:
    async for _ in watch_object(client, resource, key):
        pass
