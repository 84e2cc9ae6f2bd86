"""`kubectl ray log NAME | TYPE/NAME`: download the logs of the Pods of a Ray cluster."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Any, Final

from manta.api.meta import Key
from manta.api.ray.names import LABEL_CLUSTER, LABEL_NODE_TYPE, NODE_HEAD
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import PODS
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.plugin.flags import one_of
from manta.cli.plugin.waiting import note
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.ray_targets import RayObject, cluster_of, parse_target
from manta.kube.client import Client
from manta.kube.errors import MantaError

KINDS: Final = (RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES)
AT_ONCE: Final = 4
"""Pods whose logs are downloaded at the same time."""


class LogError(MantaError):
    """No Pod was found, or some logs could not be read."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "log",
        description="Download the logs of all containers and of all Ray sessions of a cluster's "
        "Pods into a directory, or follow the containers with -f.",
        **examples(
            ("kubectl ray log demo", "into the new directory demo"),
            ("kubectl ray log rayjob/train --out-dir logs --node-type head", "of the head only"),
            ("kubectl ray log demo -f", "print the logs of all containers as they grow"),
            ("kubectl ray log demo --link gke", "the address of Cloud Logging"),
        ),
    )
    parser.add_argument("target", metavar="NAME | TYPE/NAME", help="default type: raycluster")
    parser.add_argument(
        "--out-dir", type=Path, metavar="DIR", help="an existing directory (default: a new one)"
    )
    parser.add_argument(
        "--node-type",
        type=one_of("all", "head", "worker"),
        default="all",
        metavar="all|head|worker",
        help="(all)",
    )
    parser.add_argument("--link", type=one_of("gke"), metavar="gke")
    parser.add_argument("-f", "--follow", action="store_true", help="print instead of downloading")
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    target = parse_target(args.target, namespace_of(args), KINDS)
    if args.out_dir is not None:
        if args.link or args.follow:
            raise UsageError(f"--out-dir: not with {'--link' if args.link else '--follow'}")
        if not args.out_dir.is_dir():
            raise UsageError(f"--out-dir {args.out_dir}: no such directory; create it first")
    try:
        return asyncio.run(_log(args, target))
    except KeyboardInterrupt:
        return 0 if args.follow else 130


async def _log(args: argparse.Namespace, target: RayObject) -> int:
    async with open_client(args) as client:
        cluster = await cluster_of(client, target)
        namespace = target.key.namespace
        if args.link:
            await _print_link(client, args, namespace, cluster)
            return 0
        labels = f"{LABEL_CLUSTER}={cluster}"
        if args.node_type != "all":
            labels += f",{LABEL_NODE_TYPE}={args.node_type}"
        pods = (await client.list(PODS, namespace, labels=labels)).items
        if not pods:
            raise LogError(f"No Ray nodes found for resource {cluster} in namespace {namespace}")
        if args.follow:
            from manta.cli.plugin.log_follow import follow

            return await follow(client, pods)
        return await _download(client, pods, args.out_dir or _new_directory(target.key.name))


async def _print_link(
    client: Client, args: argparse.Namespace, namespace: str, cluster: str
) -> None:
    from manta.cli.plugin.cloud_link import gke_link, project_of
    from manta.cli.server.connection import cluster_of as server_of

    if not await _has_fluentbit(client, namespace, cluster):
        note("Warning: the head has no container 'fluentbit': logs may not be exported")
    project = project_of(server_of(args).context)
    if not project:
        note("Warning: the context is not one of GKE: the link may not work")
    print(gke_link(namespace, cluster, args.node_type, project))


async def _has_fluentbit(client: Client, namespace: str, cluster: str) -> bool:
    labels = f"{LABEL_CLUSTER}={cluster},{LABEL_NODE_TYPE}={NODE_HEAD}"
    heads = (await client.list(PODS, namespace, labels=labels)).items
    containers = [one["name"] for pod in heads for one in pod["spec"]["containers"]]
    return not heads or "fluentbit" in containers


def _new_directory(name: str) -> Path:
    path = Path(name)
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot create the directory {name}: {error.strerror}") from error
    note(f"No output directory specified: writing to {path}")
    return path


def _directory(path: Path) -> Path:
    path.mkdir(exist_ok=True)
    return path


async def _download(client: Client, pods: list[dict[str, Any]], out: Path) -> int:
    """The logs of all Pods, a few at a time. Raises LogError at the end if some failed."""
    from manta.cli.plugin.log_download import download_pod

    places = asyncio.Semaphore(AT_ONCE)

    async def one(pod: dict[str, Any]) -> list[str]:
        name = pod["metadata"]["name"]
        key = Key(pod["metadata"].get("namespace", ""), name)
        async with places:
            print(f"Downloading log for Ray Node {name}", flush=True)
            return await download_pod(client, key, pod, _directory(out / name))

    failures = [text for found in await asyncio.gather(*map(one, pods)) for text in found]
    for text in failures:
        note(f"Error: {text}")
    if failures:
        raise LogError(f"{len(failures)} of the logs could not be downloaded completely")
    return 0
