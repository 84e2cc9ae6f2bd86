"""The operator fixture: any control plane over TLS, fake nodes, and `manta operator` as a process.

The operator is a process of its own, acts as its own ServiceAccount under the rules of the chart,
and reaches Ray through the API server. Where MANTA_CONTRACT_KUBECONFIG names a server, the fixture is
set there (kube-controller-manager and kube-scheduler do their part); otherwise on the embedded plane,
in this process. On a cluster that others use too (MANTA_EXTERNAL), everything of ours is in one
namespace, the nodes are tainted, and all of it goes at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import msgspec
import yaml

from manta.api.crds import crd_documents
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES
from manta.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    Resource,
)
from manta.kube.client import Client
from manta.kube.cluster import Cluster
from manta.kube.config import load
from manta.kube.errors import AlreadyExists, NotFound
from manta.kube.transport import HttpTransport
from manta.localplane.fakenodes.controller import FakeNodes
from manta.localplane.fakenodes.options import FakeNodeOptions
from manta.localplane.fakenodes.script import Script
from manta.localplane.kubeconfig import write_kubeconfig
from manta.localplane.plane import Plane, PlaneOptions
from manta.runtime.clock import SystemClock
from manta.runtime.manager import Manager
from support.contract import EXTERNAL
from support.fake_dashboards import Dashboards, Everywhere, dashboards
from support.fake_ray import FakeRay
from support.virtual import running

CHART_RULES = Path(__file__).parents[2] / "charts/manta/rbac/rules.yaml"
SOMEBODY_ELSES = "MANTA_EXTERNAL"
ADDRESS = "MANTA_TEST_ADDRESS"
SWITCHED_ON = ("useKubernetesProxy", "RayClusterNetworkPolicy")
"""Settings and gates of our operator that the chart grants more for."""
TAINT = "fake.manta.io/nodes"
ACCOUNT = "manta-operator"
TIMEOUT = 60.0
LEADING = "holding lease"

T = TypeVar("T")
Json = dict[str, Any]


async def until(
    true: Callable[[], Awaitable[T]], what: Callable[[], Awaitable[object]] | None = None
) -> T:
    """The first answer that is true; what never becomes true fails with what there is instead."""
    try:
        async with asyncio.timeout(TIMEOUT):
            while not (found := await true()):
                await asyncio.sleep(0.05)
            return found
    except TimeoutError:
        last = await what() if what else "nothing"
        raise AssertionError(f"it did not come to pass within {TIMEOUT} s; last: {last}") from None


@dataclass
class OperatorFixture:
    client: Client
    """Of the admin: the user of every story."""
    cluster: Cluster
    namespace: str
    directory: Path
    nodes: FakeNodes
    dashboards: Dashboards
    embedded: bool
    external: bool
    kubeconfig: Path
    """Of the admin, for programs that are not ours."""
    operators: int = field(default=0)

    @property
    def ray(self) -> FakeRay:
        return self.dashboards.ray

    # ── what is there ────────────────────────────────────────────────────────────────────

    async def make(self, resource: Resource, document: Json) -> Json:
        body = {**document, "metadata": {**document["metadata"], "namespace": self.namespace}}
        return await self.client.create(resource, self.namespace, body, into=dict)

    async def get(self, resource: Resource, name: str) -> Json | None:
        try:
            return await self.client.get(resource, self.key(name))
        except NotFound:
            return None

    async def all(self, resource: Resource, labels: str = "") -> list[Json]:
        return (await self.client.list(resource, self.namespace, labels=labels)).items

    async def edit(self, resource: Resource, name: str, body: Any) -> None:
        kind: Any = "json" if isinstance(body, list) else "merge"
        await self.client.patch(resource, self.key(name), body, kind=kind)

    async def delete(self, resource: Resource, name: str) -> None:
        await self.client.delete(resource, self.key(name))

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    async def pods(self, cluster: str, node: str = "") -> list[Json]:
        return await self.all(
            PODS, f"ray.io/cluster={cluster}" + (f",ray.io/node-type={node}" if node else "")
        )

    # ── waiting ──────────────────────────────────────────────────────────────────────────

    async def until(self, resource: Resource, name: str, check: Callable[[Json], object]) -> Json:
        """The object, as soon as its status passes the check."""
        found: Json = {}

        async def holds() -> bool:
            nonlocal found
            found = await self.get(resource, name) or {}
            return bool(found and check(found.get("status") or {}))

        async def last() -> object:
            return found.get("status")

        await until(holds, last)
        return found

    async def until_gone(self, resource: Resource, name: str) -> None:
        async def gone() -> bool:
            return await self.get(resource, name) is None

        await until(gone, lambda: self.get(resource, name))

    async def until_none(self, resource: Resource, labels: str) -> None:
        async def none() -> bool:
            return not await self.all(resource, labels)

        await until(none, lambda: self.all(resource, labels))

    async def until_pods(self, count: int, cluster: str, node: str = "worker") -> list[Json]:
        """Exactly so many, all of them ready."""

        async def there() -> list[Json]:
            pods = await self.pods(cluster, node)
            return pods if len(pods) == count and all(map(is_ready, pods)) else []

        if count == 0:
            labels = f"ray.io/cluster={cluster},ray.io/node-type={node}"
            await self.until_none(PODS, labels)
            return []
        return await until(there, lambda: self.pods(cluster, node))

    # ── the operator ─────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def operator(self, *flags: str) -> AsyncIterator[OperatorProcess]:
        """`manta operator` until the end of the block, which is what SIGTERM is for it."""
        self.operators += 1
        log = self.directory / f"operator-{self.operators}.log"
        process = OperatorProcess(self._command(flags), log)
        await process.start()
        try:
            yield process
        finally:
            await process.stop()

    def _command(self, flags: tuple[str, ...]) -> list[str]:
        watched = [f"--watch-namespace={self.namespace}"] if self.external else []
        return [
            *(str(Path(sys.executable).with_name("manta")), "operator"),
            *("--kubeconfig", str(self.directory / "operator.kubeconfig")),
            *("--metrics-addr=0", "--health-probe-bind-address=0", "--use-kubernetes-proxy"),
            f"--leader-election-namespace={self.namespace}",
            "--feature-gates=RayClusterNetworkPolicy=true",
            *watched,
            *flags,
        ]


@dataclass
class OperatorProcess:
    command: list[str]
    log: Path
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        with self.log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.command, stdout=log, stderr=log, env=environment
            )

    async def until_leading(self) -> None:
        await until(self.leads, self._tail)

    async def leads(self) -> bool:
        assert self.process is not None
        assert self.process.returncode is None, self.log.read_text()[-3000:]
        return LEADING in self.log.read_text()

    async def _tail(self) -> str:
        return self.log.read_text()[-2000:]

    async def kill(self) -> None:
        """As a lost machine: nothing is said to anybody."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        await self._end(signal.SIGTERM)
        refused = [one for one in self.log.read_text().splitlines() if "is forbidden: User" in one]
        assert refused == [], "the chart's RBAC does not suffice"

    async def _end(self, number: signal.Signals) -> None:
        process = self.process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)
        try:
            await asyncio.wait_for(process.wait(), 20)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise


