"""`manta console`: pages on which people see and steer their Ray clusters."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags
from manta.cli.server.operator_settings import add_settings_flags

DEFAULT_PORT = 8267


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "console",
        description="Serve the console on this machine, with the rights of the kubeconfig's user, until "
        "Ctrl-C. The printed link logs one browser in.",
        **examples(
            ("manta console", "print a link that logs one browser in"),
            ("manta console --open", "and open it"),
            ("manta console -n team-a,team-b", "if you may not list all namespaces"),
        ),
    )
    parser.add_argument(
        "--port",
        type=int,
        default=0,
        help=f"port of 127.0.0.1 (default: {DEFAULT_PORT} if it is free)",
    )
    parser.add_argument("--open", action="store_true", help="open the browser")
    parser.add_argument("--listener", type=int, help=argparse.SUPPRESS)  # for `manta up`
    add_connection_flags(parser, namespace=True)
    add_settings_flags(parser)


def run(args: argparse.Namespace) -> int:
    from manta.cli.server.console_server import serve

    return serve(args)


def key_path(directory: Path) -> Path:
    """The key of the cookies: it outlives a restart, so that open tabs recover."""
    return directory / "console.key"
