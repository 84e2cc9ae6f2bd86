"""Retention of the history store: `manta history prune`."""

from __future__ import annotations

import argparse
import time
from typing import Any

from manta.api.quantity import Quantity
from manta.api.usage import UsageError
from manta.cli.server.ages import parse_age
from manta.cli.server.connection import namespace_of
from manta.cli.server.history import open_catalog


def add_prune_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-A", "--all-namespaces", action="store_true")
    parser.add_argument("--older-than", metavar="DURATION", help="such as 30d or 12h")
    parser.add_argument(
        "--larger-than", metavar="QUANTITY", help="of each namespace, such as 50Gi: the oldest go"
    )
    parser.add_argument(
        "--keep-at-least",
        default="1d",
        metavar="DURATION",
        help="nothing younger goes (default: 1d)",
    )
    parser.add_argument("--dry-run", action="store_true", help="only show what would go")


def prune(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Delete what has expired, unless it is a dry run; returns it. Raises UsageError."""
    from manta.history.prune import delete_session, stored_sessions
    from manta.history.retention import Policy, expired

    policy = Policy(
        max_age=_duration("--older-than", args.older_than),
        max_bytes=_bytes("--larger-than", args.larger_than),
        keep_at_least=_duration("--keep-at-least", args.keep_at_least) or 0.0,
    )
    if policy.max_age is None and policy.max_bytes is None:
        raise UsageError("name what goes: --older-than DURATION, --larger-than QUANTITY, or both")
    with open_catalog(args) as catalog:
        chosen = catalog.namespaces() if args.all_namespaces else [namespace_of(args)]
        going = expired(stored_sessions(catalog, chosen), policy, time.time())
        if not args.dry_run:
            going = [one for one in going if delete_session(catalog, one.session)]
    return [
        {"session": go.session.key.path, "bytes": go.session.size, "why": go.why} for go in going
    ]


def _duration(flag: str, text: str | None) -> float | None:
    return None if text is None else parse_age(flag, text)


def _bytes(flag: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        found = Quantity.parse(text).value()
    except ValueError as error:
        raise UsageError(f"{flag} {text}: {error}") from error
    if found < 0:
        raise UsageError(f"{flag} {text}: must not be negative")
    return found
