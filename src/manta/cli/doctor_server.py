"""What `manta doctor` finds on the API server: is it there, does an operator work, are objects stuck?

The plane of this machine where one runs, or the cluster that a flag names. Reads only.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import DEPLOYMENTS, NODES, PODS, Resource
from manta.cli.connection import open_client, open_plane
from manta.cli.deployed_settings import is_ours
from manta.cli.findings import Finding, Level
from manta.cli.follow import judge
from manta.cli.installation import plane_directory
from manta.cli.plane_operator import last_operator_lines, operator_health, operator_log
from manta.cli.planeprocess import read_record, why_it_ended
from manta.cli.states import State, state_of
from manta.cli.status import node_trouble
from manta.kube.client import Client
from manta.kube.errors import MantaError, NotFound

MOST_NAMED = 5
PATIENCE = 15.0

Row = tuple[str, Finding]


def check_server(args: argparse.Namespace) -> list[Row]:
    """Rows for the plane or cluster, its operator and its objects."""
    directory: Path = args.dir.resolve()
    named = args.kubeconfig is not None or args.context is not None
    if not named and read_record(directory) is None:
        return [("plane", _no_plane(directory))]
    try:
        return asyncio.run(_look(args, None if named else directory))
    except TimeoutError:
        why = f"no answer within {PATIENCE:.0f} s"
    except MantaError as error:
        why = str(error)
    cure = "Check that the server runs, and the kubeconfig that names it."
    return [("server", Finding(Level.FAIL, why, cure))]


def _no_plane(directory: Path) -> Finding:
    if why := why_it_ended(directory):
        return Finding(Level.WARN, f"the last one in {directory} ended: {why}", "`manta up`")
    return Finding(Level.OK, f"none runs in {directory}")


async def _look(args: argparse.Namespace, plane: Path | None) -> list[Row]:
    async with (
        asyncio.timeout(PATIENCE),
        open_plane(plane) if plane else open_client(args) as client,
    ):
        nodes = await _listed(client, NODES)
        if plane is None and (found := await plane_directory(client)) and read_record(found):
            plane = found
        rows = [("plane" if plane else "server", check_nodes(nodes))]
        operator = check_plane_operator(plane) if plane else await _deployed_operator(client)
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
            f"{len(bad)} of {len(nodes)} nodes have trouble: {_some(bad)}",
            "`manta get nodes -o wide` and `manta describe node NAME` show their conditions.",
        )
    return Finding(Level.OK, f"answers; {len(nodes)} nodes without trouble")


def check_plane_operator(directory: Path) -> Finding:
    health = operator_health(directory)
    if health.ready:
        return Finding(Level.WARN if health.exits else Level.OK, health.text)
    return Finding(
        Level.FAIL,
        health.text,
        f"{operator_log(directory)} ends with:\n{last_operator_lines(directory, 5)}",
    )


async def _deployed_operator(client: Client) -> Finding:
    deployments = await _listed(client, DEPLOYMENTS)
    return check_deployed_operator([one for one in deployments if _runs_the_operator(one)])


def _runs_the_operator(deployment: Mapping[str, Any]) -> bool:
    containers = deployment["spec"]["template"]["spec"].get("containers") or ()
    return any(is_ours(deployment, one) for one in containers)


def check_deployed_operator(found: Sequence[Mapping[str, Any]]) -> Finding:
    if not found:
        cure = "`manta install --image IMAGE`, or the Helm chart, installs one."
        return Finding(Level.FAIL, "no operator of Manta is installed", cure)
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
    """Those that are not as their authors wanted, with the reason of each."""
    judged = [(kind, one["metadata"], state_of(kind, one)) for kind, one in found]
    bad = [_named(kind, meta, state) for kind, meta, state in judged if state.trouble]
    if bad:
        return Finding(
            Level.WARN,
            f"{len(bad)} of {len(found)} not as wanted: {_some(bad)}",
            "`manta describe KIND NAME` shows conditions and Events of one.",
        )
    return Finding(Level.OK, f"{len(found)}, all as wanted" if found else "none")


def _named(kind: str, meta: Mapping[str, Any], state: State) -> str:
    return f"{kind.lower()} {meta.get('namespace', '')}/{meta['name']} {state.word} ({state.why})"


def _some(words: Sequence[str]) -> str:
    more = len(words) - MOST_NAMED
    shown = "; ".join(words[:MOST_NAMED])
    return f"{shown}; and {more} more" if more > 0 else shown
