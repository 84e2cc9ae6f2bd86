"""`manta suspend TARGET...`: stop the Pods of Ray objects, and keep the objects.

`manta resume` (`resume.py`) starts them again.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from manta.api.ray import names
from manta.api.ray.resources import RAY_CLUSTERS
from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.ray_targets import RayObject, parse_target
from manta.kube.client import Client


def add_parser(subparsers: Any) -> None:
    add_targets(
        subparsers.add_parser(
            "suspend",
            **examples(
                ("manta suspend demo", "delete the Pods of a RayCluster"),
                ("manta suspend rayjob/train raycronjob/nightly", "a job, and a schedule"),
                ("manta suspend rayservice/echo", "delete all clusters of a service"),
            ),
        )
    )


def add_targets(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "targets", nargs="+", metavar="NAME | TYPE/NAME", help="default type: raycluster"
    )
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    return asyncio.run(set_suspended(args, suspended=True))


async def set_suspended(args: argparse.Namespace, *, suspended: bool) -> int:
    """Set `spec.suspend` of all targets, and say which changed. Raises UsageError."""
    namespace = namespace_of(args)
    targets = [parse_target(text, namespace) for text in args.targets]
    async with open_client(args) as client:
        for one in targets:
            print(await set_one(client, one, suspended=suspended), flush=True)
    return 0


async def set_one(client: Client, one: RayObject, *, suspended: bool) -> str:
    """Say what changed. A cluster that the operator suspended for idleness is the user's from then on: using it no
    longer wakes it."""
    document = await client.get(one.resource, one.key)
    notes = document["metadata"].get("annotations") or {}
    slept = suspended and names.ANNOTATION_IDLE_SUSPENDED in notes
    is_so = bool(document["spec"].get("suspend")) == suspended
    if is_so and not slept:
        return f"{one} is {'already' if suspended else 'not'} suspended"
    body: dict[str, Any] = {"spec": {"suspend": suspended}}
    if suspended and one.resource == RAY_CLUSTERS:  # the operator may suspend it at this moment
        body["metadata"] = {"annotations": dict.fromkeys(names.IDLE_MARKS)}
    await client.patch(one.resource, one.key, body)
    if is_so:
        return f"{one} was suspended for idleness, and stays suspended until it is resumed"
    return f"{one} {'suspended' if suspended else 'resumed'}"
