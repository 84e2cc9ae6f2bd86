"""Checks of `manta doctor` on an API server: nodes, operator, Ray objects and Pods.

Of the plane on this machine, or of the cluster that a flag names. Reads only.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import DEPLOYMENTS, NODES, PODS, Resource
from manta.cli.checks.finding import Finding, Level
from manta.cli.output.status import node_trouble
from manta.cli.plane.operator import operator_health, operator_log
from manta.cli.plane.process import failure_reason, last_lines, read_record
from manta.cli.server.connection import names_server, open_client, open_plane
from manta.client.object_state import State, state_of
from manta.client.readiness import judge
from manta.install.plane import plane_directory
from manta.kube.client import Client
from manta.kube.errors import MantaError, NotFound
from manta.operator.deployed_options import is_ours

MAX_NAMED = 5
TIMEOUT_SECONDS = 15.0

Row = tuple[str, Finding]


def check_server(args: argparse.Namespace) -> list[Row]:
    """The checks of the plane or cluster, its operator and its objects."""
    directory: Path = args.dir.resolve()
    named = names_server(args)
    if not named and read_record(directory) is None:
        return [("plane", _no_plane(directory))]
    try:
        return asyncio.run(_check(args, None if named else directory))
    except TimeoutError:
        why = f"no answer within {TIMEOUT_SECONDS:.0f} s"
    except MantaError as error:
        why = str(error)
    fix = "Check that the API server runs, and the kubeconfig."
    return [("server", Finding(Level.FAIL, why, fix))]


def _no_plane(directory: Path) -> Finding:
    if why := failure_reason(directory):
        return Finding(Level.WARN, f"the last one in {directory} stopped: {why}", "`manta up`")
    return Finding(Level.OK, f"none runs in {directory}")


async def _check(args: argparse.Namespace, plane: Path | None) -> list[Row]:
    async with (
        asyncio.timeout(TIMEOUT_SECONDS),
        open_plane(plane) if plane else open_client(args) as client,
    ):
        nodes = await _listed(client, NODES)
        if plane is None and (found := await plane_directory(client)) and read_record(found):
            plane = found
        rows = [("plane" if plane else "server", check_nodes(nodes))]
        operator = check_plane_operator(plane) if plane else await deployed_operator(client)
        rows.append(("operator", operator))
        for title, kinds in (("objects", RAY_RESOURCES), ("pods", (PODS,))):
            listed = [(kind.kind, one) for kind in kinds for one in await _listed(client, kind)]
            rows.append((title, check_objects(listed)))
    return rows


async def _listed(client: Client, resource: Resource) -> list[dict[str, Any]]:
    try:
        return (await client.list(resource, into=dict)).items
    except NotFound:
        return []


def check_nodes(nodes: Sequence[Mapping[str, Any]]) -> Finding:
    bad = [f"{one['metadata']['name']}: {words}" for one in nodes if (words := node_trouble(one))]
    if bad:
        return Finding(
            Level.WARN,
            f"{len(bad)} of {len(nodes)} nodes have problems: {_some(bad)}",
            "`manta get nodes -o wide` and `manta describe node NAME` show their conditions.",
        )
    return Finding(Level.OK, f"reachable; {len(nodes)} nodes without problems")


def check_plane_operator(directory: Path) -> Finding:
    health = operator_health(directory)
    if health.ready:
        return Finding(Level.WARN if health.exits else Level.OK, health.text)
    return Finding(
        Level.FAIL,
        health.text,
        f"{operator_log(directory)} ends with:\n{last_lines(operator_log(directory), 5)}",
    )


async def deployed_operator(client: Client) -> Finding:
    """Whether Manta's operator is installed and available."""
    deployments = await _listed(client, DEPLOYMENTS)
    return check_deployed_operator([one for one in deployments if _runs_the_operator(one)])


def _runs_the_operator(deployment: Mapping[str, Any]) -> bool:
    containers = deployment["spec"]["template"]["spec"].get("containers") or ()
    return any(is_ours(deployment, one) for one in containers)


def check_deployed_operator(found: Sequence[Mapping[str, Any]]) -> Finding:
    if not found:
        fix = "Install it with `manta install --image IMAGE` or with the Helm chart."
        return Finding(Level.FAIL, "Manta is not installed", fix)
    names, bad = [], []
    for one in found:
        name = f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        verdict = judge("Deployment", one)
        names.append(name)
        if not verdict.ready:
            bad.append(f"{name}: {verdict.why}")
    if bad:
        return Finding(Level.FAIL, _some(bad), "`manta logs deployment/NAME` shows its log.")
    return Finding(Level.OK, f"available: {', '.join(names)}")


def check_objects(found: Sequence[tuple[str, Mapping[str, Any]]]) -> Finding:
    """The objects that are not as their spec says, with the reason."""
    judged = [(kind, one["metadata"], state_of(kind, one)) for kind, one in found]
    bad = [_named(kind, meta, state) for kind, meta, state in judged if state.trouble]
    if bad:
        return Finding(
            Level.WARN,
            f"{len(bad)} of {len(found)} not ready: {_some(bad)}",
            "`manta describe KIND NAME` shows conditions and Events of one.",
        )
    return Finding(Level.OK, f"{len(found)}, all ready" if found else "none")


def _named(kind: str, meta: Mapping[str, Any], state: State) -> str:
    return f"{kind.lower()} {meta.get('namespace', '')}/{meta['name']} {state.word} ({state.why})"


def _some(words: Sequence[str]) -> str:
    more = len(words) - MAX_NAMED
    shown = "; ".join(words[:MAX_NAMED])
    return f"{shown}; and {more} more" if more > 0 else shown
