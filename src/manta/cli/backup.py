"""`manta backup`: write the state of the plane on this machine to a file."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from manta import __version__
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.server.connection import add_directory_flag


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "backup",
        description="Write the objects and keys of the plane on this machine to a file. The plane may be"
        " running. `manta up --restore FILE` starts a plane from it.",
        **examples(
            ("manta backup ~/manta.tar", "the plane in ~/.manta, running or not"),
            ("manta backup /backup/ci.tar --dir ci", "the plane in ./ci"),
        ),
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="file to write; an existing one is replaced"
    )
    add_directory_flag(parser)


def run(args: argparse.Namespace) -> int:
    from manta.localplane.store.backup import make_backup

    target = args.file.absolute()
    now = datetime.now(UTC).replace(microsecond=0)
    made = make_backup(args.dir.resolve(), target, version=__version__, now=now)
    size = target.stat().st_size
    print(
        f"wrote {target}: {made.objects} objects at revision {made.revision}, {size:,} bytes."
        " It contains Secrets and the keys of the plane: keep it private"
    )
    return 0


def restore(args: argparse.Namespace) -> None:
    """Restore the backup of `manta up --restore FILE`. Raises UsageError while a plane runs."""
    from manta.localplane.plane import PlaneBusy, held_lock
    from manta.localplane.private_files import make_private_directory
    from manta.localplane.store.backup import restore_backup

    make_private_directory(args.dir)
    try:
        with held_lock(args.dir):
            done = restore_backup(
                args.restore.absolute(), args.dir, replace=args.replace_state, now=datetime.now(UTC)
            )
    except PlaneBusy as error:
        raise UsageError(f"--restore {args.restore}: {error}; `manta down` first") from error
    made = done.manifest
    print(
        f"restored {made.objects} objects at revision {made.revision}, as of {made.created}"
        f" (manta {made.version})"
    )
    if done.replaced is not None:
        print(f"the previous state is in {done.replaced}")
