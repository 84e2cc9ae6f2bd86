"""`kubectl ray create cluster NAME` and `create workergroup GROUP -c CLUSTER`."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any

import msgspec

from manta.api.documents.writer import to_yaml
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.plugin import cluster_config as short
from manta.cli.plugin.flags import add_pairs, amount, count, duration, one_of
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.kube.client import Client
from manta.kube.errors import MantaError, NotFound

WITH_FILE = frozenset(("file", "dry_run", "wait", "timeout"))
"""Flags of `create cluster` that may accompany --file; the others describe the cluster."""


class CreateError(MantaError):
    """The cluster exists already, or did not become ready in time."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "create",
        **examples(
            ("kubectl ray create cluster demo --worker-replicas 3 --wait", "and wait for it"),
            ("kubectl ray create cluster demo --file short.yaml", "from the short YAML"),
            ("kubectl ray create cluster demo --dry-run", "only print the RayCluster"),
            ("kubectl ray create workergroup gpu -c demo --worker-gpu 1", "one more group"),
        ),
    )
    kinds = parser.add_subparsers(dest="what", metavar="KIND")
    _add_cluster(kinds)
    from manta.cli.plugin.create_workergroup import add_parser as add_workergroup

    add_workergroup(kinds)


def _add_cluster(kinds: Any) -> None:
    parser = kinds.add_parser(
        "cluster",
        help="create a RayCluster",
        description="Create a RayCluster from flags, or from a short YAML file.",
        allow_abbrev=False,
    )
    parser.set_defaults(what="cluster")
    parser.add_argument("name", metavar="NAME", help="name of the RayCluster")
    add_pairs(parser, "--labels", "labels of the RayCluster")
    add_pairs(parser, "--annotations", "annotations of the RayCluster")
    add_image_flags(parser)
    add_head_flags(parser)
    parser.add_argument("--head-ephemeral-storage", type=amount, default="", metavar="AMOUNT")
    add_pairs(parser, "--head-ray-start-params", "arguments of `ray start` on the head")
    add_worker_flags(parser)
    parser.add_argument("--worker-tpu", type=amount, default="0", metavar="N", help="(0)")
    parser.add_argument("--worker-ephemeral-storage", type=amount, default="", metavar="AMOUNT")
    add_pairs(parser, "--worker-ray-start-params", "arguments of `ray start` on workers")
    parser.add_argument("--num-of-hosts", type=count, default=1, metavar="N", help="(1)")
    parser.add_argument("--autoscaler", type=one_of("v1", "v2"), metavar="v1|v2", help="(off)")
    parser.add_argument("--file", type=Path, metavar="PATH", help="short YAML of the cluster")
    parser.add_argument("--dry-run", action="store_true", help="only print the YAML")
    parser.add_argument("--wait", action="store_true", help="wait until it is provisioned")
    parser.add_argument(
        "--timeout", type=duration, default=300.0, metavar="DURATION", help="of --wait (5m)"
    )
    add_connection_flags(parser, namespace=True)


def add_image_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ray-version", default=short.RAY_VERSION, metavar="VERSION", help=f"({short.RAY_VERSION})"
    )
    parser.add_argument(
        "--image", default="", help=f"container image ({short.IMAGE}:<ray-version>)"
    )


def add_head_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--head-cpu", type=amount, default=short.CPU, metavar="N", help="(2)")
    parser.add_argument(
        "--head-memory", type=amount, default=short.MEMORY, metavar="AMOUNT", help="(4Gi)"
    )
    parser.add_argument("--head-gpu", type=amount, default="0", metavar="N", help="(0)")
    add_pairs(parser, "--head-node-selectors", "node selectors of the head")


def add_worker_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--worker-replicas", type=count, default=1, metavar="N", help="(1)")
    parser.add_argument("--worker-cpu", type=amount, default=short.CPU, metavar="N", help="(2)")
    parser.add_argument(
        "--worker-memory", type=amount, default=short.MEMORY, metavar="AMOUNT", help="(4Gi)"
    )
    parser.add_argument("--worker-gpu", type=amount, default="0", metavar="N", help="(0)")
    add_pairs(parser, "--worker-node-selectors", "node selectors of the workers")


def run(args: argparse.Namespace) -> int:
    if args.what == "workergroup":
        from manta.cli.plugin import create_workergroup

        return create_workergroup.run(args)
    config = _from_file(args) if args.file is not None else _from_flags(args)
    document = short.build_cluster(config)
    if args.dry_run:
        print(to_yaml(document).rstrip())
        return 0
    return asyncio.run(_create(args, document))


