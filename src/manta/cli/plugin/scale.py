"""`kubectl ray scale cluster NAME -w GROUP`: replicas and bounds of a worker group."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.plugin.cluster_config import FIELD_MANAGER
from manta.cli.plugin.flags import count
from manta.cli.plugin.get_tables import MAX_REPLICAS
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.client.scaling import group_position
from manta.kube.client import Client

_FIELDS = (("minReplicas", "min_replicas"), ("maxReplicas", "max_replicas"), ("replicas",) * 2)


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "scale",
        **examples(
            ("kubectl ray scale cluster demo -w gpu -r 3", "three replicas"),
            ("kubectl ray scale cluster demo -w gpu --max-replicas 10", "a new bound"),
        ),
    )
    kinds = parser.add_subparsers(dest="what", metavar="KIND")
    cluster = kinds.add_parser(
        "cluster",
        help="a worker group of a RayCluster",
        description="Change replicas, minReplicas or maxReplicas of a worker group.",
        allow_abbrev=False,
    )
    cluster.set_defaults(what="cluster")
    cluster.add_argument("name", metavar="NAME", help="the RayCluster")
    cluster.add_argument("-w", "--worker-group", required=True, metavar="GROUP")
    cluster.add_argument("-r", "--replicas", type=count, metavar="N", help="desired replicas")
    cluster.add_argument("--min-replicas", type=count, metavar="N", help="lower bound")
    cluster.add_argument("--max-replicas", type=count, metavar="N", help="upper bound")
    add_connection_flags(cluster, namespace=True)


@dataclass(frozen=True, slots=True)
class Change:
    field: str
    before: int
    after: int

    def __str__(self) -> str:
        name = "Replicas" if self.field == "replicas" else self.field
        return f"Scaled {name}: {self.before} to {self.after}"


def run(args: argparse.Namespace) -> int:
    wanted = {field: getattr(args, flag) for field, flag in _FIELDS}
    wanted = {field: value for field, value in wanted.items() if value is not None}
    if not wanted:
        raise UsageError("name at least one of --replicas, --min-replicas and --max-replicas")
    return asyncio.run(_scale(args, wanted))


async def _scale(args: argparse.Namespace, wanted: Mapping[str, int]) -> int:
    key = Key(namespace_of(args), args.name)
    async with open_client(args) as client:
        made = await scale(client, key, args.worker_group, wanted)
    what = f"orker group {args.worker_group} in Ray cluster {key.name} in namespace {key.namespace}"
    if made:
        print(f"Updated w{what} ({', '.join(map(str, made))})")
    else:
        print(f"W{what} already matches the requested configuration. Skipping.")
    return 0


async def scale(client: Client, key: Key, group: str, wanted: Mapping[str, int]) -> list[Change]:
    """Change the group, and nothing else of the cluster. Raises UsageError for invalid bounds."""
    cluster = await client.get(RAY_CLUSTERS, key)
    groups = cluster["spec"].get("workerGroupSpecs") or []
    at = group_position([one["groupName"] for one in groups], group, key, "--worker-group")
    made = changes(groups[at], wanted)
    if made:
        path = f"/spec/workerGroupSpecs/{at}"
        patch: list[dict[str, Any]] = [
            {"op": "test", "path": f"{path}/groupName", "value": groups[at]["groupName"]}
        ]
        patch += [{"op": "add", "path": f"{path}/{one.field}", "value": one.after} for one in made]
        await client.patch(RAY_CLUSTERS, key, patch, kind="json", field_manager=FIELD_MANAGER)
    return made


def changes(group: Mapping[str, Any], wanted: Mapping[str, int]) -> list[Change]:
    """What differs from the group. Raises UsageError unless minReplicas ≤ replicas ≤ maxReplicas."""
    unset = {"minReplicas": 0, "maxReplicas": MAX_REPLICAS, "replicas": 0}
    before = {
        name: default if group.get(name) is None else int(group[name])
        for name, default in unset.items()
    }
    after = {**before, **wanted}
    low, high, replicas = after["minReplicas"], after["maxReplicas"], after["replicas"]
    if low > high:
        raise UsageError(f"--min-replicas ({low}) cannot be greater than --max-replicas ({high})")
    if replicas < low:
        raise UsageError(f"--replicas ({replicas}) cannot be less than --min-replicas ({low})")
    if replicas > high:
        raise UsageError(f"--replicas ({replicas}) cannot be greater than --max-replicas ({high})")
    return [
        Change(name, before[name], after[name])
        for name, _ in _FIELDS
        if before[name] != after[name]
    ]
