"""`manta doctor --migrate`: what will happen to every Ray object when Manta takes over from KubeRay.

Refuses beside a live KubeRay operator on the same namespaces: two operators on one object fight. What
will happen is found out by a rehearsal (`cli/rehearsal.py`), which changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from manta.api.ray.names import LEADER_LEASE_NAME, MANAGED_BY_OPERATOR, OPERATOR_NAME
from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import DEPLOYMENTS, LEASES
from manta.api.times import parse_time
from manta.cli.connection import open_client
from manta.cli.deployed_settings import Origin, of_deployments, words_to_options
from manta.cli.operator_options import Options, options_from
from manta.cli.operator_platform import recognise, settings_on
from manta.cli.plan_settings import add_settings_flags, origin_for, was_told
from manta.cli.rehearsal import Step, rehearse
from manta.cli.render import table
from manta.kube.client import Client
from manta.kube.errors import NotFound
from manta.runtime.clock import Clock, SystemClock

Json = Mapping[str, Any]
OPERATOR = OPERATOR_NAME
LEASE = LEADER_LEASE_NAME
OURS = MANAGED_BY_OPERATOR
"""The value of `managedBy` under which an object is ours to look after."""
_BY_CLIENT_GO = re.compile(r"_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
"""How those sign a lease that are written in Go, whatever their machine is called. We do not."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A KubeRay operator that runs."""

    what: str
    namespaces: tuple[str, ...]
    """Those that it watches; none: all."""
    cure: str

    def meets(self, namespaces: Sequence[str]) -> bool:
        if not self.namespaces or not namespaces:
            return True
        return not set(self.namespaces).isdisjoint(namespaces)


def add_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("taking over from KubeRay")
    group.add_argument(
        "--migrate", action="store_true", help="say what a take-over does to each Ray object"
    )
    group.add_argument(
        "-n",
        "--namespace",
        action="append",
        default=[],
        metavar="NAME",
        help="with --migrate: only here; may be repeated (default: all namespaces)",
    )
    add_settings_flags(parser)


def run(args: argparse.Namespace) -> int:
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        given = options_from(args, os.environ) if was_told(args) else None
        text, code = await migrate(client, SystemClock(), args.namespace, given)
    print(text)
    return code


async def migrate(
    client: Client, clock: Clock, namespaces: Sequence[str], given: Options | None = None
) -> tuple[str, int]:
    """What to print, and the exit code."""
    rivals = [one for one in await find_rivals(client, clock.now()) if one.meets(namespaces)]
    if rivals:
        return refusal(rivals, namespaces), 1
    objects = await _ray_objects(client, namespaces)
    if not objects:
        return "There are no Ray objects here: nothing to take over.", 0
    platform, steps, lines = await recognise(client), [], []
    for origin, spaces in await _whose_settings(client, namespaces, given):
        settings = settings_on(platform, origin.options.settings)
        steps += await rehearse(client.transport, clock, settings, spaces)
        lines.append(f"Settings for {', '.join(spaces) or 'all namespaces'}: {origin.what}.")
    return "\n".join([*lines, report(objects, steps)]), 0


async def _whose_settings(
    client: Client, namespaces: Sequence[str], given: Options | None
) -> list[tuple[Origin, list[str]]]:
    """Those that were given; else those of Manta, where it is installed; else those of the KubeRay that was stopped."""
    if given is not None:
        return [(Origin("those that were given", given), list(namespaces))]
    deployments = (await client.list(DEPLOYMENTS)).items
    found = [
        *await of_deployments(client, deployments),
        *await of_deployments(client, deployments, is_kuberay),
    ]
    if not namespaces and len(found) == 1 and isinstance(found[0], Origin):
        return [(found[0], [])]
    rest = Origin("the defaults, as no operator was found for it", words_to_options([], os.environ))
    chosen = [(origin_for([*found, rest], name), name) for name in namespaces or ("",)]
    return [
        (origin, [name for its, name in chosen if its is origin and name])
        for origin in {id(one): one for one, _ in chosen}.values()
    ]


# ── KubeRay itself ───────────────────────────────────────────────────────────────────────


async def find_rivals(client: Client, now: datetime) -> list[Rival]:
    deployments = (await client.list(DEPLOYMENTS)).items
    leases = (await client.list(LEASES, fields=f"metadata.name={LEASE}")).items
    found = [one for one in map(of_deployment, deployments) if one]
    if not found:  # one that runs outside of the cluster, or under another roof
        found = [one for one in (of_lease(lease, now) for lease in leases) if one]
    return found


def of_deployment(deployment: Json) -> Rival | None:
    """A Deployment of KubeRay's operator that is not scaled to nothing."""
    meta, spec = deployment["metadata"], deployment["spec"]
    containers = spec["template"]["spec"]["containers"]
    if not any(is_kuberay(deployment, one) for one in containers):
        return None
    running = (deployment.get("status") or {}).get("replicas", 0)
    if spec.get("replicas", 1) == 0 and not running:
        return None
    where = f"{meta['namespace']}/{meta['name']}"
    cure = f"kubectl -n {meta['namespace']} scale deployment {meta['name']} --replicas=0"
    return Rival(f"Deployment {where}", _watched(containers), cure)


