"""`kubectl ray delete NAME | TYPE/NAME ...`: ask, then delete Ray objects."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Any

from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.ray_targets import RayObject, parse_target
from manta.kube.errors import MantaError


class DeleteError(MantaError):
    """An object does not exist, or nobody confirmed."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "delete",
        **examples(
            ("kubectl ray delete demo", "a RayCluster"),
            (
                "kubectl ray delete rayjob/train rayservice/web -y",
                "two objects, without a question",
            ),
        ),
    )
    parser.add_argument(
        "targets", nargs="+", metavar="NAME | TYPE/NAME", help="default type: raycluster"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    namespace = namespace_of(args)
    targets = [parse_target(text, namespace) for text in args.targets]
    if not args.yes and not confirmed(targets):
        return 0
    return asyncio.run(_delete(args, targets))


def confirmed(targets: Sequence[RayObject]) -> bool:
    """Ask on standard output. Raises DeleteError if there is no answer."""
    listed = "".join(f"\n- {one}" for one in targets)
    print(
        f"Are you sure you want to delete the following resources?{listed}\n(y/yes/n/no)",
        end="",
        flush=True,
    )
    answer = sys.stdin.readline()
    if not answer:
        raise DeleteError("no answer on standard input: nothing was deleted; -y answers yes")
    word = answer.strip().lower()
    if word not in ("y", "yes"):
        print("Canceled deletion." if word in ("n", "no") else f"Unknown input {answer.strip()}")
    return word in ("y", "yes")


async def _delete(args: argparse.Namespace, targets: Sequence[RayObject]) -> int:
    async with open_client(args) as client:
        for one in targets:
            if not await client.delete(one.resource, one.key):
                raise DeleteError(f"failed to delete {one}: not found in {one.key.namespace}")
            print(f"Deleted {one.resource.kind.lower()} {one.key.name}", flush=True)
    return 0
