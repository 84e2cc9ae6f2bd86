"""`manta doctor --migrate`: what happens to every Ray object when Manta takes over from KubeRay.

Refuses while a KubeRay operator runs for the same namespaces. A dry run of the operator
(`operator/dry_run.py`) finds out what would happen, and changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Mapping, Sequence
from typing import Any

from manta.api.ray.names import MANAGED_BY_OPERATOR
from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import DEPLOYMENTS
from manta.cli.output.tables import table
from manta.cli.server.connection import open_client
from manta.cli.server.operator_settings import add_settings_flags, origin_for
from manta.install.kuberay import find_kuberay, is_kuberay, refusal
from manta.kube.client import Client
from manta.kube.errors import NotFound
from manta.operator.deployed_options import Origin, of_deployments, parse_command_line
from manta.operator.dry_run import Step, dry_run
from manta.operator.options import Options, is_given, options_from
from manta.operator.platform import detect, settings_on
from manta.runtime.clock import Clock, SystemClock

Json = Mapping[str, Any]


def add_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("migration from KubeRay")
    group.add_argument(
        "--migrate", action="store_true", help="show what a migration does to each Ray object"
    )
    group.add_argument(
        "-n",
        "--namespace",
        action="append",
        default=[],
        metavar="NAME",
        help="with --migrate: only this namespace; may be repeated (default: all)",
    )
    add_settings_flags(parser)


def run(args: argparse.Namespace) -> int:
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        given = options_from(args, os.environ) if is_given(args) else None
        text, code = await migrate(client, SystemClock(), args.namespace, given)
    print(text)
    return code


async def migrate(
    client: Client, clock: Clock, namespaces: Sequence[str], given: Options | None = None
) -> tuple[str, int]:
    """The report, and the exit code."""
    operators = [one for one in await find_kuberay(client, clock.now()) if one.overlaps(namespaces)]
    if operators:
        return refusal(operators, namespaces), 1
    objects = await _ray_objects(client, namespaces)
    if not objects:
        return "There are no Ray objects: nothing to migrate.", 0
    platform, steps, lines = await detect(client), [], []
    for origin, spaces in await _settings_by_namespace(client, namespaces, given):
        settings = settings_on(platform, origin.options.settings)
        steps += await dry_run(client.transport, clock, settings, spaces)
        lines.append(f"Settings for {', '.join(spaces) or 'all namespaces'}: {origin.what}.")
    return "\n".join([*lines, report(objects, steps)]), 0


async def _settings_by_namespace(
    client: Client, namespaces: Sequence[str], given: Options | None
) -> list[tuple[Origin, list[str]]]:
    """Settings by namespace: from the flags, else of an installed Manta, else of a stopped KubeRay."""
    if given is not None:
        return [(Origin("from the flags", given), list(namespaces))]
    deployments = (await client.list(DEPLOYMENTS)).items
    found = [
        *await of_deployments(client, deployments),
        *await of_deployments(client, deployments, is_kuberay),
    ]
    if not namespaces and len(found) == 1 and isinstance(found[0], Origin):
        return [(found[0], [])]
    rest = Origin(
        "the defaults, as no operator was found for this namespace",
        parse_command_line([], os.environ),
    )
    chosen = [(origin_for([*found, rest], name), name) for name in namespaces or ("",)]
    return [
        (origin, [name for its, name in chosen if its is origin and name])
        for origin in {id(one): one for one, _ in chosen}.values()
    ]


# ── report ───────────────────────────────────────────────────────────────────────────────


async def _ray_objects(client: Client, namespaces: Sequence[str]) -> list[Json]:
    found: list[Json] = []
    for resource in RAY_RESOURCES:
        for namespace in namespaces or ("",):
            try:
                items = (await client.list(resource, namespace)).items
            except NotFound:  # an older KubeRay without this kind
                continue
            found += [{"kind": resource.kind, **one} for one in items]
    return found


def report(objects: Sequence[Json], steps: Sequence[Step]) -> str:
    rows = []
    for one in objects:
        meta = one["metadata"]
        mine = [step for step in steps if _is_for(step, one)]
        rows.append((one["kind"], f"{meta['namespace']}/{meta['name']}", changes_of(one, mine)))
    lines = [table(("KIND", "NAME", "CHANGES"), rows), ""]
    others = [step for step in steps if not any(_is_for(step, one) for one in objects)]
    lines += [f"Also: {describe(step)}" for step in others if step.verb != "status"]
    return "\n".join([*lines, summary(steps)])


def _is_for(step: Step, one: Json) -> bool:
    meta = one["metadata"]
    if step.verb == "request":  # to the head Service of a cluster
        return one["kind"] == "RayCluster" and step.name == f"{meta['name']}-head-svc"
    return step.namespace == meta["namespace"] and step.owner == (one["kind"], meta["name"])


def changes_of(one: Json, steps: Sequence[Step]) -> str:
    manager = one["spec"].get("managedBy") or MANAGED_BY_OPERATOR
    if manager != MANAGED_BY_OPERATOR:
        return f"none: {manager} manages it"
    if one["metadata"].get("deletionTimestamp"):
        return "its deletion continues"
    done = [describe(step) for step in steps if step.verb != "status"]
    if done:
        return "; ".join(done)
    return "only its status" if steps else "none"


def describe(step: Step) -> str:
    if step.verb == "request":
        return f"send a request to Ray at {step.name} (/{step.kind})"
    text = f"{step.verb} {step.kind}/{step.name}" if step.name else f"{step.verb} {step.kind}"
    return f"{text}, which the API server rejects: {step.refused}" if step.refused else text


def summary(steps: Sequence[Step]) -> str:
    pods = {
        verb: sum(1 for step in steps if step.kind == "pods" and step.verb == verb)
        for verb in ("create", "delete")
    }
    clusters = sum(1 for step in steps if step.kind == "rayclusters" and step.verb == "create")
    jobs = sum(1 for step in steps if step.kind == "jobs" and step.verb == "create")
    jobs += sum(1 for step in steps if step.verb == "request" and step.kind.startswith("api/jobs"))
    return (
        f"{pods['delete']} Pods deleted, {pods['create']} created; {clusters} new clusters; "
        f"{jobs} jobs submitted. This was a dry run: nothing was changed."
    )
