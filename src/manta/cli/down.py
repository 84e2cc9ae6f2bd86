"""`manta down`: stop the plane of this machine, and leave nothing of it behind."""

from __future__ import annotations

import argparse
import shutil
from typing import Any

from manta.cli.connection import add_directory_flag
from manta.cli.planeprocess import read_record, record_path, stop


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("down", help="stop the plane and all its Pods")
    parser.add_argument("--purge", action="store_true", help="also remove its state directory")
    add_directory_flag(parser)


def run(args: argparse.Namespace) -> int:
    from manta.localplane.node.cleanup import remove_everything

    directory = args.dir.resolve()
    if record := read_record(directory):
        graceful = stop(record)
        print(f"stopped the plane (pid {record.pid}){'' if graceful else ', by force'}")
    else:
        print(f"no plane runs in {directory}")
    removed = remove_everything(directory / "node", purge=args.purge)
    if removed.processes or removed.interfaces:
        print(
            f"removed {len(removed.processes)} processes and "
            f"{len(removed.interfaces)} network interfaces of its Pods"
        )
    if removed.cgroups:
        print(f"still in use, and left: {', '.join(removed.cgroups)}")
    record_path(directory).unlink(missing_ok=True)
    (directory / "kubeconfig").unlink(missing_ok=True)
    if args.purge and directory.exists():
        shutil.rmtree(directory)
        print(f"removed {directory}")
    return 0