async def empty(operator_fixture: OperatorFixture) -> None:
    """No Ray object outlives the operator that can take its finalizer away."""
    kinds = (RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES, RAY_CLUSTERS)
    for resource in kinds:
        await operator_fixture.client.delete_collection(resource, operator_fixture.namespace)
    for resource in (*kinds, PODS):
        await operator_fixture.until_none(resource, "")


def is_ready(pod: Json) -> bool:
    said = (pod.get("status") or {}).get("conditions") or ()
    alive = not pod["metadata"].get("deletionTimestamp")
    return alive and any(one["type"] == "Ready" and one["status"] == "True" for one in said)


# ── setting it ───────────────────────────────────────────────────────────────────────────


@asynccontextmanager
async def start_operator_fixture(directory: Path) -> AsyncIterator[OperatorFixture]:
    async with AsyncExitStack() as stack:
        external = bool(os.environ.get(SOMEBODY_ELSES))
        kubeconfig = os.environ.get(EXTERNAL)
        address = os.environ.get(ADDRESS) or (own_address() if kubeconfig else "127.0.0.1")
        ray = FakeRay(deploy_after=0.3)
        heads = await stack.enter_async_context(dashboards(ray, address))
        if not kubeconfig:
            plane = Plane(PlaneOptions(dir=directory / "plane", memory=True))
            await stack.enter_async_context(plane)
            plane.connector = Everywhere(address)
            kubeconfig = str(plane.kubeconfig)
        cluster = load(Path(kubeconfig))
        client = Client(HttpTransport(cluster))
        stack.push_async_callback(client.close)
        namespace = await _a_namespace(client, stack)
        await _install(client, namespace, stack, external=external)
        await _write_kubeconfig(client, cluster, namespace, directory / "operator.kubeconfig")
        nodes = await _run_nodes(client, namespace, heads, stack)
        yield OperatorFixture(
            *(client, cluster, namespace, directory, nodes, heads),
            embedded=EXTERNAL not in os.environ,
            external=external,
            kubeconfig=Path(kubeconfig),
        )


