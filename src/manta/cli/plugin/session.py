"""`kubectl ray session NAME | TYPE/NAME`: forward local ports to a Ray cluster, until Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

from manta.api.meta import Key
from manta.api.ray.names import LABEL_CLUSTER, LABEL_NODE_TYPE, NODE_HEAD
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import PODS, Resource
from manta.api.usage import UsageError
from manta.cli.dashboard import service_of
from manta.cli.output.help import examples
from manta.cli.plugin.waiting import note
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.forwarded_port import ForwardedPort
from manta.cli.server.ray_targets import NoClusterError, RayObject, cluster_of, parse_target
from manta.kube.client import Client
from manta.kube.transport import UpgradingTransport


@dataclass(frozen=True, slots=True)
class AppPort:
    name: str
    port: int
    flag: str


DASHBOARD: Final = AppPort("Ray Dashboard", 8265, "dashboard_port")
CLIENT: Final = AppPort("Ray Interactive Client", 10001, "client_port")
SERVE: Final = AppPort("Ray Serve", 8000, "serve_port")
PORTS: Final[Mapping[Resource, tuple[AppPort, ...]]] = {
    RAY_CLUSTERS: (DASHBOARD, CLIENT),
    RAY_JOBS: (DASHBOARD,),
    RAY_SERVICES: (DASHBOARD, SERVE),
}


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "session",
        description="Forward local ports to a Ray cluster, until Ctrl-C. A port that is taken is "
        "replaced by a free one, unless a flag names it.",
        **examples(
            ("kubectl ray session demo", "dashboard and Ray client of a RayCluster"),
            ("kubectl ray session rayservice/web", "dashboard and Serve"),
            ("kubectl ray session demo --dashboard-port 9000", "on a port of your choice"),
        ),
    )
    parser.add_argument("target", metavar="NAME | TYPE/NAME", help="default type: raycluster")
    for one in (DASHBOARD, CLIENT, SERVE):
        flag = f"--{one.flag.replace('_', '-')}"
        about = f"local port of {one.name} ({one.port} if it is free; 0: any)"
        parser.add_argument(flag, type=_port, metavar="PORT", help=about)
    parser.add_argument("-v", "--verbose", action="store_true", help="report each connection")
    add_connection_flags(parser, namespace=True)


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) < 65536):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535)")
    return int(text)


def run(args: argparse.Namespace) -> int:
    target = parse_target(args.target, namespace_of(args), tuple(PORTS))
    for one in (DASHBOARD, CLIENT, SERVE):
        if getattr(args, one.flag) is not None and one not in PORTS[target.resource]:
            raise UsageError(f"--{one.flag.replace('_', '-')}: {target} has no {one.name}")
    try:
        return asyncio.run(_session(args, target))
    except KeyboardInterrupt:
        return 0


async def _session(args: argparse.Namespace, target: RayObject) -> int:
    async with open_client(args) as client, AsyncExitStack() as stack:
        transport = client.transport
        if not isinstance(transport, UpgradingTransport):
            raise UsageError("this connection cannot be upgraded to a stream")
        service = await head_service(client, target)
        head = Head(client, target, verbose=args.verbose)
        await head.find()
        print(f"Forwarding ports to service {service}")
        for one in PORTS[target.resource]:
            port = ForwardedPort(transport, head.find, one.port, note)
            stack.push_async_callback(port.close)
            await port.listen(getattr(args, one.flag))
            print(f"{one.name}: http://localhost:{port.local}")
        print(flush=True)
        await asyncio.Event().wait()
    return 0


async def head_service(client: Client, target: RayObject) -> str:
    """The head Service. Raises NoClusterError if there is none yet."""
    found = await client.get(target.resource, target.key)
    service = service_of(target.resource, found.get("status") or {})
    if not service:
        raise NoClusterError(f"{target} has no head yet: see kubectl ray status {target}")
    return service


class Head:
    """Finds the running head Pod of a target."""

    def __init__(self, client: Client, target: RayObject, *, verbose: bool = False) -> None:
        self._client = client
        self._target = target
        self._verbose = verbose

    async def find(self) -> Key:
        """Raises NoClusterError if no head runs."""
        cluster = await cluster_of(self._client, self._target)
        labels = f"{LABEL_CLUSTER}={cluster},{LABEL_NODE_TYPE}={NODE_HEAD}"
        namespace = self._target.key.namespace
        pods = (await self._client.list(PODS, namespace, labels=labels)).items
        running = [pod for pod in pods if _runs(pod)]
        if not running:
            raise NoClusterError(f"{self._target}: its head Pod does not run")
        key = Key(namespace, running[0]["metadata"]["name"])
        if self._verbose:
            note(f"connecting to pod/{key.name}")
        return key


def _runs(pod: dict[str, Any]) -> bool:
    is_running = (pod.get("status") or {}).get("phase") == "Running"
    return is_running and not pod["metadata"].get("deletionTimestamp")
