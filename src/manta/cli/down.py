"""`manta down`: stop the plane of this machine, and leave nothing of it behind."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from manta.cli.connection import add_directory_flag
from manta.cli.remains import clear, clear_lost_planes
from manta.cli.usage import examples


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "down",
        help="stop the plane and all its Pods",
        **examples(
            ("manta down", "stop it; the next `manta up` starts the same objects again"),
            ("manta down --purge", "also forget its state"),
            ("manta down --dir ~/other", "another plane"),
        ),
    )
    parser.add_argument("--purge", action="store_true", help="also remove its state directory")
    add_directory_flag(parser)


def run(args: argparse.Namespace) -> int:
    directory = args.dir.resolve()
    for lost in clear_lost_planes():
        print(f"removed what was left of the plane in {lost}, whose record is gone")
    cleared = clear(directory, purge=args.purge)
    if cleared.graceful is None:
        print(f"no plane runs in {directory}")
    else:
        force = "" if cleared.graceful else ", by force"
        print(f"stopped the plane (pid {cleared.pid}){force}")
    if cleared.processes or cleared.interfaces:
        print(
            f"removed {cleared.processes} processes and {cleared.interfaces} network interfaces"
            " of its Pods"
        )
    if cleared.cgroups:
        print(f"still in use, and left: {', '.join(cleared.cgroups)}")
    if cleared.running:
        pids = ", ".join(map(str, cleared.running))
        print(
            f"manta: processes that do not end although they were killed: {pids}", file=sys.stderr
        )
    if args.purge and directory.exists():
        from manta.localplane.node.trees import remove_tree

        remove_tree(directory)
        if directory.exists():
            print(f"manta: {directory} could not be removed completely", file=sys.stderr)
            return 1
        print(f"removed {directory}")
    return 0
