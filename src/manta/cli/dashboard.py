"""`manta dashboard [NAME]`: the dashboard of a Ray cluster on a port of this machine.

Requests go through the proxy of the API server with the user's credentials, so it works for remote
clusters and for planes of unprivileged users.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import os
import sys
import webbrowser
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from manta.api.conditions import is_true
from manta.api.meta import Key
from manta.api.ray.cluster import ClusterConditionType
from manta.api.ray.names import LABEL_KUEUE_QUEUE
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import Resource
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.local_proxy import DASHBOARD_PORT, LocalProxy
from manta.client.dashboard import is_from_api_server
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.kube.proxy import service_proxy_path

PORT_NAME = "dashboard"
TIMEOUT_SECONDS = 10.0
CONNECT_SECONDS = 1.0
_KINDS: Mapping[str, Resource] = {
    word: one
    for one, words in (
        (RAY_CLUSTERS, ("", "cluster", "raycluster", "rayclusters")),
        (RAY_JOBS, ("job", "rayjob", "rayjobs")),
        (RAY_SERVICES, ("service", "rayservice", "rayservices")),
    )
    for word in words
}


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "dashboard",
        description="Serve the dashboard of a Ray cluster on a port of this machine, until Ctrl-C.",
        **examples(
            ("manta dashboard", "the only RayCluster of this namespace"),
            ("manta dashboard demo --port 8265", "one RayCluster, on this port"),
            ("manta dashboard rayjob/train --no-browser", "the cluster of a RayJob"),
        ),
    )
    parser.add_argument(
        "target",
        nargs="?",
        default="",
        metavar="NAME",
        help="a RayCluster; or rayjob/, rayservice/",
    )
    parser.add_argument(
        "--port", type=int, default=0, help="port of 127.0.0.1 (default: 8265 if it is free)"
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    try:
        return asyncio.run(_serve(args))
    except KeyboardInterrupt:
        return 0


async def _serve(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        namespace = namespace_of(args)
        service = await head_service(client, namespace, args.target)
        base = service_proxy_path(namespace, service, PORT_NAME)
        await _wake(client, Key(namespace, service))
        if why := await dashboard_error(client, base):
            why = await why_no_head(client, Key(namespace, service)) or why
            raise UsageError(f"the dashboard behind {namespace}/{service} does not answer: {why}")
        async with LocalProxy(client, base, args.port) as proxy:
            print(f"dashboard of {namespace}/{service}: {proxy.url}   (Ctrl-C to stop)", flush=True)
            if not args.no_browser and has_display():
                webbrowser.open(proxy.url)
            await asyncio.Event().wait()
    return 0


async def _wake(client: Client, service: Key) -> None:
    """Resume a cluster that sleeps because nobody used it, and wait until its head is ready."""
    from manta.client.waking import Waker

    if await Waker(client)(service):
        print(f"the cluster behind {service} slept: it is resumed", file=sys.stderr, flush=True)


async def why_no_head(client: Client, service: Key) -> str:
    """A message that the cluster of this head Service is suspended, and how to resume it, or that it still starts;
    empty if its head is ready."""
    from manta.client.waking import cluster_behind

    cluster = await cluster_behind(client, service)
    if cluster is None:
        return ""
    meta = cluster.metadata
    if not cluster.spec.suspend:
        ready = is_true(cluster.status.conditions, ClusterConditionType.HEAD_POD_READY)
        return (
            "" if ready else f"the head of RayCluster {meta.key} is not ready: see `manta status`"
        )
    if LABEL_KUEUE_QUEUE in meta.labels:
        return f"RayCluster {meta.key} is suspended: Kueue decides when it runs"
    return f"RayCluster {meta.key} is suspended: `manta resume {meta.name} -n {meta.namespace}`"


def has_display() -> bool:
    """Without a display, a text browser would take over the terminal."""
    return sys.platform == "darwin" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )


async def head_service(client: Client, namespace: str, target: str) -> str:
    """The head Service of the target. Raises UsageError if there is none, or more than one."""
    word, _, name = target.rpartition("/")
    if word.lower() not in _KINDS:
        raise UsageError(f"{target}: not a RayCluster, rayjob/NAME or rayservice/NAME")
    resource = _KINDS[word.lower()]
    if not name:
        name = await _only_cluster(client, namespace)
    found = await client.get(resource, Key(namespace, name))
    service = service_of(resource, found.get("status") or {})
    if not service:
        raise UsageError(f"{resource.kind} {namespace}/{name} has no head yet: see `manta status`")
    return service


def service_of(resource: Resource, status: Mapping[str, Any]) -> str:
    """The name of the head Service; empty: there is no head yet."""
    return str(_head(resource, status).get("serviceName", ""))


def _head(resource: Resource, status: Mapping[str, Any]) -> Mapping[str, Any]:
    match resource.kind:
        case "RayJob":
            status = status.get("rayClusterStatus") or {}
        case "RayService":
            active = status.get("activeServiceStatus") or {}
            status = active.get("rayClusterStatus") or {}
        case _:
            pass
    return status.get("head") or {}


async def _only_cluster(client: Client, namespace: str) -> str:
    names = [one["metadata"]["name"] for one in (await client.list(RAY_CLUSTERS, namespace)).items]
    if len(names) == 1:
        return str(names[0])
    if not names:
        raise UsageError(f"no RayCluster in namespace {namespace}: select another with -n")
    raise UsageError(
        f"several RayClusters: manta dashboard NAME, with one of {', '.join(sorted(names))}"
    )


async def hint(client: Client, resource: Resource, key: Key, directory: Path) -> str:
    """How to open the dashboard of an object of a plane; empty if it has no head."""
    status = (await client.get(resource, key)).get("status") or {}
    service = service_of(resource, status)
    address = _head(resource, status).get("podIP", "")
    if not service:
        return ""
    if address and await asyncio.to_thread(answers_at, address):
        return f"dashboard http://{address}:{DASHBOARD_PORT}"
    if await dashboard_error(client, service_proxy_path(key.namespace, service, PORT_NAME)):
        return "its dashboard does not answer (fake nodes run no processes)"
    namespace = "" if key.namespace == "default" else f" -n {key.namespace}"
    kind = "" if resource == RAY_CLUSTERS else f"{resource.kind.lower()}/"
    return f"dashboard: manta dashboard {kind}{key.name}{namespace} --dir {directory}"


def answers_at(address: str) -> bool:
    """Whether Ray answers. An open port is not enough: some networks accept every connection."""
    connection = http.client.HTTPConnection(address, DASHBOARD_PORT, timeout=CONNECT_SECONDS)
    try:
        connection.request("GET", "/api/version")
        return b"ray_version" in connection.getresponse().read(10_000)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


async def dashboard_error(client: Client, base: str) -> str:
    """Why the dashboard behind this path of the API server does not answer; empty if it does."""
    try:
        answer = await client.send("GET", base, timeout=TIMEOUT_SECONDS, check=False)
    except MantaError as error:
        return str(error)
    if answer.status < 500 and not is_from_api_server(answer):
        return ""
    return f"{_message(answer.body) or answer.status}. Fake nodes run no processes"


def _message(body: bytes) -> str:
    """The message of a Status object, else the beginning of the body."""
    try:
        return str(msgspec.json.decode(body, type=_Status).message)
    except msgspec.MsgspecError:
        return body[:300].decode(errors="replace").strip()


class _Status(msgspec.Struct):
    message: str = ""
