"""The node agent: runs the Pods that are bound to its nodes as processes.

agent = NodeAgent(client, clock, NodeOptions(dir=Path("...")))
await agent.run()          # if cancelled, Pods keep running and the next agent adopts them
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict
from random import Random
from typing import Any

from manta.api.resources import NODES, PODS
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.localplane.node.connector import LocalConnector
from manta.localplane.node.failure_injection import FailureInjector
from manta.localplane.node.machine import Machine, NodeOptions, node_names
from manta.localplane.node.pod.api_reader import ApiReader
from manta.localplane.node.pod.events import DNS_UNAVAILABLE, PodEvents
from manta.localplane.node.pod.leftovers import remove_unknown_pods
from manta.localplane.node.pod.runtime import PodRuntime
from manta.localplane.node.pod.worker import PodWorker
from manta.localplane.node.registration import GPU_UNAVAILABLE, RENEW_SECONDS, Registrar, capacity
from manta.localplane.node.sandbox.launcher import NetworkLost
from manta.localplane.node.services.cluster_network import ClusterNetwork
from manta.localplane.node.services.gateway import HttpGateway
from manta.localplane.node.spec.pod_spec import NodePod
from manta.localplane.node.storage.claims import ClaimBinder
from manta.runtime.clock import Clock
from manta.runtime.informer import Informer
from manta.runtime.recorder import ObjectReference, Recorder

log = logging.getLogger(__name__)

__all__ = ["NodeAgent", "NodeOptions"]

_REFRESH_SECONDS = 60.0
_FINAL = ("Succeeded", "Failed")


class NodeAgent:
    def __init__(
        self, client: Client, clock: Clock, options: NodeOptions, *, random: Random | None = None
    ) -> None:
        self.options = options
        self.names = node_names(options)
        self.ready = asyncio.Event()
        """Set when the nodes are registered and existing Pods are restored."""
        self._client = client
        self._clock = clock
        self._random = random or Random()  # noqa: S311 - jitter, not a secret
        self._capacity = capacity(options)
        self._workers: dict[str, PodWorker] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._lost: set[str] = set()
        self._machine: Machine = None  # type: ignore[assignment]  # opened by run
        self._network: ClusterNetwork = None  # type: ignore[assignment]
        self._reader: ApiReader = None  # type: ignore[assignment]
        self.gateway: HttpGateway = None  # type: ignore[assignment]
        self._pods: Informer[NodePod] = None  # type: ignore[assignment]
        self._recorder: Recorder = None  # type: ignore[assignment]
        self.connector = LocalConnector(self.worker, self.ready, clock, self.gpu_states)

    def worker(self, namespace: str, name: str) -> PodWorker | None:
        """The worker of a Pod. If a deleted Pod of the same name is still ending, the newer one."""
        for worker in reversed(self._workers.values()):
            if worker.pod.metadata.key == (namespace, name):
                return worker
        return None

    async def gpu_states(self, node: str) -> list[dict[str, Any]]:
        """The GPUs of a node, what they do and who holds them, as JSON values."""
        return [asdict(one) for one in await self._machine.gpus.states(node)]

    @property
    def machine(self) -> Machine:
        return self._machine

    async def run(self) -> None:
        """Run until cancelled. Raises NoNamespaces if the machine does not allow Pods."""
        while True:
            try:
                await self._run()
            except* NetworkLost:
                log.warning("the Pod network was lost; all Pods are re-created")

    async def _run(self) -> None:
        self._machine = await Machine.open(self.options)
        name = self.options.name
        self._recorder = Recorder(self._client, self._clock, self._random, instance=name)
        self._network = ClusterNetwork(self._client, self._machine, self._recorder)
        self._reader = ApiReader(self._client, self._network.services, self._network.pod_behind)
        one = f"spec.nodeName={self.names[0]}" if len(self.names) == 1 else ""
        self._pods = Informer(self._client, PODS, NodePod, fields=one)
        try:
            async with asyncio.TaskGroup() as group:
                await self._start(group)
        finally:
            await self._stop()

    async def _start(self, group: asyncio.TaskGroup) -> None:
        machine = self._machine
        registrar = Registrar(self._client, self._clock, machine)
        injector = FailureInjector(
            self._client, self.names, self._lose_node, self._restore_node, registrar
        )
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
        await remove_unknown_pods(machine, {pod.metadata.uid for pod in self._pods.all()})
        group.create_task(registrar.run(), name="leases")
        group.create_task(injector.run(), name="nodes")
        group.create_task(self._refresh_volumes(), name="volumes")
        if machine.gpus.found:
            group.create_task(self._watch_gpus(registrar), name="gpus")
        for worker in tuple(self._workers.values()):
            await worker.restored.wait()
        self.ready.set()

    async def _watch_gpus(self, registrar: Registrar) -> None:
        """In a task of its own: the driver of a broken GPU may not answer for long."""
        unwritten = False
        while True:
            try:
                unwritten = await self._machine.gpus.check() or unwritten
                if unwritten:
                    await registrar.report()
                    unwritten = False
                    self._notify_gpus_changed()
            except (MantaError, OSError) as error:
                log.warning("the state of the GPUs was not read or written: %s", error)
            await asyncio.sleep(RENEW_SECONDS)

    def _notify_gpus_changed(self) -> None:
        for node in self.names:
            trouble = self._machine.gpus.trouble(node)
            about = ObjectReference(NODES.api_version, NODES.kind, "", node, node)
            self._recorder.event(
                about,
                "Warning" if trouble else "Normal",
                GPU_UNAVAILABLE if trouble else "GpusAvailable",
                "Running",
                trouble or "all GPUs can be used",
                controller="kubelet",
            )
        for worker in tuple(self._workers.values()):
            worker.gpus_changed()

    # ── Pods ───────────────────────────────────────────────────────────────────────────
    def _pod_changed(self, old: NodePod | None, new: NodePod | None) -> None:
        known = new or old
        if known is None or known.spec.node_name not in self.names or self._is_lost(known):
            return
        worker = self._workers.get(known.metadata.uid)
        if new is None:
            if worker is not None:
                worker.pod_deleted()
        elif worker is not None:
            worker.pod_changed(new)
        elif old is not None and old.metadata.uid != new.metadata.uid:
            self._pod_changed(old, None)
            self._start_worker(new)
        else:
            self._start_worker(new)

    def _is_lost(self, pod: NodePod) -> bool:
        return pod.spec.node_name in self._lost

    def _start_worker(self, pod: NodePod) -> None:
        uid = pod.metadata.uid
        over = pod.status.phase in _FINAL and not self._machine.pod_directory(uid).exists()
        if over and pod.metadata.deletion_timestamp is None:
            return  # it ended under an earlier agent and left nothing here
        runtime = PodRuntime(
            self._machine,
            self._reader,
            pod,
            self._capacity,
            lambda event: worker.sandbox_event(event),  # noqa: PLW0108 - defined below
        )
        events = PodEvents(self._recorder, pod)
        if runtime.dns_error:
            events.record(DNS_UNAVAILABLE, runtime.dns_error)
        worker = PodWorker(pod, runtime, self._client, self._clock, events)
        self._workers[uid] = worker
        task = asyncio.create_task(self._work(worker), name=f"pod {pod.metadata.key}")
        self._tasks[uid] = task

    async def _work(self, worker: PodWorker) -> None:
        uid = worker.pod.metadata.uid
        try:
            await worker.run()
        except Exception:
            # A bug with one Pod must not stop the others. The Pod's next change starts a new worker.
            log.exception("the worker of Pod %s failed", worker.pod.metadata.key)
        finally:
            self._workers.pop(uid, None)
            self._tasks.pop(uid, None)

    def _lose_node(self, name: str) -> None:
        self._lost.add(name)
        for worker in self._workers.values():
            if worker.pod.spec.node_name == name:
                worker.lose_node()

    def _restore_node(self, name: str) -> None:
        self._lost.discard(name)
        for pod in self._pods.all():
            if pod.spec.node_name == name:
                self._pod_changed(None, pod)

    async def _refresh_volumes(self) -> None:
        """Bring changed ConfigMaps, Secrets and new tokens to running Pods within a minute."""
        while True:
            await asyncio.sleep(_REFRESH_SECONDS)
            for worker in tuple(self._workers.values()):
                await worker.refresh_volumes()

    async def _watch_network(self) -> None:
        await self._machine.launcher.lost.wait()
        raise NetworkLost

    async def _stop(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._machine.close()
