"""Can Pods reach the network outside of the plane? Said before a job waits minutes for a package index."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Mapping
from typing import Any

from manta.api.core import EGRESS_UNAVAILABLE
from manta.api.resources import NODES
from manta.cli.findings import Finding, Level
from manta.cli.usage import UsageError
from manta.kube.client import Client
from manta.kube.errors import Forbidden


def egress_note(args: argparse.Namespace) -> str:
    """What `manta up` should say about the Pods of this plane; empty if they have egress."""
    if os.geteuid() == 0 or args.isolation == "none" or not args.nodes:
        return ""
    from manta.localplane.node.user_egress import problem

    return problem()


def check_egress(args: argparse.Namespace) -> Finding:
    """Of this machine and this user: a running plane may have been started by another one."""
    del args
    if os.geteuid() == 0:
        return Finding(Level.OK, "Pods of root reach what the machine reaches")
    from manta.localplane.node.user_egress import problem

    found, _, cure = problem().partition(" Cure: ")
    if found:
        return Finding(Level.WARN, found, f"{cure[:1].upper()}{cure[1:]}.")
    return Finding(Level.OK, "Pods reach the network by slirp4netns or pasta")


async def refuse_without_egress(client: Client, packages: Iterable[str]) -> None:
    """Raise UsageError where `--pip` cannot work: no node has a way to a package index.

    A user who may not list nodes is not checked: then the job itself must tell.
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
        raise UsageError(
            f"--pip {names[0]}: {problems[0]}. Or use an --image that has the packages"
        )


def _problem(node: Mapping[str, Any]) -> str:
    said = (node.get("status") or {}).get("conditions") or ()
    found = (one for one in said if one["type"] == EGRESS_UNAVAILABLE and one["status"] == "True")
    return next((str(one.get("message", "")) for one in found), "")
