"""The settings for a plan: those of the operator that manages the namespace.

In this order: the flags and the file of `manta operator`, if given; the operator of the plane on this
machine; the operator's Deployment on the API server; the environment and the defaults. The command
prints which, because a feature gate can change the whole plan.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from manta.api.resources import DEPLOYMENTS
from manta.api.usage import UsageError
from manta.cli.plane.process import plane_processes, read_record
from manta.cli.server.connection import cluster_of, plane_directories
from manta.kube.client import Client
from manta.kube.errors import Forbidden, NotFound
from manta.operator.deployed_options import Origin, Unread, of_deployments, parse_command_line
from manta.operator.options import add_flags, is_given, options_from

_ANY_BYTES = "surrogateescape"
"""Environment variables may hold bytes that are not UTF-8."""


def add_settings_flags(parser: argparse.ArgumentParser) -> None:
    """Add all flags of `manta operator`, hidden from the help of this verb."""
    group = parser.add_argument_group(
        "settings",
        "All flags of `manta operator` are accepted, such as --feature-gates and --config "
        "(see `manta operator --help`). Default: the settings of the installed operator.",
    )
    add_flags(cast("Any", _HiddenFlags(group)))


class _HiddenFlags:
    """Adds flags without listing them in the help."""

    def __init__(self, group: argparse._ArgumentGroup) -> None:
        self._group = group

    def add_argument(self, *names: str, **more: Any) -> None:
        self._group.add_argument(*names, **{**more, "help": argparse.SUPPRESS})


async def find_origins(args: argparse.Namespace, client: Client) -> list[Origin | Unread]:
    """Candidates in order of precedence; the last one covers all namespaces."""
    given = options_from(args, os.environ)
    if is_given(args):
        return [Origin("from the flags", given)]
    found: list[Origin | Unread] = list(_of_plane(args))
    try:
        found += await of_deployments(client, (await client.list(DEPLOYMENTS)).items)
        why = "the defaults, as no operator was found for this namespace"
    except (Forbidden, NotFound):  # a user without this permission still gets a plan
        why = "the defaults, as you are not allowed to list Deployments"
    return [*found, Origin(why, given)]


def origin_for(found: Sequence[Origin | Unread], namespace: str) -> Origin:
    """The first candidate for this namespace. Raises UsageError if an unreadable one may be for it."""
    *operators, rest = (one for one in found if isinstance(one, Origin))
    for one in operators:
        if one.covers(namespace):
            return one
    for unread in (one for one in found if isinstance(one, Unread)):
        raise UsageError(unread.why)
    return rest


# ── operator of a local plane ────────────────────────────────────────────────────────────


def _of_plane(args: argparse.Namespace) -> Iterator[Origin]:
    """Options of operators that `manta up` started, from their process."""
    for pid in (pid for one in planes_of(args) for pid in plane_processes(one)):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text(errors=_ANY_BYTES).split("\0")
            pairs = Path(f"/proc/{pid}/environ").read_text(errors=_ANY_BYTES).split("\0")
        except OSError:  # it has ended, or belongs to another user
            continue
        if "operator" in words:
            environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            options = parse_command_line(words[words.index("operator") + 1 :], environment)
            yield Origin("the operator of the plane on this machine", options)


def planes_of(args: argparse.Namespace) -> Iterator[Path]:
    """Planes whose API server is the one of this command."""
    for directory in plane_directories(args):
        record = read_record(directory)
        if record is not None and record.url == cluster_of(args).server:
            yield directory