def own_address() -> str:
    """Of this machine, and not loopback: no API server passes anything on to that."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        return str(probe.getsockname()[0])


async def _a_namespace(client: Client, stack: AsyncExitStack) -> str:
    made = await client.create(NAMESPACES, "", {"metadata": {"generateName": "manta-"}}, into=dict)
    name = str(made["metadata"]["name"])
    stack.push_async_callback(_remove, client, NAMESPACES, name)

    async def complete() -> bool:
        try:
            await client.get(SERVICE_ACCOUNTS, Key(name, "default"))
        except NotFound:
            return False
        return True

    await until(complete)
    return name


async def _remove(client: Client, resource: Resource, name: str) -> None:
    await client.delete(resource, Key("", name))

    async def gone() -> bool:
        try:
            await client.get(resource, Key("", name))
        except NotFound:
            return True
        return False

    await until(gone, lambda: client.get(resource, Key("", name)))


async def _install(
    client: Client, namespace: str, stack: AsyncExitStack, *, external: bool
) -> None:
    """The CRDs, the operator's account and its permissions, under names of our own."""
    for document in crd_documents():
        with contextlib.suppress(AlreadyExists):
            name = (await client.create(CUSTOM_RESOURCE_DEFINITIONS, "", document)).metadata.name
            stack.push_async_callback(_remove, client, CUSTOM_RESOURCE_DEFINITIONS, name)
    await until(lambda: _are_served(client, namespace))
    account = {"metadata": {"name": ACCOUNT, "namespace": namespace}}
    await client.create(SERVICE_ACCOUNTS, namespace, account)
    granted = yaml.safe_load(CHART_RULES.read_text())
    switched_on = (*granted["onByDefault"], *SWITCHED_ON)
    rules = [*granted["always"], *(r for name in switched_on for r in granted["when"][name])]
    await client.create(CLUSTER_ROLES, "", {"metadata": {"name": namespace}, "rules": rules})
    stack.push_async_callback(_remove, client, CLUSTER_ROLES, namespace)
    leader = {"metadata": {"name": "leader"}, "rules": granted["leader"]}
    await client.create(ROLES, namespace, leader)
    await client.create(ROLE_BINDINGS, namespace, _binding("leader", namespace, ROLES))
    binding = _binding(namespace, namespace, CLUSTER_ROLES)
    if external:
        await client.create(ROLE_BINDINGS, namespace, binding)
        return
    await client.create(CLUSTER_ROLE_BINDINGS, "", binding)
    stack.push_async_callback(_remove, client, CLUSTER_ROLE_BINDINGS, namespace)


async def _are_served(client: Client, namespace: str) -> bool:
    """A real server says 404 for a moment after it has accepted a definition."""
    try:
        for resource in (RAY_CLUSTERS, RAY_CRON_JOBS, RAY_JOBS, RAY_SERVICES):
            await client.list(resource, namespace, into=dict)
    except NotFound:
        return False
    return True


def _binding(role: str, namespace: str, kind: Resource, account: str = ACCOUNT) -> Json:
    return {
        "metadata": {"name": role},
        "roleRef": {"apiGroup": kind.group, "kind": kind.kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


@asynccontextmanager
async def account_with(
    operator_fixture: OperatorFixture, account: str, rules: list[Json]
) -> AsyncIterator[Path]:
    """The kubeconfig of a ServiceAccount that has these rights in the whole cluster."""
    client, namespace = operator_fixture.client, operator_fixture.namespace
    role = f"{namespace}-{account}"
    async with AsyncExitStack() as stack:
        meta = {"metadata": {"name": account, "namespace": namespace}}
        await client.create(SERVICE_ACCOUNTS, namespace, meta)
        stack.push_async_callback(operator_fixture.delete, SERVICE_ACCOUNTS, account)
        await client.create(CLUSTER_ROLES, "", {"metadata": {"name": role}, "rules": rules})
        stack.push_async_callback(_remove, client, CLUSTER_ROLES, role)
        binding = _binding(role, namespace, CLUSTER_ROLES, account)
        await client.create(CLUSTER_ROLE_BINDINGS, "", binding)
        stack.push_async_callback(_remove, client, CLUSTER_ROLE_BINDINGS, role)
        path = operator_fixture.directory / f"{account}.kubeconfig"
        await _write_kubeconfig(client, operator_fixture.cluster, namespace, path, account)
        yield path


async def _write_kubeconfig(
    client: Client, cluster: Cluster, namespace: str, path: Path, account: str = ACCOUNT
) -> None:
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 7200},
    }
    way = SERVICE_ACCOUNTS.path(namespace, account, "token")
    answer = await client.send("POST", way, body=msgspec.json.encode(request))
    token = msgspec.json.decode(answer.body)["status"]["token"]
    authority = cluster.ca.read_bytes() if isinstance(cluster.ca, Path) else cluster.ca or b""
    write_kubeconfig(path, url=cluster.server, authority=authority.decode(), token=token)


async def _run_nodes(
    client: Client, namespace: str, heads: Dashboards, stack: AsyncExitStack
) -> FakeNodes:
    options = FakeNodeOptions(
        count=2,
        prefix=f"{namespace}-",
        script=Script(start=0.05),
        job_seconds=0.5,
        labels={TAINT: namespace},
        pod_ip=heads.address,
        taint=TAINT,
    )
    manager = Manager(client, SystemClock(), Random(1))
    nodes = FakeNodes(manager, options)
    for name in options.names():
        stack.push_async_callback(_remove, client, NODES, name)
    await stack.enter_async_context(running(manager.run()))

    async def ready() -> bool:
        try:
            found = [await client.get(NODES, Key("", name)) for name in options.names()]
        except NotFound:
            return False
        taints = [one["key"] for node in found for one in node["spec"].get("taints") or ()]
        return all(one == TAINT for one in taints)

    await until(ready)
    return nodes
