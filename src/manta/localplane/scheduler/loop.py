"""The scheduler tied to the API: one task that works through the Pods that wait for a node.

Pods go by priority, then by age. A decision counts in the ledger at once, bindings are sent
concurrently. A Pod that fits nowhere is told why, once per reason, and tried again when a node
changes or a Pod leaves room; Pods that ask for the same thing are not tried twice in a pass.
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
from manta.localplane.scheduler.ledger import Ledger, Tenant, tenant
from manta.localplane.scheduler.placement import Chosen, Nowhere, place
from manta.localplane.scheduler.preemption import Eviction, make_room
from manta.runtime.manager import Manager
from manta.runtime.recorder import ObjectReference

log = logging.getLogger(__name__)

NAME = "default-scheduler"
BINDINGS_AT_ONCE = 32
RETRY_SECONDS = 1.0
"""After a write failed: by then the watch has told what happened to the Pod."""


class Scheduler:
    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._ledger = Ledger()
        self._waiting: dict[Uid, Pod] = {}
        """Pods without a node: to be tried in the next pass."""
        self._refused: dict[Uid, Pod] = {}
        """Pods that fit nowhere: to be tried when room appears."""
        self._said: dict[Uid, str] = {}
        self._nominated: dict[Uid, str] = {}
        """Where room is being made for a refused Pod."""
        self._wake = asyncio.Event()
        self._start = 0
        self._slots = asyncio.Semaphore(BINDINGS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._pods = manager.informer(PODS, Pod)
        self._nodes = manager.informer(NODES, Node)
        self._pods.add_handler(self._pod_changed)
        self._nodes.add_handler(self._node_changed)

    # ── what happens in the world ────────────────────────────────────────────────────────
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
            self._settle(new, resized=resized)
        elif _is_ours(new) and self._ledger.node_of(uid) is None and not _same_wish(old, new):
            self._refused.pop(uid, None)
            self._waiting[uid] = new
            self._wake.set()
        elif uid in self._refused:
            self._refused[uid] = new

    def _settle(self, pod: Pod, *, resized: bool) -> None:
        """A Pod is on a node: it was bound by us, or by somebody else."""
        uid = pod.metadata.uid
        self._drop(uid)
        if resized or self._ledger.node_of(uid) != pod.spec.node_name:
            self._ledger.place(pod, pod.spec.node_name)

    def _forget(self, uid: Uid) -> None:
        self._drop(uid)
        if self._ledger.release(uid):
            self._room_appeared()

    def _drop(self, uid: Uid) -> None:
        self._waiting.pop(uid, None)
        self._refused.pop(uid, None)
        self._said.pop(uid, None)
        self._nominated.pop(uid, None)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            if old is not None:
                self._ledger.remove_node(old.name)
            return
        if old is not None and _offer(old) == _offer(new):
            return
        self._ledger.set_node(new)
        self._room_appeared()

    def _room_appeared(self) -> None:
        self._waiting |= self._refused
        self._refused.clear()
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
        """Try every waiting Pod once. What is held for others is not given away meanwhile."""
        held = {
            uid: (pod, self._nominated[uid])
            for uid, pod in self._refused.items()
            if uid in self._nominated
        }
        for pod, node in held.values():
            self._ledger.reserve(pod, node)
        try:
            await self._try_all(sorted(self._waiting.values(), key=_urgency), held)
        finally:
            for pod, node in held.values():
                self._ledger.unreserve(pod, node)

    async def _try_all(self, queue: list[Pod], held: dict[Uid, tuple[Pod, str]]) -> None:
        hopeless: dict[Any, Nowhere] = {}
        for count, pod in enumerate(queue):
            uid = pod.metadata.uid
            if self._waiting.pop(uid, None) is None:
                continue
            loads, wish = self._ledger.loads(), _wish(pod)
            start = self._start % max(1, len(loads))
            answer = hopeless.get(wish) or place(tenant(pod), loads, start)
            self._start += 1
            if isinstance(answer, Chosen):
                self._ledger.place(pod, answer.node)
                self._spawn(self._bind(pod, answer.node))
            else:
                hopeless[wish] = answer
                await self._refuse(tenant(pod), answer)
                if node := self._nominated.get(uid):
                    held[uid] = (pod, node)
                    self._ledger.reserve(pod, node)
            if count % 64 == 63:
                await asyncio.sleep(0)  # a long queue must not hold up the server

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
            # Most often it is gone, replaced or bound already, which the watch will tell soon.
            log.debug("binding %s to %s failed: %s", meta.key, node, error)
            self._ledger.release(meta.uid)
            await self._try_again_later(meta.key)
        else:
            note = f"Successfully assigned {meta.key} to {node}"
            self._tell(pod, "Normal", "Scheduled", "Binding", note)

    async def _try_again_later(self, key: Key) -> None:
        await asyncio.sleep(RETRY_SECONDS)
        pod = self._pods.get(key)
        if pod is not None and pod.is_active and not pod.spec.node_name and _is_ours(pod):
            self._refused.pop(pod.metadata.uid, None)
            self._waiting[pod.metadata.uid] = pod
            self._wake.set()

    async def _refuse(self, one: Tenant, nowhere: Nowhere) -> None:
        """Say why the Pod stays Pending; make room for it if others matter less."""
        pod = one.pod
        uid = pod.metadata.uid
        self._refused[uid] = pod
        room = make_room(one, nowhere, self._ledger.loads())
        message = nowhere.message()
        if isinstance(room, Eviction):
            self._nominated[uid] = room.node
            await self._evict(pod, room)
        elif nowhere.reasons and room.message:
            message = f"{message} {room.message}"
        if self._said.get(uid) == message:
            return
        self._said[uid] = message
        self._tell(pod, "Warning", "FailedScheduling", "Scheduling", message)
        nominated = room.node if isinstance(room, Eviction) else ""
        self._spawn(self._say_unschedulable(pod, message, nominated))

    async def _say_unschedulable(self, pod: Pod, message: str, nominated: str) -> None:
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
            # Most often somebody else changed the Pod: it is told again from its new state.
            log.debug("cannot say why %s is not scheduled: %s", pod.metadata.key, error)
            self._said.pop(pod.metadata.uid, None)
            await self._try_again_later(pod.metadata.key)

    async def _evict(self, pod: Pod, room: Eviction) -> None:
        for victim in room.victims:
            note = f"Preempted by pod {pod.metadata.uid} on node {room.node}"
            self._tell(victim, "Normal", "Preempted", "Preempting", note)
            try:
                await self._say_disrupted(victim)
                await self._manager.client.delete(
                    PODS, victim.metadata.key, uid=victim.metadata.uid
                )
            except MantaError as error:
                log.warning("cannot preempt %s: %s", victim.metadata.key, error)

    async def _say_disrupted(self, victim: Pod) -> None:
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

    def _tell(self, pod: Pod, type_: Any, reason: str, action: str, note: str) -> None:
        regarding = ObjectReference.to(PODS, pod.metadata)
        self._manager.recorder.event(regarding, type_, reason, action, note, controller=NAME)


def _is_ours(pod: Pod) -> bool:
    return pod.spec.scheduler_name == NAME and not pod.spec.scheduling_gates


def _same_wish(old: Pod | None, new: Pod) -> bool:
    """Only its status or metadata changed: that is no reason to try again."""
    return old is not None and _wish(old) == _wish(new) and _is_ours(old)


def _wish(pod: Pod) -> Any:
    """What placement looks at, as a value to compare. Labels matter for affinity among Pods."""
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


def _urgency(pod: Pod) -> tuple[int, str, str]:
    return -pod.spec.priority, pod.metadata.creation_timestamp, pod.metadata.name


def _offer(node: Node) -> tuple[Any, ...]:
    """All of a node that placement looks at: heartbeats are not part of it."""
    return node.spec, node.status.allocatable, node.status.capacity, node.metadata.labels


def _since(pod: Pod, now: str) -> str:
    said = pod.condition("PodScheduled")
    if said is not None and said.status == "False" and said.last_transition_time:
        return said.last_transition_time
    return now