def is_kuberay(deployment: Json, container: Json) -> bool:
    """By the name that its charts give it, or by its image."""
    if [*(container.get("command") or ()), ""][0] == "manta":
        return False  # our own Deployment carries KubeRay's labels
    labels = deployment["metadata"].get("labels") or {}
    names = (labels.get("app.kubernetes.io/name"), labels.get("app.kubernetes.io/component"))
    return OPERATOR in names or "kuberay/operator" in container.get("image", "")


def _watched(containers: Iterable[Json]) -> tuple[str, ...]:
    for container in containers:
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        for index, word in enumerate(words):
            flag, _, value = word.lstrip("-").partition("=")
            if flag == "watch-namespace":
                text = value or (words[index + 1] if index + 1 < len(words) else "")
                return tuple(one for one in text.split(",") if one)
    return ()


def of_lease(lease: Json, now: datetime) -> Rival | None:
    """A lease that KubeRay holds and still renews."""
    spec, meta = lease.get("spec") or {}, lease["metadata"]
    holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime")
    if not (holder.startswith(OPERATOR) or _BY_CLIENT_GO.search(holder)) or not renewed:
        return None
    if parse_time(renewed) + timedelta(seconds=spec.get("leaseDurationSeconds") or 15) < now:
        return None
    what = f"{holder}, which holds Lease {meta['namespace']}/{meta['name']}"
    return Rival(what, (), f"stop {holder}")


def refusal(rivals: Sequence[Rival], namespaces: Sequence[str]) -> str:
    where = ", ".join(namespaces) or "all namespaces"
    lines = [f"Refused: KubeRay runs, and Manta must not work beside it ({where})."]
    for one in rivals:
        watches = ", ".join(one.namespaces) or "all namespaces"
        lines += [f"  {one.what}, for {watches}", f"    stop it first: {one.cure}"]
    return "\n".join(lines)


# ── the Ray objects ──────────────────────────────────────────────────────────────────────


async def _ray_objects(client: Client, namespaces: Sequence[str]) -> list[Json]:
    found: list[Json] = []
    for resource in RAY_RESOURCES:
        for namespace in namespaces or ("",):
            try:
                items = (await client.list(resource, namespace)).items
            except NotFound:  # this KubeRay had no such kind
                continue
            found += [{"kind": resource.kind, **one} for one in items]
    return found


def report(objects: Sequence[Json], steps: Sequence[Step]) -> str:
    rows = []
    for one in objects:
        meta = one["metadata"]
        mine = [step for step in steps if _is_for(step, one)]
        rows.append((one["kind"], f"{meta['namespace']}/{meta['name']}", fate(one, mine)))
    lines = [table(("KIND", "NAME", "WHAT WILL HAPPEN"), rows), ""]
    others = [step for step in steps if not any(_is_for(step, one) for one in objects)]
    lines += [f"Also: {words(step)}" for step in others if step.verb != "tell"]
    return "\n".join([*lines, verdict(steps)])


def _is_for(step: Step, one: Json) -> bool:
    meta = one["metadata"]
    if step.verb == "ask":  # of the head Service of a cluster
        return one["kind"] == "RayCluster" and step.name == f"{meta['name']}-head-svc"
    return step.namespace == meta["namespace"] and step.owner == (one["kind"], meta["name"])


def fate(one: Json, steps: Sequence[Step]) -> str:
    manager = one["spec"].get("managedBy") or OURS
    if manager != OURS:
        return f"left alone: {manager} looks after it"
    if one["metadata"].get("deletionTimestamp"):
        return "its deletion goes on"
    done = [words(step) for step in steps if step.verb != "tell"]
    if done:
        return "; ".join(done)
    return "goes on" + ("; its status is brought up to date" if steps else " as it is")


def words(step: Step) -> str:
    if step.verb == "ask":
        return f"Ray at {step.name} is given its configuration again (/{step.kind})"
    text = f"{step.verb} {step.kind}/{step.name}" if step.name else f"{step.verb} {step.kind}"
    return f"{text}, which the server refuses: {step.refused}" if step.refused else text


def verdict(steps: Sequence[Step]) -> str:
    pods = {
        verb: sum(1 for step in steps if step.kind == "pods" and step.verb == verb)
        for verb in ("create", "delete")
    }
    clusters = sum(1 for step in steps if step.kind == "rayclusters" and step.verb == "create")
    jobs = sum(1 for step in steps if step.kind == "jobs" and step.verb == "create")
    jobs += sum(1 for step in steps if step.verb == "ask" and step.kind.startswith("api/jobs"))
    return (
        f"{pods['delete']} Pods deleted, {pods['create']} created; {clusters} new clusters; "
        f"{jobs} jobs submitted. Nothing was changed: this was a rehearsal."
    )
