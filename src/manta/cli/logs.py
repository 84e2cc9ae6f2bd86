"""`manta logs POD` or `job/NAME`: what a container or a RayJob printed, also while it prints."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import Any

from manta.api.meta import Key
from manta.api.resources import PODS
from manta.cli.connection import (
    add_connection_flags,
    add_namespace_flag,
    namespace_of,
    open_client,
)


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("logs", help="print the logs of a Pod or a RayJob")
    parser.add_argument("pod", metavar="POD", help="a Pod; job/NAME: a RayJob")
    parser.add_argument("-c", "--container", default="")
    add_namespace_flag(parser)
    parser.add_argument("-f", "--follow", action="store_true")
    parser.add_argument(
        "-p", "--previous", action="store_true", help="of the container before this"
    )
    parser.add_argument("--tail", type=int, metavar="LINES")
    parser.add_argument("--since", type=int, metavar="SECONDS")
    parser.add_argument("--timestamps", action="store_true")
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    return asyncio.run(_logs(args))


OF_A_JOB = ("job", "jobs", "rayjob", "rayjobs")


async def _logs(args: argparse.Namespace) -> int:
    kind, slash, name = args.pod.partition("/")
    if slash and kind in OF_A_JOB:
        from manta.cli.joblogs import print_job_log

        async with open_client(args) as client:
            await print_job_log(client, Key(namespace_of(args), name), follow=args.follow)
        return 0
    key = Key(namespace_of(args), args.pod.removeprefix("pod/"))
    async with open_client(args) as client:
        path = PODS.path(key.namespace, key.name, "log")
        async with client.stream(path, query=_query(args)) as stream:
            async for chunk in stream.chunks():
                sys.stdout.buffer.write(chunk)
                sys.stdout.flush()
    return 0


def _query(args: argparse.Namespace) -> tuple[tuple[str, str], ...]:
    wanted = {
        "container": args.container,
        "follow": "true" if args.follow else "",
        "previous": "true" if args.previous else "",
        "tailLines": "" if args.tail is None else str(args.tail),
        "sinceSeconds": "" if args.since is None else str(args.since),
        "timestamps": "true" if args.timestamps else "",
    }
    return tuple((name, value) for name, value in wanted.items() if value)
