"""`manta status`: the plane on this machine, and what each object waits for."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from manta.api.quantity import Quantity
from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import NODES, PODS, Resource
from manta.api.text import bytes_text
from manta.cli.output.gpus import GpuRow, gpu_lines, gpu_rows
from manta.cli.output.help import examples
from manta.cli.output.tables import table
from manta.cli.plane.operator import operator_health
from manta.cli.plane.process import PlaneRecord, failure_reason, read_record
from manta.cli.server.connection import add_directory_flag, open_plane
from manta.client.object_state import one_line, state_of
from manta.kube.client import Client
from manta.kube.errors import MantaError, NotFound

POLL_SECONDS = 2.0
CLEAR_SCREEN = "\x1b[H\x1b[2J"


@dataclass(frozen=True, slots=True)
class NodeRow:
    name: str
    cpu: str
    memory: str
    pods: int
    trouble: str


@dataclass(frozen=True, slots=True)
class ObjectRow:
    kind: str
    namespace: str
    name: str
    state: str
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """The report; `-o json` has the same fields."""

    plane: Mapping[str, Any]
    operator: Mapping[str, Any]
    nodes: Sequence[NodeRow]
    gpus: Sequence[GpuRow]
    objects: Sequence[ObjectRow]
    pods: Sequence[ObjectRow]


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "status",
        description="Show the plane on this machine, its operator, nodes, Ray objects and Pods, and "
        "what each object waits for. Exit code 1: no plane runs, or its operator is not ready.",
        **examples(
            ("manta status", "the plane in $MANTA_DIR or ~/.manta"),
            ("manta status -w", "again after each change, until Ctrl-C"),
            ("manta status -o json | jq .operator.ready", "for scripts"),
        ),
    )
    parser.add_argument(
        "-w", "--watch", action="store_true", help="show it again after each change, until Ctrl-C"
    )
    parser.add_argument("-o", "--output", choices=("json",), default="", help="json: for programs")
    add_directory_flag(parser)


def run(args: argparse.Namespace) -> int:
    directory = args.dir.resolve()
    try:
        return asyncio.run(_watch(directory, args) if args.watch else _once(directory, args))
    except KeyboardInterrupt:
        return 0 if args.watch else 130


async def _once(directory: Path, args: argparse.Namespace) -> int:
    text, code = await _text(directory, as_json=args.output == "json")
    print(text)
    return code


async def _watch(directory: Path, args: argparse.Namespace) -> int:
    """On a terminal redraw the report; elsewhere print it after each change."""
    live, printed = sys.stdout.isatty() and not args.output, ""
    while True:
        try:
            text, _ = await _text(directory, as_json=args.output == "json")
        except MantaError as error:  # the plane is stopping
            text = str(error)
        if text != printed:
            print(f"{CLEAR_SCREEN}{text}" if live else text, flush=True)
            printed = text
        await asyncio.sleep(POLL_SECONDS)


async def _text(directory: Path, *, as_json: bool) -> tuple[str, int]:
    record = read_record(directory)
    if record is None:
        why = failure_reason(directory)
        if as_json:
            return json.dumps({"plane": None, "ended": why}, indent=2), 1
        text = f"no plane runs in {directory} (start one with `manta up`)"
        return (f"{text}\nthe last one stopped: {why}" if why else text), 1
    async with open_plane(directory) as client:
        report = await gather(client, record, directory)
    code = 0 if report.operator["ready"] and not report.plane["trouble"] else 1
    return (json.dumps(asdict(report), indent=2) if as_json else "\n".join(shown(report))), code


async def gather(client: Client, record: PlaneRecord, directory: Path) -> Report:
    trouble, nodes, pods, *rays = await asyncio.gather(
        plane_trouble(client),
        _documents(client, NODES),
        _documents(client, PODS),
        *(_documents(client, kind) for kind in RAY_RESOURCES),
    )
    health = operator_health(directory)
    return Report(
        plane={
            "url": record.url,
            "pid": record.pid,
            "version": record.version,
            "directory": str(directory),
            "trouble": trouble,
        },
        operator={"ready": health.ready, "state": health.text},
        nodes=[node_row(node, pods) for node in nodes],
        gpus=await gpu_rows(client, nodes),
        objects=[
            object_row(kind.kind, one)
            for kind, found in zip(RAY_RESOURCES, rays, strict=True)
            for one in found
        ],
        pods=[object_row("Pod", pod) for pod in pods],
    )


def shown(report: Report) -> list[str]:
    plane = report.plane
    lines = [
        "   ".join(
            (
                f"plane      {plane['url']}",
                f"pid {plane['pid']}",
                f"manta {plane['version']}",
                f"state in {plane['directory']}",
            )
        ),
        f"operator   {report.operator['state']}",
    ]
    if plane["trouble"]:
        lines.insert(1, f"           {plane['trouble']}")
    if not report.operator["ready"]:
        lines.append(f"           its log: {plane['directory']}/logs/operator.log")
    rows = [(one.name, one.cpu, one.memory, one.pods, one.trouble) for one in report.nodes]
    lines += ["", table(("NODE", "CPU", "MEMORY", "PODS", "TROUBLE"), rows)]
    lines += gpu_lines(report.gpus)
    if report.objects:
        cells = [(o.kind, o.namespace, o.name, o.state, o.why) for o in report.objects]
        lines += ["", table(("KIND", "NAMESPACE", "NAME", "STATE", "WHY"), cells)]
    if report.pods:
        pods = [(o.namespace, o.name, o.state, o.why) for o in report.pods]
        lines += ["", table(("NAMESPACE", "POD", "STATE", "WHY"), pods)]
    return lines


async def plane_trouble(client: Client) -> str:
    """Why the API server is not ready; empty if it is. It answers reads even with a full disk."""
    try:
        await client.send("GET", "/readyz")
    except MantaError as error:
        return one_line(str(error))
    return ""


async def _documents(client: Client, resource: Resource) -> list[dict[str, Any]]:
    try:
        return (await client.list(resource, into=dict)).items
    except NotFound:
        return []


def node_row(node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> NodeRow:
    name = node["metadata"]["name"]
    capacity = node.get("status", {}).get("allocatable", {})
    mine = [pod for pod in pods if pod.get("spec", {}).get("nodeName") == name]
    return NodeRow(
        name, capacity.get("cpu", "?"), _memory(capacity), len(mine), one_line(node_trouble(node))
    )


def _memory(capacity: Mapping[str, str]) -> str:
    """`24684100Ki` as `23.5 GiB`."""
    given = capacity.get("memory", "")
    try:
        return bytes_text(Quantity.parse(given).value())
    except ValueError:
        return given or "?"


def node_trouble(node: Mapping[str, Any]) -> str:
    """The problems of a node: every condition but Ready is a problem if it is True."""
    conditions = node.get("status", {}).get("conditions") or ()
    bad = [one for one in conditions if (one["status"] == "True") != (one["type"] == "Ready")]
    return "; ".join(one.get("message") or one["type"] for one in bad)


def object_row(kind: str, document: Mapping[str, Any]) -> ObjectRow:
    metadata, state = document["metadata"], state_of(kind, document)
    return ObjectRow(kind, metadata.get("namespace", ""), metadata["name"], state.word, state.why)
