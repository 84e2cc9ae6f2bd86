"""`manta down`: stop the plane on this machine, and remove its processes and interfaces."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from manta.cli.output.help import examples
from manta.cli.plane.cleanup import remove_lost_planes, remove_plane
from manta.cli.server.connection import add_directory_flag


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "down",
        **examples(
            ("manta down", "stop it; the next `manta up` continues with the same objects"),
            ("manta down --purge", "also remove its state"),
            ("manta down --dir ~/other", "another plane"),
        ),
    )
    parser.add_argument("--purge", action="store_true", help="also remove its state directory")
    add_directory_flag(parser)


def run(args: argparse.Namespace) -> int:
    directory = args.dir.resolve()
    for lost in remove_lost_planes():
        print(f"removed the rest of the plane in {lost}, whose record is missing")
    removed = remove_plane(directory, purge=args.purge)
    if removed.graceful is None:
        print(f"no plane runs in {directory}")
    else:
        force = "" if removed.graceful else ", by force"
        print(f"stopped the plane (pid {removed.pid}){force}")
    if removed.processes or removed.interfaces:
        print(
            f"removed {removed.processes} processes and {removed.interfaces} network interfaces"
            " of its Pods"
        )
    if removed.cgroups:
        print(f"still in use, not removed: {', '.join(removed.cgroups)}")
    if removed.running:
        pids = ", ".join(map(str, removed.running))
        print(f"manta: killed processes that did not end: {pids}", file=sys.stderr)
    if args.purge and directory.exists():
        from manta.localplane.node.host.confined_files import remove_tree

        remove_tree(directory)
        if directory.exists():
            print(f"manta: {directory} could not be removed completely", file=sys.stderr)
            return 1
        print(f"removed {directory}")
    return 0
