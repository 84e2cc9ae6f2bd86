"""`manta top`: the fleet in a terminal."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from typing import Any

from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "top",
        description="Show every Ray object in the terminal, what each waits for, and the GPUs, as it changes. "
        "Keys: / filter, s sort, r reverse, k kind, t state, enter opens an object, g GPUs, q quits. "
        "Needs Textual: pip install 'manta-ray-operator[tui]'.",
        **examples(
            ("manta top", "all namespaces"),
            ("manta top --context prod", "a Kubernetes cluster"),
            ("manta top -n team-a,team-b", "if you may not list all namespaces"),
        ),
    )
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    if importlib.util.find_spec("textual") is None:
        raise UsageError("manta top needs Textual: pip install 'manta-ray-operator[tui]'")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("manta top needs a terminal; `manta status -w` prints to anything")
    from manta.cli.server.top_terminal import show

    return show(args)
