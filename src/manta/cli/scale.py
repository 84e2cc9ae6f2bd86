"""`manta scale KIND/NAME --replicas N`: how many workers, or how many Pods of a Deployment."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.cli.connection import (
    add_connection_flags,
    add_namespace_flag,
    namespace_of,
    open_client,
)
from manta.cli.kinds import Kinds
from manta.cli.usage import UsageError, did_you_mean, examples
from manta.kube.client import Client

UNNAMED_KIND = "rayclusters"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "scale",
        help="change how many workers a cluster has",
        **examples(
            ("manta scale demo --replicas 3", "the only worker group of a RayCluster"),
            ("manta scale demo --group gpu --replicas 0", "one of its groups"),
            ("manta scale deployment/web --replicas 2", "anything that Kubernetes scales"),
        ),
    )
    parser.add_argument("target", metavar="[KIND/]NAME", help="without a kind: a RayCluster")
    parser.add_argument("--replicas", type=int, required=True, metavar="N")
    parser.add_argument("--group", default="", metavar="NAME", help="worker group of a RayCluster")
    add_namespace_flag(parser)
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    if args.replicas < 0:
        raise UsageError(f"--replicas {args.replicas}: must be zero or more")
    return asyncio.run(_scale(args))


async def _scale(args: argparse.Namespace) -> int:
    word, _, name = args.target.rpartition("/")
    async with open_client(args) as client:
        resource = (await Kinds.discover(client)).named(word or UNNAMED_KIND)
        key = Key(namespace_of(args), name)
        if resource == RAY_CLUSTERS:
            print(await scale_group(client, key, args.group, args.replicas))
            return 0
        if args.group:
            raise UsageError(f"--group {args.group}: a {resource.kind} has no worker groups")
        body = {"spec": {"replicas": args.replicas}}
        await client.patch(resource, key, body, subresource="scale")
        print(f"{resource.kind.lower()}/{key.name} scaled to {args.replicas}")
    return 0


async def scale_group(client: Client, key: Key, group: str, replicas: int) -> str:
    """Refuses what would not be carried out: `replicas` outside the bounds of the group."""
    cluster = await client.get(RAY_CLUSTERS, key)
    spec = cluster["spec"]
    groups = spec.get("workerGroupSpecs") or []
    number = _position([one["groupName"] for one in groups], group, key)
    found = groups[number]
    low, high = found.get("minReplicas", 0), found.get("maxReplicas", replicas)
    if not low <= replicas <= high:
        raise UsageError(
            f"--replicas {replicas}: group {found['groupName']} has between minReplicas {low} and "
            f"maxReplicas {high}; change these bounds in the manifest first"
        )
    path = f"/spec/workerGroupSpecs/{number}"
    patch = [
        {"op": "test", "path": f"{path}/groupName", "value": found["groupName"]},
        {"op": "add", "path": f"{path}/replicas", "value": replicas},
    ]
    await client.patch(RAY_CLUSTERS, key, patch, kind="json")
    said = f"raycluster/{key.name}, group {found['groupName']}: scaled to {replicas}"
    if spec.get("enableInTreeAutoscaling"):
        said += " (the autoscaler may change it again)"
    return said


def _position(names: list[str], group: str, key: Key) -> int:
    if not names:
        raise UsageError(f"raycluster/{key.name} has no worker groups")
    if group in names:
        return names.index(group)
    if group:
        raise UsageError(
            f"--group {group}: raycluster/{key.name} has {', '.join(names)}"
            f"{did_you_mean(group, names)}"
        )
    if len(names) > 1:
        raise UsageError(f"which group? --group is one of {', '.join(names)}")
    return 0
