"""`manta version`: the versions of this command and of the API server."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

import msgspec

from manta import __version__
from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags, cluster_of, open_client
from manta.client.connection import NoServerError
from manta.kube.errors import MantaError

TIMEOUT_SECONDS = 5.0


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "version",
        **examples(
            ("manta version", "both"),
            ("manta version --client", "this command only"),
            ("manta version -o json", "for programs"),
        ),
    )
    parser.add_argument("--client", action="store_true", help="do not contact the API server")
    parser.add_argument("-o", "--output", choices=("json",), default="", help="json: for programs")
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Print the versions. An unreachable API server is shown, and is no error."""
    found = {"client": __version__}
    if not args.client:
        try:
            server = cluster_of(args).server
            found |= {"server": asyncio.run(_server(args)), "address": server}
        except NoServerError:
            found["server"] = "none is configured"
        except MantaError as error:
            found["server"] = f"unreachable: {error}"
    if args.output == "json":
        print(json.dumps(found, indent=2))
        return 0
    print(f"manta    {found['client']}")
    if "server" in found:
        print(f"server   {found['server']} {found.get('address', '')}".rstrip())
    return 0


async def _server(args: argparse.Namespace) -> str:
    async with open_client(args) as client:
        response = await client.send("GET", "/version", timeout=TIMEOUT_SECONDS)
    answer = msgspec.json.decode(response.body)
    return str(answer.get("gitVersion", "?"))
