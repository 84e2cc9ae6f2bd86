"""`manta scale KIND/NAME --replicas N`: the number of workers, or of Pods of a Deployment."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.discovery import Kinds
from manta.client.scaling import scale_group

DEFAULT_KIND = "rayclusters"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "scale",
        **examples(
            ("manta scale demo --replicas 3", "the only worker group of a RayCluster"),
            ("manta scale demo --group gpu --replicas 0", "one of its groups"),
            ("manta scale deployment/web --replicas 2", "any kind with a scale subresource"),
        ),
    )
    parser.add_argument("target", metavar="[KIND/]NAME", help="default kind: RayCluster")
    parser.add_argument("--replicas", type=int, required=True, metavar="N")
    parser.add_argument("--group", default="", metavar="NAME", help="worker group of a RayCluster")
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    if args.replicas < 0:
        raise UsageError(f"--replicas {args.replicas}: must be zero or more")
    return asyncio.run(_scale(args))


async def _scale(args: argparse.Namespace) -> int:
    word, _, name = args.target.rpartition("/")
    async with open_client(args) as client:
        resource = (await Kinds.discover(client)).named(word or DEFAULT_KIND)
        key = Key(namespace_of(args), name)
        if resource == RAY_CLUSTERS:
            print(await scale_group(client, key, args.group, args.replicas))
            return 0
        if args.group:
            raise UsageError(f"--group {args.group}: a {resource.kind} has no worker groups")
        body = {"spec": {"replicas": args.replicas}}
        await client.patch(resource, key, body, subresource="scale")
        print(f"{resource.kind.lower()}/{key.name} scaled to {args.replicas}")
    return 0
