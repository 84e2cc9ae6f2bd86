"""The node agent: takes the Pods that are bound to its nodes, and runs each as processes.

agent = NodeAgent(client, clock, NodeOptions(dir=Path("...")))
await agent.run()          # cancelled: Pods go on, and the next agent adopts them
"""

from __future__ import annotations

import asyncio
import logging
from random import Random

from manta.api.meta import Key
from manta.api.resources import PODS
from manta.kube.client import Client
from manta.localplane.node.claims import ClaimBinder
from manta.localplane.node.clusternet import ClusterNetwork
from manta.localplane.node.connector import LocalConnector
from manta.localplane.node.events import DNS_UNAVAILABLE, PodEvents
from manta.localplane.node.gateway import HttpGateway
from manta.localplane.node.losses import NodeLosses
from manta.localplane.node.machine import Machine, NodeOptions
from manta.localplane.node.observe import Reader
from manta.localplane.node.podruntime import PodRuntime, pod_directories
from manta.localplane.node.podspec import NodePod
from manta.localplane.node.podworker import PodWorker
from manta.localplane.node.processes import NetworkLost, end_sandbox
from manta.localplane.node.register import Registrar, capacity, node_names
from manta.localplane.node.relay import Streams
from manta.localplane.node.trees import remove_tree
from manta.runtime.clock import Clock
from manta.runtime.informer import Informer
from manta.runtime.recorder import Recorder

log = logging.getLogger(__name__)

__all__ = ["NodeAgent", "NodeOptions"]

_REFRESH_EVERY = 60.0
_FINAL = ("Succeeded", "Failed")


