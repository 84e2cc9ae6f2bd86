"""Whether Pods of a plane can reach external networks: `pip` packages need it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from typing import Any

from manta.api.core import EGRESS_UNAVAILABLE
from manta.api.resources import NODES
from manta.api.usage import UsageError
from manta.cli.checks.finding import Finding, Level
from manta.kube.client import Client
from manta.kube.errors import Forbidden


def egress_note(args: argparse.Namespace) -> str:
    """The warning of `manta up`; empty if the Pods have egress."""
    if os.geteuid() == 0 or args.isolation == "none" or not args.nodes:
        return ""
    from manta.localplane.node.net.user_egress import problem

    return problem()


def check_egress(args: argparse.Namespace) -> Finding:
    """Egress for planes of this user on this machine."""
    del args
    if os.geteuid() == 0:
        return Finding(Level.OK, "Pods of root use the network of the machine")
    from manta.localplane.node.net.user_egress import problem

    found, _, fix = problem().partition(" Cure: ")
    if found:
        return Finding(Level.WARN, found, f"{fix[:1].upper()}{fix[1:]}.")
    return Finding(Level.OK, "Pods use slirp4netns or pasta")


async def refuse_without_egress(client: Client, packages: Iterable[str]) -> None:
    """Raise UsageError if `--pip` cannot work because no node has egress.

    Without permission to list nodes there is no check.
    """
    names = list(packages)
    if not names:
        return
    try:
        nodes = (await client.list(NODES, "", into=dict)).items
    except Forbidden:
        return
    problems = [_problem(node) for node in nodes]
    if problems and all(problems):
        raise UsageError(f"--pip {names[0]}: {problems[0]}. Or use an --image with the packages")


def _problem(node: Mapping[str, Any]) -> str:
    conditions = (node.get("status") or {}).get("conditions") or ()
    found = (
        one for one in conditions if one["type"] == EGRESS_UNAVAILABLE and one["status"] == "True"
    )
    return next((str(one.get("message", "")) for one in found), "")
