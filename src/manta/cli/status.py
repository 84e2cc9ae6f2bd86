"""`manta status`: a plane or a cluster, its operator, and what each object waits for."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from manta.api.ray.names import LABEL_CLUSTER
from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import NODES, PODS, Resource
from manta.cli.output.help import examples
from manta.cli.output.status import ObjectRow, Report, node_row, object_row, shown
from manta.cli.plane.operator import operator_health
from manta.cli.plane.process import PlaneRecord, failure_reason, read_record
from manta.cli.server.connection import (
    add_connection_flags,
    cluster_of,
    names_server,
    open_client,
    open_plane,
)
from manta.client.connection import NoServerError
from manta.client.gpus import gpu_rows
from manta.client.object_state import one_line
from manta.kube.client import Client
from manta.kube.errors import Forbidden, MantaError, NotFound

POLL_SECONDS = 2.0
CLEAR_SCREEN = "\x1b[H\x1b[2J"
Documents = list[dict[str, Any]]


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "status",
        description="Show the API server, its operator, nodes, Ray objects and Pods, and what each "
        "object waits for: of the cluster that a flag or KUBECONFIG names, else of the plane on this "
        "machine if it runs. Exit code 1: there is none, or its operator is not ready.",
        **examples(
            ("manta status", "the plane in $MANTA_DIR or ~/.manta"),
            ("manta status --context prod -n team", "a Kubernetes cluster"),
            ("manta status -w", "again after each change, until Ctrl-C"),
            ("manta status -o json | jq .operator.ready", "for scripts"),
        ),
    )
    parser.add_argument(
        "-w", "--watch", action="store_true", help="show it again after each change, until Ctrl-C"
    )
    parser.add_argument("-o", "--output", choices=("json",), default="", help="json: for programs")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="objects of this namespace (all)")
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    try:
        return asyncio.run(_watch(args) if args.watch else _once(args))
    except KeyboardInterrupt:
        return 0 if args.watch else 130


async def _once(args: argparse.Namespace) -> int:
    text, code = await _text(args)
    print(text)
    return code


async def _watch(args: argparse.Namespace) -> int:
    """On a terminal redraw the report; elsewhere print it after each change."""
    live, printed = sys.stdout.isatty() and not args.output, ""
    while True:
        try:
            text, _ = await _text(args)
        except MantaError as error:  # the server is stopping
            text = str(error)
        if text != printed:
            print(f"{CLEAR_SCREEN}{text}" if live else text, flush=True)
            printed = text
        await asyncio.sleep(POLL_SECONDS)


async def _text(args: argparse.Namespace) -> tuple[str, int]:
    report = await _report(args)
    if report is None:
        return _no_plane(args.dir.resolve(), as_json=args.output == "json")
    as_json = args.output == "json"
    text = json.dumps(asdict(report), indent=2) if as_json else "\n".join(shown(report))
    return text, 0 if report.is_well else 1


def _no_plane(directory: Path, *, as_json: bool) -> tuple[str, int]:
    why = failure_reason(directory)
    if as_json:
        return json.dumps({"plane": None, "ended": why}, indent=2), 1
    text = f"no plane runs in {directory} (start one with `manta up`)"
    return (f"{text}\nthe last one stopped: {why}" if why else text), 1


async def _report(args: argparse.Namespace) -> Report | None:
    """The report; None if no server is named and no plane runs."""
    directory, namespace = args.dir.resolve(), args.namespace or ""
    given = getattr(args, "dir_given", False)
    if given or not (names_server(args) or os.environ.get("KUBECONFIG")):
        record = read_record(directory)
        if record is not None:
            async with open_plane(directory) as client:
                return await of_plane(client, record, directory, namespace)
        if given or not _is_configured(args):
            return None
    async with open_client(args) as client:
        from manta.install.plane import plane_directory

        found = await plane_directory(client)
        record = None if found is None else read_record(found)
        if found is not None and record is not None:
            return await of_plane(client, record, found, namespace)
        return await of_cluster(client, cluster_of(args).server, namespace)


def _is_configured(args: argparse.Namespace) -> bool:
    """Whether kubectl would find a cluster; a plane that has stopped does not count."""
    args = argparse.Namespace(**{**vars(args), "dir": None})
    try:
        cluster_of(args)
    except NoServerError:
        return False
    return True


async def of_plane(
    client: Client, record: PlaneRecord, directory: Path, namespace: str = ""
) -> Report:
    """The report of a plane on this machine."""
    trouble = await server_trouble(client)
    nodes, pods, *rays = await asyncio.gather(
        _documents(client, NODES),
        _documents(client, PODS),
        *(_documents(client, kind, namespace) for kind in RAY_RESOURCES),
    )
    health = operator_health(directory)
    about = {"pid": record.pid, "version": record.version, "directory": str(directory)}
    return Report(
        plane={"url": record.url, **about, "trouble": trouble},
        server={"url": record.url, "trouble": trouble},
        operator={"ready": health.ready, "state": health.text},
        nodes=[node_row(node, pods) for node in nodes],
        gpus=await gpu_rows(client, nodes),
        objects=_object_rows(rays),
        pods=[
            object_row("Pod", pod)
            for pod in pods
            if namespace in ("", pod["metadata"].get("namespace"))
        ],
    )


async def of_cluster(client: Client, url: str, namespace: str = "") -> Report:
    """The report of any cluster, with the Pods of Ray only, as far as the user may see it."""
    hidden: list[str] = []

    async def visible(resource: Resource) -> Documents:
        try:
            return await _documents(client, resource)
        except Forbidden as error:
            hidden.append(one_line(str(error)))
            return []

    trouble, operator = await server_trouble(client), await _deployed_operator(client)
    nodes, pods, *rays = await asyncio.gather(
        visible(NODES),
        _documents(client, PODS, namespace, labels=LABEL_CLUSTER),
        *(_documents(client, kind, namespace) for kind in RAY_RESOURCES),
    )
    return Report(
        plane=None,
        server={"url": url, "trouble": trouble},
        operator=operator,
        nodes=[node_row(node, pods) for node in nodes],
        gpus=(),
        objects=_object_rows(rays),
        pods=[object_row("Pod", pod) for pod in pods],
        hidden=hidden,
    )


def _object_rows(found: Sequence[Documents]) -> list[ObjectRow]:
    kinds = zip(RAY_RESOURCES, found, strict=True)
    return [object_row(kind.kind, one) for kind, documents in kinds for one in documents]


async def _deployed_operator(client: Client) -> dict[str, Any]:
    from manta.cli.checks.finding import Level
    from manta.cli.checks.server import deployed_operator

    try:
        found = await deployed_operator(client)
    except Forbidden as error:
        return {"ready": None, "state": f"unknown: {one_line(str(error))}"}
    return {"ready": found.level is Level.OK, "state": found.found}


async def server_trouble(client: Client) -> str:
    """Why the API server is not ready; empty if it is. It answers reads even with a full disk."""
    try:
        await client.send("GET", "/readyz")
    except MantaError as error:
        return one_line(str(error))
    return ""


async def _documents(
    client: Client, resource: Resource, namespace: str = "", labels: str = ""
) -> Documents:
    try:
        return (await client.list(resource, namespace, labels=labels, into=dict)).items
    except NotFound:
        return []