class NodeAgent:
    def __init__(
        self, client: Client, clock: Clock, options: NodeOptions, *, random: Random | None = None
    ) -> None:
        self.options = options
        self.names = node_names(options)
        self.ready = asyncio.Event()
        """Set when the nodes are registered and Pods are taken."""
        self._client = client
        self._clock = clock
        self._random = random or Random()  # noqa: S311 - jitter, not a secret
        self._offered = capacity(options)
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._lost: set[str] = set()
        self._machine: Machine = None  # type: ignore[assignment]  # opened by run
        self._network: ClusterNetwork = None  # type: ignore[assignment]
        self._reader: Reader = None  # type: ignore[assignment]
        self.gateway: HttpGateway = None  # type: ignore[assignment]
        self._pods: Informer[NodePod] = None  # type: ignore[assignment]
        self._recorder: Recorder = None  # type: ignore[assignment]
        self.connector = LocalConnector(self.worker, self.ready, clock)

    def worker(self, namespace: str, name: str) -> PodWorker | None:
        """Who runs the Pod of this name: the last one taken, another may still be on its way out."""
        for worker in reversed(self._workers.values()):
            if worker.pod.metadata.key == (namespace, name):
                return worker
        return None

    async def dial_service(self, service: Key, port: str | int) -> Streams:
        """A connection to a Service from this process, which is on no Pod's network."""
        return await self._network.dial(service, port)

    async def run(self) -> None:
        """Until cancelled. Raises NoNamespaces, with the cure, where Pods cannot be made."""
        while True:
            try:
                await self._run()
            except* NetworkLost:
                log.warning("the Pods' network was lost; all Pods are made anew")

    async def _run(self) -> None:
        self._machine = await Machine.open(self.options)
        name = self.options.name
        self._recorder = Recorder(self._client, self._clock, self._random, instance=name)
        self._network = ClusterNetwork(self._client, self._machine, self._recorder)
        self._reader = Reader(self._client, self._network.services, self._network.pod_behind)
        one = f"spec.nodeName={self.names[0]}" if len(self.names) == 1 else ""
        self._pods = Informer(self._client, PODS, NodePod, fields=one)
        try:
            async with asyncio.TaskGroup() as group:
                await self._begin(group)
        finally:
            await self._leave()

    async def _begin(self, group: asyncio.TaskGroup) -> None:
        machine = self._machine
        registrar = Registrar(
            self._client,
            self._clock,
            self.options,
            machine.host_address,
            lambda: machine.dns_trouble,
            machine.egress_trouble,
        )
        losses = NodeLosses(self._client, self.names, self._lose_node, self._find_node, registrar)
        claims = ClaimBinder(self._client, machine.volumes)
        group.create_task(self._recorder.run(), name="events")
        group.create_task(self._network.run(), name="network")
        group.create_task(claims.run(), name="claims")
        group.create_task(self._watch_network(), name="launcher")
        self.gateway = HttpGateway(self._client, self._clock, machine, self._network)
        group.create_task(self.gateway.run(), name="gateway")
        await self._network.ready.wait()
        await registrar.register()
        self._pods.add_handler(self._pod_changed)
        group.create_task(self._pods.run(), name="pods")
        await self._pods.synced.wait()
        await self._remove_strangers()
        group.create_task(registrar.run(), name="leases")
        group.create_task(losses.run(), name="nodes")
        group.create_task(self._refresh_volumes(), name="volumes")
        for worker in tuple(self._workers.values()):
            await worker.taken_up.wait()
        self.ready.set()

    # ── Pods ───────────────────────────────────────────────────────────────────────────
    def _pod_changed(self, old: NodePod | None, new: NodePod | None) -> None:
        known = new or old
        if known is None or known.spec.node_name not in self.names or self._is_lost(known):
            return
        worker = self._workers.get(known.metadata.uid)
        if new is None:
            if worker is not None:
                worker.object_is_gone()
        elif worker is not None:
            worker.see(new)
        elif old is not None and old.metadata.uid != new.metadata.uid:
            self._pod_changed(old, None)
            self._take(new)
        else:
            self._take(new)

    def _is_lost(self, pod: NodePod) -> bool:
        return pod.spec.node_name in self._lost

    def _take(self, pod: NodePod) -> None:
        uid = pod.metadata.uid
        over = pod.status.phase in _FINAL and not self._machine.pod_directory(uid).exists()
        if over and pod.metadata.deletion_timestamp is None:
            return  # it ended before this agent's time, and left nothing here
        runtime = PodRuntime(
            self._machine,
            self._reader,
            pod,
            self._offered,
            lambda news: worker.hear(news),  # noqa: PLW0108 - made below
        )
        told = PodEvents(self._recorder, pod)
        if runtime.dns_trouble:
            told.tell(DNS_UNAVAILABLE, runtime.dns_trouble)
        worker = PodWorker(pod, runtime, self._client, self._clock, told)
        self._workers[uid] = worker
        task = asyncio.create_task(self._work(worker), name=f"pod {pod.metadata.key}")
        self._tasks[uid] = task

    async def _work(self, worker: PodWorker) -> None:
        uid = worker.pod.metadata.uid
        try:
            await worker.run()
        except Exception:
            # One Pod's bug must not stop the others. The next change of the Pod takes it up anew.
            log.exception("Pod %s is given up for now", worker.pod.metadata.key)
        finally:
            self._workers.pop(uid, None)
            self._tasks.pop(uid, None)

    def _lose_node(self, name: str) -> None:
        self._lost.add(name)
        for worker in self._workers.values():
            if worker.pod.spec.node_name == name:
                worker.vanish()

    def _find_node(self, name: str) -> None:
        self._lost.discard(name)
        for pod in self._pods.all():
            if pod.spec.node_name == name:
                self._pod_changed(None, pod)

    async def _refresh_volumes(self) -> None:
        """Changed ConfigMaps and Secrets, and fresh tokens, reach running Pods within a minute."""
        while True:
            await asyncio.sleep(_REFRESH_EVERY)
            for worker in tuple(self._workers.values()):
                await worker.refresh_volumes()

    async def _watch_network(self) -> None:
        await self._machine.launcher.lost.wait()
        raise NetworkLost

    async def _remove_strangers(self) -> None:
        """Pods that were deleted while no agent ran: nothing of them may stay."""
        known = {pod.metadata.uid for pod in self._pods.all()}
        for directory in pod_directories(self._machine.directory):
            if directory.name not in known:
                end_sandbox(directory)
                self._machine.cgroups.remove(directory.name)
                await asyncio.to_thread(remove_tree, directory)

    async def _leave(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._machine.close()
