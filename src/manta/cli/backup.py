"""`manta backup`: the state of the plane of this machine in one file."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from manta import __version__
from manta.cli.connection import add_directory_flag
from manta.cli.usage import UsageError, examples


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "backup",
        help="write the plane's objects and keys to a file",
        description="Write the objects and keys of the plane of this machine to a file, while it runs"
        " or not. `manta up --restore FILE` starts a plane from it.",
        **examples(
            ("manta backup ~/manta.tar", "of the plane in ~/.manta, also while it runs"),
            ("manta backup /backup/ci.tar --dir ci", "of the plane in ./ci"),
        ),
    )
    parser.add_argument(
        "file", type=Path, metavar="FILE", help="where to write it; replaced if there"
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
        " It holds Secrets and the plane's keys: keep it private"
    )
    return 0


def restore(args: argparse.Namespace) -> None:
    """For `manta up --restore FILE`, before the plane starts."""
    from manta.localplane.plane import PlaneBusy, held_lock
    from manta.localplane.privatedir import make_private_directory
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
        print(f"the state that was there lies in {done.replaced}")
