"""The scheduling loop: one task tries the Pods without a node, by priority, then by age.

A decision counts in the cache at once; bindings are sent concurrently. A Pod that fits nowhere gets
an Event for each new reason, and is tried again when a node changes or a Pod ends. Pods with the same
requirements are tried once per pass.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from manta.api.meta import Key, Uid
from manta.api.resources import NODES, PODS
from manta.api.times import format_time
from manta.kube.errors import MantaError
from manta.localplane.builtin.views import Node, Pod, as_json
from manta.localplane.scheduler.node_cache import NodeCache, PodInfo, pod_info
from manta.localplane.scheduler.placement import NoFit, Placement, place
from manta.localplane.scheduler.preemption import Preemption, preempt
from manta.runtime.manager import Manager
from manta.runtime.recorder import ObjectReference

log = logging.getLogger(__name__)

NAME = "default-scheduler"
BINDINGS_AT_ONCE = 32
RETRY_SECONDS = 1.0
"""After a failed write: by then the watch shows what happened to the Pod."""


class Scheduler:
    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._cache = NodeCache()
        self._waiting: dict[Uid, Pod] = {}
        """Pods to try in the next pass."""
        self._unschedulable: dict[Uid, Pod] = {}
        """Pods that fit nowhere, to try when a node changes or a Pod ends."""
        self._reported: dict[Uid, str] = {}
        self._nominated: dict[Uid, str] = {}
        """The nodes where Pods are preempted for an unschedulable Pod."""
        self._wake = asyncio.Event()
        self._start = 0
        self._slots = asyncio.Semaphore(BINDINGS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._pods = manager.informer(PODS, Pod)
        self._nodes = manager.informer(NODES, Node)
        self._pods.add_handler(self._pod_changed)
        self._nodes.add_handler(self._node_changed)

    # ── watch events ─────────────────────────────────────────────────────────────────────
    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._forget(old.metadata.uid)
            return
        uid = new.metadata.uid
        if new.is_terminal or (new.is_deleting and not new.spec.node_name):
            self._forget(uid)
        elif new.spec.node_name:
            resized = old is not None and old.spec.containers != new.spec.containers
            self._assigned(new, resized=resized)
        elif _is_ours(new) and self._cache.node_of(uid) is None and not _same_key(old, new):
            self._unschedulable.pop(uid, None)
            self._waiting[uid] = new
            self._wake.set()
        elif uid in self._unschedulable:
            self._unschedulable[uid] = new

    def _assigned(self, pod: Pod, *, resized: bool) -> None:
        """Count a Pod that was bound, by this scheduler or another one."""
        uid = pod.metadata.uid
        self._drop(uid)
        if resized or self._cache.node_of(uid) != pod.spec.node_name:
            self._cache.place(pod, pod.spec.node_name)

    def _forget(self, uid: Uid) -> None:
        self._drop(uid)
        if self._cache.release(uid):
            self._retry_unschedulable()

    def _drop(self, uid: Uid) -> None:
        self._waiting.pop(uid, None)
        self._unschedulable.pop(uid, None)
        self._reported.pop(uid, None)
        self._nominated.pop(uid, None)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._cache.remove_node(old.name)
            return
        if old is not None and _node_key(old) == _node_key(new):
            return
        self._cache.set_node(new)
        self._retry_unschedulable()

    def _retry_unschedulable(self) -> None:
        self._waiting |= self._unschedulable
        self._unschedulable.clear()
        if self._waiting:
            self._wake.set()

    # ── the loop ─────────────────────────────────────────────────────────────────────────
    async def run(self) -> None:
        await self._nodes.synced.wait()
        await self._pods.synced.wait()
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._pass()
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pass(self) -> None:
        """Try every waiting Pod once, with the nominated nodes of unschedulable Pods reserved."""
        nominated = {
            uid: (pod, self._nominated[uid])
            for uid, pod in self._unschedulable.items()
            if uid in self._nominated
        }
        for pod, node in nominated.values():
            self._cache.reserve(pod, node)
        try:
            await self._try_all(sorted(self._waiting.values(), key=_queue_order), nominated)
        finally:
            for pod, node in nominated.values():
                self._cache.unreserve(pod, node)

    async def _try_all(self, queue: list[Pod], nominated: dict[Uid, tuple[Pod, str]]) -> None:
        unfit: dict[Any, NoFit] = {}
        for count, pod in enumerate(queue):
            uid = pod.metadata.uid
            if self._waiting.pop(uid, None) is None:
                continue
            nodes, key = self._cache.nodes(), _pod_key(pod)
            start = self._start % max(1, len(nodes))
            answer = unfit.get(key) or place(pod_info(pod), nodes, start)
            self._start += 1
            if isinstance(answer, Placement):
                self._cache.place(pod, answer.node)
                self._spawn(self._bind(pod, answer.node))
            else:
                unfit[key] = answer
                await self._reject(pod_info(pod), answer)
                if node := self._nominated.get(uid):
                    nominated[uid] = (pod, node)
                    self._cache.reserve(pod, node)
            if count % 64 == 63:
                await asyncio.sleep(0)  # let the API server run in between

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ── writing ──────────────────────────────────────────────────────────────────────────
    async def _bind(self, pod: Pod, node: str) -> None:
        meta = pod.metadata
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            async with self._slots:
                await self._manager.client.create(
                    PODS, meta.namespace, body, subresource=(meta.name, "binding")
                )
        except MantaError as error:
            # Mostly the Pod is deleted, replaced or bound already; the watch will show it.
            log.debug("binding %s to %s failed: %s", meta.key, node, error)
            self._cache.release(meta.uid)
            await self._retry_later(meta.key)
        else:
            note = f"Successfully assigned {meta.key} to {node}"
            self._record(pod, "Normal", "Scheduled", "Binding", note)

    async def _retry_later(self, key: Key) -> None:
        await asyncio.sleep(RETRY_SECONDS)
        pod = self._pods.get(key)
        if pod is not None and pod.is_active and not pod.spec.node_name and _is_ours(pod):
            self._unschedulable.pop(pod.metadata.uid, None)
            self._waiting[pod.metadata.uid] = pod
            self._wake.set()

    async def _reject(self, one: PodInfo, no_fit: NoFit) -> None:
        """Report why the Pod stays Pending, and preempt Pods of lower priority for it."""
        pod = one.pod
        uid = pod.metadata.uid
        self._unschedulable[uid] = pod
        preemption = preempt(one, no_fit, self._cache.nodes())
        message = no_fit.message()
        if isinstance(preemption, Preemption):
            self._nominated[uid] = preemption.node
            await self._evict(pod, preemption)
        elif no_fit.reasons and preemption.message:
            message = f"{message} {preemption.message}"
        if self._reported.get(uid) == message:
            return
        self._reported[uid] = message
        self._record(pod, "Warning", "FailedScheduling", "Scheduling", message)
        nominated = preemption.node if isinstance(preemption, Preemption) else ""
        self._spawn(self._report_unschedulable(pod, message, nominated))

    async def _report_unschedulable(self, pod: Pod, message: str, nominated: str) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "observedGeneration": pod.metadata.generation,
            "lastTransitionTime": _since(pod, format_time(self._manager.clock.now())),
        }
        others = [one for one in pod.status.conditions or () if one.type != "PodScheduled"]
        status: dict[str, Any] = {"conditions": [*as_json(others), condition]}
        if nominated:
            status["nominatedNodeName"] = nominated
        guard = {"uid": pod.metadata.uid, "resourceVersion": pod.metadata.resource_version}
        try:
            async with self._slots:
                await self._manager.client.patch(
                    PODS,
                    pod.metadata.key,
                    {"metadata": guard, "status": status},
                    subresource="status",
                )
        except MantaError as error:
            # Mostly the Pod was changed meanwhile: report again with its new state.
            log.debug("cannot report why %s is not scheduled: %s", pod.metadata.key, error)
            self._reported.pop(pod.metadata.uid, None)
            await self._retry_later(pod.metadata.key)

    async def _evict(self, pod: Pod, preemption: Preemption) -> None:
        for victim in preemption.victims:
            note = f"Preempted by pod {pod.metadata.uid} on node {preemption.node}"
            self._record(victim, "Normal", "Preempted", "Preempting", note)
            try:
                await self._report_disruption(victim)
                await self._manager.client.delete(
                    PODS, victim.metadata.key, uid=victim.metadata.uid
                )
            except MantaError as error:
                log.warning("cannot preempt %s: %s", victim.metadata.key, error)

    async def _report_disruption(self, victim: Pod) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{NAME}: preempting to accommodate a higher priority pod",
            "observedGeneration": victim.metadata.generation,
            "lastTransitionTime": format_time(self._manager.clock.now()),
        }
        patch = {"status": {"conditions": [condition]}}
        await self._manager.client.patch(
            PODS, victim.metadata.key, patch, kind="strategic", subresource="status"
        )

    def _record(self, pod: Pod, type_: Any, reason: str, action: str, note: str) -> None:
        regarding = ObjectReference.to(PODS, pod.metadata)
        self._manager.recorder.event(regarding, type_, reason, action, note, controller=NAME)


def _is_ours(pod: Pod) -> bool:
    return pod.spec.scheduler_name == NAME and not pod.spec.scheduling_gates


def _same_key(old: Pod | None, new: Pod) -> bool:
    """Return whether only fields changed that scheduling ignores."""
    return old is not None and _pod_key(old) == _pod_key(new) and _is_ours(old)


def _pod_key(pod: Pod) -> Any:
    """Return the fields that placement reads, to compare Pods."""
    spec = pod.spec
    return (
        spec.priority,
        repr(spec.node_selector),
        repr(spec.tolerations),
        repr(spec.affinity),
        repr([one.resources for one in (*spec.containers, *(spec.init_containers or ()))]),
        repr([one.ports for one in spec.containers]),
        repr(pod.metadata.labels) if spec.affinity else "",
        pod.metadata.namespace if spec.affinity else "",
    )


def _queue_order(pod: Pod) -> tuple[int, str, str]:
    return -pod.spec.priority, pod.metadata.creation_timestamp, pod.metadata.name


def _node_key(node: Node) -> tuple[Any, ...]:
    """Return the fields of a node that placement reads, without heartbeats."""
    return node.spec, node.status.allocatable, node.status.capacity, node.metadata.labels


def _since(pod: Pod, now: str) -> str:
    condition = pod.condition("PodScheduled")
    if condition and condition.status == "False" and condition.last_transition_time:
        return condition.last_transition_time
    return now
