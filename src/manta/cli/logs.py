"""`manta logs POD`, `cluster/NAME` or `job/NAME`: the log of a container or a RayJob."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from typing import Any

from manta.api.durations import DurationError, parse_nanoseconds
from manta.api.meta import Key
from manta.api.ray.names import LABEL_CLUSTER, LABEL_NODE_TYPE
from manta.api.ray.resources import RAY_JOBS, RAY_SERVICES
from manta.api.resources import DEPLOYMENTS, PODS, SERVICES
from manta.api.usage import UsageError
from manta.api.well_known import ANNOTATION_DEFAULT_CONTAINER, LABEL_JOB_NAME
from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.kube.client import Client
from manta.kube.errors import NotFound

JOB_KINDS = ("job", "jobs", "rayjob", "rayjobs")
POD_KINDS = ("pod", "pods", "po")
OTHER_KINDS = ("cluster", "raycluster", "service", "rayservice", "svc", "deployment", "deploy")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "logs",
        **examples(
            ("manta logs demo-head-x2c4d", "the Ray container of a Pod"),
            ("manta logs cluster/demo -f", "follow the head of a RayCluster"),
            ("manta logs job/train", "a RayJob, or a batch Job of that name"),
            ("manta logs cluster/demo -c autoscaler --tail 50", "another container"),
            ("manta logs cluster/demo --since 10m -p", "the container before its restart"),
        ),
    )
    parser.add_argument(
        "target",
        metavar="POD",
        help="a Pod, or cluster/NAME, rayservice/NAME, job/NAME, deployment/NAME",
    )
    parser.add_argument("-c", "--container", default="", help="default: the Ray container")
    parser.add_argument("-f", "--follow", action="store_true", help="follow the log")
    parser.add_argument(
        "-p", "--previous", action="store_true", help="the container before its restart"
    )
    parser.add_argument("--tail", type=int, metavar="LINES", help="only the last lines")
    parser.add_argument(
        "--since",
        type=_seconds,
        metavar="DURATION",
        help="only newer lines, such as 90 (seconds), 5m or 1h",
    )
    parser.add_argument("--timestamps", action="store_true", help="print the time of each line")
    add_connection_flags(parser, namespace=True)


def _seconds(text: str) -> int:
    try:
        nanoseconds = parse_nanoseconds(text if not text.isdecimal() else f"{text}s")
    except DurationError as error:
        raise argparse.ArgumentTypeError(f"{error}; write it as 90, 5m or 1h") from error
    if nanoseconds < 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is less than a second")
    return nanoseconds // 10**9


def run(args: argparse.Namespace) -> int:
    return asyncio.run(_logs(args))


async def _logs(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        kind, slash, name = args.target.partition("/")
        key = Key(namespace_of(args), name)
        if slash and kind in JOB_KINDS:
            ray_job = await _is_ray_job(client, kind, key)
            if ray_job and await _print_job_log(client, key, args):
                return 0
            if not ray_job and _print_history(args, key):
                return 0
        key = await pod_key(client, key.namespace, args.target)
        container = args.container or await _default_container(client, key)
        path = PODS.path(key.namespace, key.name, "log")
        async with client.stream(path, query=_query(args, container)) as stream:
            async for chunk in stream.chunks():
                sys.stdout.buffer.write(chunk)
                sys.stdout.flush()
    return 0


async def _print_job_log(client: Client, key: Key, args: argparse.Namespace) -> bool:
    """Print the log of a RayJob, or what the history has of it. Raises what the former raises."""
    from manta.client.job_logs import NoLogError, is_in_history_only, print_job_log

    try:
        await print_job_log(client, key, follow=args.follow)
    except (NotFound, NoLogError):
        if not (await is_in_history_only(client, key) and _print_history(args, key)):
            raise
    return True


def _print_history(args: argparse.Namespace, key: Key) -> bool:
    """Print the log of the driver from the history. False if no history of this job is kept."""
    from manta.cli.server.history import print_kept_log, store_url

    return bool(store_url(args)) and print_kept_log(args, key)


async def _is_ray_job(client: Client, kind: str, key: Key) -> bool:
    """`job/NAME` is a RayJob if one of that name exists, else a batch Job."""
    if kind.startswith("ray"):
        return True
    try:
        await client.get(RAY_JOBS, key)
    except NotFound:
        return False
    return True


async def pod_key(client: Client, namespace: str, target: str) -> Key:
    """The Pod of `NAME`, `pod/NAME`, `cluster/NAME`, `svc/NAME` and others. Raises UsageError."""
    kind, slash, name = target.partition("/")
    if not slash:
        return Key(namespace, target)
    key = Key(namespace, name)
    return key if kind in POD_KINDS else await _pod_of(client, kind, key)


async def _pod_of(client: Client, kind: str, key: Key) -> Key:
    """A Pod of this object, preferably a running one."""
    labels = await _labels_of(client, kind.removesuffix("s"), key)
    pods = (await client.list(PODS, key.namespace, labels=labels)).items
    if not pods:
        raise UsageError(
            f"{kind}/{key.name} has no Pod in namespace {key.namespace}: see `manta get {kind}`"
        )
    running = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
    chosen: str = (running or pods)[0]["metadata"]["name"]
    if len(pods) > 1:
        print(f"Found {len(pods)} Pods, using {chosen}", file=sys.stderr)
    return Key(key.namespace, chosen)


async def _labels_of(client: Client, kind: str, key: Key) -> str:
    head = f"{LABEL_NODE_TYPE}=head"
    match kind:
        case "cluster" | "raycluster":
            return f"{LABEL_CLUSTER}={key.name},{head}"
        case "service" | "rayservice":
            service = await client.get(RAY_SERVICES, key)
            active = (service.get("status") or {}).get("activeServiceStatus") or {}
            return f"{LABEL_CLUSTER}={active.get('rayClusterName', '')},{head}"
        case "svc":
            return _selector_of(await client.get(SERVICES, key))
        case "job":
            return f"{LABEL_JOB_NAME}={key.name}"
        case "deployment" | "deploy":
            deployment = await client.get(DEPLOYMENTS, key)
            labels = deployment["spec"]["selector"].get("matchLabels") or {}
            return ",".join(f"{name}={value}" for name, value in labels.items())
        case _:
            known = ", ".join(("pod", "job", "rayjob", *OTHER_KINDS))
            raise UsageError(f"{kind}/{key.name}: not one of {known}")


def _selector_of(service: Mapping[str, Any]) -> str:
    selector = service["spec"].get("selector") or {}
    if not selector:
        raise UsageError(
            f"svc/{service['metadata']['name']} has no selector: use the name of a Pod"
        )
    return ",".join(f"{name}={value}" for name, value in selector.items())


async def _default_container(client: Client, key: Key) -> str:
    return default_container(await client.get(PODS, key))


def default_container(pod: Mapping[str, Any]) -> str:
    """The annotated default container, else the first one, which runs Ray in Pods of the operator."""
    names = [one["name"] for one in pod["spec"]["containers"]]
    marked = (pod["metadata"].get("annotations") or {}).get(ANNOTATION_DEFAULT_CONTAINER)
    chosen = str(marked if marked in names else names[0])
    if len(names) > 1:
        print(f"Container {chosen} of {', '.join(names)} (-c selects another)", file=sys.stderr)
    return chosen


def _query(args: argparse.Namespace, container: str) -> tuple[tuple[str, str], ...]:
    wanted = {
        "container": container,
        "follow": "true" if args.follow else "",
        "previous": "true" if args.previous else "",
        "tailLines": "" if args.tail is None else str(args.tail),
        "sinceSeconds": "" if args.since is None else str(args.since),
        "timestamps": "true" if args.timestamps else "",
    }
    return tuple((name, value) for name, value in wanted.items() if value)
