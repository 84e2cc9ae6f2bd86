"""`kubectl ray status TYPE/NAME`: the state of a Ray object, and what it waits for."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import Resource
from manta.cli.get import waits_for
from manta.cli.output.help import examples
from manta.cli.output.tables import table
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.ray_targets import parse_target
from manta.client.object_state import one_line, state_of
from manta.client.watch import states

Status = Mapping[str, Any]


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "status",
        **examples(
            ("kubectl ray status rayservice/web", "its clusters, applications and deployments"),
            ("kubectl ray status demo -w", "a RayCluster, and each change"),
            ("kubectl ray status rayjob/train -o json", "for programs: .status of the object"),
        ),
    )
    parser.add_argument("target", metavar="NAME | TYPE/NAME", help="default type: raycluster")
    parser.add_argument("-w", "--watch", action="store_true", help="show each change, until Ctrl-C")
    parser.add_argument("-o", "--output", choices=("json",), default="", help="json: for programs")
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    try:
        return asyncio.run(_status(args))
    except KeyboardInterrupt:
        return 0 if args.watch else 130


async def _status(args: argparse.Namespace) -> int:
    target = parse_target(args.target, namespace_of(args))
    async with open_client(args) as client:
        document = await client.get(target.resource, target.key)
        printed = _text(target.resource, document, args.output)
        print(printed, flush=True)
        if args.watch:
            async for changed in states(client, target.resource, target.key):
                text = _text(target.resource, changed, args.output)
                if text != printed:
                    print(f"\n{text}", flush=True)
                    printed = text
    return 0


def _text(resource: Resource, document: Mapping[str, Any], output: str) -> str:
    if output == "json":
        return json.dumps(document.get("status") or {}, indent=2)
    return "\n".join(lines(resource, document))


def lines(resource: Resource, document: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the report. Pure."""
    meta, status = document["metadata"], document.get("status") or {}
    state = state_of(resource.kind, document)
    yield f"{resource.kind.lower()}/{meta['name']}: {state.word}"
    if why := waits_for(resource, dict(document)):
        yield f"waits for: {why}"
    conditions = status.get("conditions") or ()
    if conditions:
        rows = [(c["type"], c["status"], c.get("reason", ""), _short(c)) for c in conditions]
        yield from ("", table(("CONDITION", "STATUS", "REASON", "MESSAGE"), rows))
    if resource == RAY_SERVICES:
        yield from _service_lines(status)
    elif resource == RAY_JOBS:
        yield from _fields(status, "jobStatus", "jobDeploymentStatus", "jobId", "rayClusterName")
    elif resource == RAY_CLUSTERS:
        yield from _fields(
            status, "desiredWorkerReplicas", "readyWorkerReplicas", "availableWorkerReplicas"
        )


def _service_lines(status: Status) -> Iterator[str]:
    for word, field in (("active", "activeServiceStatus"), ("pending", "pendingServiceStatus")):
        part = status.get(field) or {}
        if not part.get("rayClusterName"):
            continue
        traffic = part.get("trafficRoutedPercent")
        share = "" if traffic is None else f", {traffic} % of the traffic"
        yield from ("", f"{word} cluster: {part['rayClusterName']}{share}")
        if rows := list(_application_rows(part)):
            yield table(("APPLICATION", "DEPLOYMENT", "STATUS", "MESSAGE"), rows)


def _application_rows(part: Status) -> Iterator[tuple[str, ...]]:
    for name, application in (part.get("applicationStatuses") or {}).items():
        yield name, "", application.get("status", ""), _short(application)
        for deployment, one in (application.get("serveDeploymentStatuses") or {}).items():
            yield name, deployment, one.get("status", ""), _short(one)


def _fields(status: Status, *names: str) -> Iterator[str]:
    found = [f"{name}: {status[name]}" for name in names if status.get(name) not in (None, "")]
    if found:
        yield from ("", *found)


def _short(part: Mapping[str, Any]) -> str:
    return one_line(part.get("message") or "")
