"""`manta resume TARGET...`: start suspended Ray objects again."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from manta.cli.output.help import examples
from manta.cli.suspend import add_targets, set_suspended


def add_parser(subparsers: Any) -> None:
    add_targets(
        subparsers.add_parser(
            "resume",
            **examples(
                ("manta resume demo", "create the Pods of a RayCluster again"),
                ("manta resume raycronjob/nightly", "a schedule"),
            ),
        )
    )


def run(args: argparse.Namespace) -> int:
    return asyncio.run(set_suspended(args, suspended=False))
