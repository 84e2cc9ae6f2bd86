"""`kubectl ray create workergroup GROUP -c CLUSTER`: append a worker group to a RayCluster."""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from manta.api.meta import Key
from manta.api.ray.names import RESOURCE_GOOGLE_TPU
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.usage import UsageError
from manta.api.well_known import RESOURCE_NVIDIA_GPU
from manta.cli.plugin import cluster_config as short
from manta.cli.plugin.create import add_image_flags, add_worker_flags
from manta.cli.plugin.flags import add_pairs, amount, count
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.client.cluster_parts import amounts, group_spec, pod_template, ray_container
from manta.kube.client import Client
from manta.kube.errors import Conflict, Invalid

ATTEMPTS = 5


def add_parser(kinds: Any) -> None:
    parser = kinds.add_parser(
        "workergroup",
        help="add a worker group to a RayCluster",
        description="Add a worker group to an existing RayCluster.",
        allow_abbrev=False,
    )
    parser.set_defaults(what="workergroup")
    parser.add_argument("name", metavar="GROUP", help="name of the group")
    parser.add_argument("-c", "--ray-cluster", required=True, metavar="NAME", help="the RayCluster")
    add_image_flags(parser)
    add_worker_flags(parser)
    parser.add_argument("--num-of-hosts", type=count, default=1, metavar="N", help="(1)")
    parser.add_argument("--worker-min-replicas", type=count, default=1, metavar="N", help="(1)")
    parser.add_argument("--worker-max-replicas", type=count, default=10, metavar="N", help="(10)")
    parser.add_argument("--worker-tpu", type=amount, default="0", metavar="N", help="(0)")
    add_pairs(parser, "--worker-ray-start-params", "arguments of `ray start` on workers")
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    short.check_tpu(args.worker_tpu, args.num_of_hosts, args.worker_node_selectors)
    low, wanted, high = args.worker_min_replicas, args.worker_replicas, args.worker_max_replicas
    if not low <= wanted <= high:
        raise UsageError(
            f"--worker-replicas {wanted}: must be between --worker-min-replicas {low} and "
            f"--worker-max-replicas {high}"
        )
    return asyncio.run(_create(args))


async def _create(args: argparse.Namespace) -> int:
    key = Key(namespace_of(args), args.ray_cluster)
    async with open_client(args) as client:
        await append_group(client, key, worker_group(args))
    print(f"Updated Ray cluster {key.namespace}/{key.name} with new worker group")
    return 0


def worker_group(args: argparse.Namespace) -> dict[str, Any]:
    """The group. Its CPUs have a limit too, as in KubeRay's plugin."""
    wanted = amounts(
        ("cpu", args.worker_cpu),
        ("memory", args.worker_memory),
        (RESOURCE_NVIDIA_GPU, args.worker_gpu),
        (RESOURCE_GOOGLE_TPU, args.worker_tpu),
    )
    image = args.image or short.default_image(args.ray_version)
    container = ray_container("ray-worker", image, wanted, wanted)
    return group_spec(
        pod_template(container, node_selector=args.worker_node_selectors),
        sizes={
            "groupName": args.name,
            "replicas": args.worker_replicas,
            "minReplicas": args.worker_min_replicas,
            "maxReplicas": args.worker_max_replicas,
            "numOfHosts": args.num_of_hosts,
        },
        ray_start_params=args.worker_ray_start_params,
    )


async def append_group(client: Client, key: Key, group: dict[str, Any]) -> None:
    """Append the group, again after a concurrent change. Raises UsageError for a taken name."""
    for attempt in range(ATTEMPTS):
        cluster = await client.get(RAY_CLUSTERS, key)
        groups = cluster["spec"].get("workerGroupSpecs") or []
        if any(one["groupName"] == group["groupName"] for one in groups):
            raise UsageError(
                f"RayCluster {key} already has a worker group {group['groupName']!r}: choose another name"
            )
        version = cluster["metadata"]["resourceVersion"]
        patch: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/resourceVersion", "value": version},
            {"op": "add", "path": "/spec/workerGroupSpecs", "value": [*groups, group]},
        ]
        try:
            await client.patch(
                RAY_CLUSTERS, key, patch, kind="json", field_manager=short.FIELD_MANAGER
            )
        except (Conflict, Invalid):
            if attempt == ATTEMPTS - 1 or not await _has_changed(client, key, version):
                raise
        else:
            return


async def _has_changed(client: Client, key: Key, version: str) -> bool:
    cluster = await client.get(RAY_CLUSTERS, key)
    return bool(cluster["metadata"]["resourceVersion"] != version)
