"""Whose settings a plan is made with: those of the operator that would carry it out.

In this order: what `manta plan` was told (the flags and the file of `manta operator`); the operator of
the plane on this machine; the operator's Deployment on the server, with its ConfigMap; the
environment and the defaults. What was chosen is said, because a gate can change the whole plan.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from manta.api.resources import DEPLOYMENTS
from manta.cli.connection import cluster_of, plane_directories
from manta.cli.deployed_settings import Origin, Unread, of_deployments, words_to_options
from manta.cli.operator_options import OPTIONS, add_flags, options_from
from manta.cli.planeprocess import plane_processes, read_record
from manta.cli.usage import UsageError
from manta.kube.client import Client
from manta.kube.errors import Forbidden, NotFound

_ODD = "surrogateescape"
"""Variables may hold any bytes."""


def add_settings_flags(parser: argparse.ArgumentParser) -> None:
    """All flags of `manta operator`; its help, and not the verb's own, explains them."""
    group = parser.add_argument_group(
        "settings",
        "All flags of `manta operator` are taken too, such as --feature-gates and --config "
        "(`manta operator --help` lists them). Without any: the settings of the operator that is found.",
    )
    add_flags(cast("Any", _Unexplained(group)))


class _Unexplained:
    """Adds flags that the help does not list."""

    def __init__(self, group: argparse._ArgumentGroup) -> None:
        self._group = group

    def add_argument(self, *names: str, **more: Any) -> None:
        self._group.add_argument(*names, **{**more, "help": argparse.SUPPRESS})


async def find_origins(args: argparse.Namespace, client: Client) -> list[Origin | Unread]:
    """The first that covers a namespace is its operator's; the last one covers all."""
    told = options_from(args, os.environ)
    if was_told(args):
        return [Origin("those that were given", told)]
    found: list[Origin | Unread] = list(_of_plane(args))
    try:
        found += await of_deployments(client, (await client.list(DEPLOYMENTS)).items)
        why = "the defaults, as no operator was found for this namespace"
    except (Forbidden, NotFound):  # who may not look still gets a plan
        why = "the defaults, as you may not list Deployments to find the operator"
    return [*found, Origin(why, told)]


def origin_for(found: Sequence[Origin | Unread], namespace: str) -> Origin:
    """The operator whose settings are known to be for this namespace; else one that is not known may be."""
    *operators, rest = (one for one in found if isinstance(one, Origin))
    for one in operators:
        if one.covers(namespace):
            return one
    for unread in (one for one in found if isinstance(one, Unread)):
        raise UsageError(unread.why)
    return rest


def was_told(args: argparse.Namespace) -> bool:
    given = any(getattr(args, option.name) is not None for option in OPTIONS)
    return given or bool(args.config or args.feature_gates)


# ── the operator of a plane ──────────────────────────────────────────────────────────────


def _of_plane(args: argparse.Namespace) -> Iterator[Origin]:
    """`manta up` starts the operator as a process: what it was started with can be read."""
    for pid in (pid for one in _planes(args) for pid in plane_processes(one)):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_text(errors=_ODD).split("\0")
            pairs = Path(f"/proc/{pid}/environ").read_text(errors=_ODD).split("\0")
        except OSError:  # it has just ended, or is another user's
            continue
        if "operator" in words:
            environment = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
            options = words_to_options(words[words.index("operator") + 1 :], environment)
            yield Origin("the operator of the plane on this machine", options)


def _planes(args: argparse.Namespace) -> Iterator[Path]:
    """Those whose server is the one that is asked: KUBECONFIG may name others beside it."""
    for directory in plane_directories(args):
        record = read_record(directory)
        if record is not None and record.url == cluster_of(args).server:
            yield directory
