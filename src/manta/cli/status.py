"""`manta status`: the plane of this machine at a glance, and what each Pod waits for."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from typing import Any

from manta.api.resources import NODES, PODS, Resource
from manta.cli.connection import add_directory_flag, open_client
from manta.cli.follow import judge
from manta.cli.planeprocess import read_record, why_it_ended
from manta.cli.render import table
from manta.kube.client import Client
from manta.kube.errors import NotFound

RAY_KINDS = tuple(
    Resource("ray.io", "v1", plural, kind)
    for plural, kind in (
        ("rayclusters", "RayCluster"),
        ("rayservices", "RayService"),
        ("rayjobs", "RayJob"),
        ("raycronjobs", "RayCronJob"),
    )
)


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("status", help="show the plane, its clusters and Pods")
    add_directory_flag(parser)
    parser.set_defaults(kubeconfig=None, context=None)


def run(args: argparse.Namespace) -> int:
    record = read_record(args.dir.resolve())
    if record is None:
        print(f"no plane runs in {args.dir} (`manta up` starts one)")
        if why := why_it_ended(args.dir.resolve()):
            print(f"the last one ended: {why}")
        return 1
    print(
        f"plane    {record.url}   pid {record.pid}   manta {record.version}   state in {args.dir}"
    )
    args.kubeconfig = args.dir / "kubeconfig"
    return asyncio.run(_show(args))


async def _show(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        nodes, pods, *rays = await asyncio.gather(
            _documents(client, NODES),
            _documents(client, PODS),
            *(_documents(client, kind) for kind in RAY_KINDS),
        )
    rows = [_node_row(node, pods) for node in nodes]
    print("\n" + table(("NODE", "CPU", "MEMORY", "PODS", "TROUBLE"), rows))
    found = [
        (kind, document) for kind, group in zip(RAY_KINDS, rays, strict=True) for document in group
    ]
    if found:
        rows = [_row(kind.kind, document) for kind, document in found]
        print("\n" + table(("KIND", "NAMESPACE", "NAME", "READY", "WAITS FOR"), rows))
    if pods:
        rows = [_row("Pod", pod)[1:] for pod in pods]
        print("\n" + table(("NAMESPACE", "POD", "READY", "WAITS FOR"), rows))
    return 0


async def _documents(client: Client, resource: Resource) -> list[dict[str, Any]]:
    try:
        return (await client.list(resource, into=dict)).items
    except NotFound:
        return []


def _node_row(node: dict[str, Any], pods: list[dict[str, Any]]) -> tuple[object, ...]:
    name = node["metadata"]["name"]
    capacity = node.get("status", {}).get("allocatable", {})
    mine = [pod for pod in pods if pod.get("spec", {}).get("nodeName") == name]
    trouble = node_trouble(node)
    return name, capacity.get("cpu", "?"), capacity.get("memory", "?"), len(mine), trouble


def node_trouble(node: Mapping[str, Any]) -> str:
    """What a node says is wrong: all its conditions but Ready are bad when they are True."""
    conditions = node.get("status", {}).get("conditions") or ()
    bad = [one for one in conditions if (one["status"] == "True") != (one["type"] == "Ready")]
    return "; ".join(one.get("message") or one["type"] for one in bad)


def _row(kind: str, document: dict[str, Any]) -> tuple[str, ...]:
    verdict = judge(kind, document)
    metadata = document["metadata"]
    going = "it is being deleted" if metadata.get("deletionTimestamp") else ""
    ready = "yes" if verdict.ready else "no"
    why = verdict.why if kind == "Pod" or not verdict.ready else ""
    return kind, metadata.get("namespace", ""), metadata["name"], ready, going or why