def _from_flags(args: argparse.Namespace) -> short.ClusterConfig:
    config = short.ClusterConfig(
        namespace=namespace_of(args),
        name=args.name,
        labels=args.labels,
        annotations=args.annotations,
        ray_version=args.ray_version,
        image=args.image,
        head=short.Head(
            ephemeral_storage=args.head_ephemeral_storage,
            ray_start_params=args.head_ray_start_params,
            **head_fields(args),
        ),
        worker_groups=(
            short.WorkerGroup(
                name=short.DEFAULT_GROUP,
                num_of_hosts=args.num_of_hosts,
                tpu=args.worker_tpu,
                ephemeral_storage=args.worker_ephemeral_storage,
                ray_start_params=args.worker_ray_start_params,
                **worker_fields(args),
            ),
        ),
        autoscaler=short.Autoscaler(version=args.autoscaler or ""),
    )
    short.check(config)
    return config


def head_fields(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "cpu": args.head_cpu,
        "memory": args.head_memory,
        "gpu": args.head_gpu,
        "node_selectors": args.head_node_selectors,
    }


def worker_fields(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "cpu": args.worker_cpu,
        "memory": args.worker_memory,
        "gpu": args.worker_gpu,
        "replicas": args.worker_replicas,
        "node_selectors": args.worker_node_selectors,
    }


def _from_file(args: argparse.Namespace) -> short.ClusterConfig:
    """The short form of the file. Name and namespace must agree with those of the command line."""
    _refuse_other_flags(args)
    try:
        text = args.file.read_bytes()
    except OSError as error:
        raise UsageError(f"--file {args.file}: {error.strerror}") from error
    config = short.parse_config(text, f"--file {args.file}")
    if config.name and config.name != args.name:
        raise UsageError(
            f"--file {args.file}: name: {config.name!r} is not the name {args.name!r} of the command"
        )
    if config.namespace and args.namespace and config.namespace != args.namespace:
        raise UsageError(
            f"--file {args.file}: namespace: {config.namespace!r} is not --namespace "
            f"{args.namespace!r}: leave out one of them"
        )
    namespace = config.namespace or namespace_of(args)
    return msgspec.structs.replace(config, name=args.name, namespace=namespace)


def _refuse_other_flags(args: argparse.Namespace) -> None:
    parser = argparse.ArgumentParser()
    _add_cluster(parser.add_subparsers())
    defaults = vars(parser.parse_args(["cluster", args.name]))
    described = [
        name for name in defaults if name not in WITH_FILE and not name.startswith("kube_")
    ]
    connection = {"namespace", "kubeconfig", "context", "dir", "what", "name"}
    other = [
        f"--{name.replace('_', '-')}"
        for name in described
        if name not in connection and getattr(args, name) != defaults[name]
    ]
    if other:
        raise UsageError(f"{', '.join(other)}: not with --file; set it in the file")


# ── create ───────────────────────────────────────────────────────────────────────────────


async def _create(args: argparse.Namespace, document: dict[str, Any]) -> int:
    key = Key(document["metadata"]["namespace"], document["metadata"]["name"])
    async with open_client(args) as client:
        await _refuse_taken_name(client, key)
        await client.patch(
            RAY_CLUSTERS, key, document, kind="apply", field_manager=short.FIELD_MANAGER
        )
        print(f"Created Ray cluster: {key.name}", flush=True)
        if args.wait:
            await until_provisioned(client, key, args.timeout)
            print(f"Ray cluster {key.name} is provisioned")
    return 0


async def _refuse_taken_name(client: Client, key: Key) -> None:
    try:
        await client.get(RAY_CLUSTERS, key)
    except NotFound:
        return
    raise CreateError(f"the Ray cluster {key.name} in namespace {key.namespace} already exists")


async def until_provisioned(client: Client, key: Key, seconds: float) -> None:
    """Wait until the cluster is provisioned or ready. Raises CreateError after `seconds`."""
    from manta.cli.plugin.waiting import until_cluster

    try:
        async with asyncio.timeout(seconds):
            await until_cluster(client, key)
    except TimeoutError:
        raise CreateError(
            f"timed out waiting for Ray cluster {key.name} in namespace {key.namespace} to be "
            f"provisioned; see kubectl ray describe raycluster {key.name}"
        ) from None
