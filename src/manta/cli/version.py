"""`manta version`: of this command, and of the server that it talks to."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

import msgspec

from manta import __version__
from manta.cli.connection import NoServerError, add_connection_flags, cluster_of, open_client
from manta.cli.usage import examples
from manta.kube.errors import MantaError

PATIENCE = 5.0


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "version",
        help="show the versions of this command and of the server",
        **examples(
            ("manta version", "both"),
            ("manta version --client", "this command only, without asking a server"),
            ("manta version -o json", "for programs"),
        ),
    )
    parser.add_argument("--client", action="store_true", help="ask no server")
    parser.add_argument("-o", "--output", choices=("json",), default="", help="json: for programs")
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    """A server that cannot be asked is said, and no failure: the question was about versions."""
    found = {"client": __version__}
    if not args.client:
        try:
            server = cluster_of(args).server
            found |= {"server": asyncio.run(_server(args)), "address": server}
        except NoServerError:
            found["server"] = "none is known here"
        except MantaError as error:
            found["server"] = f"cannot be asked: {error}"
    if args.output == "json":
        print(json.dumps(found, indent=2))
        return 0
    print(f"manta    {found['client']}")
    if "server" in found:
        print(f"server   {found['server']} {found.get('address', '')}".rstrip())
    return 0


async def _server(args: argparse.Namespace) -> str:
    async with open_client(args) as client:
        response = await client.send("GET", "/version", timeout=PATIENCE)
    answer = msgspec.json.decode(response.body)
    return str(answer.get("gitVersion", "?"))
