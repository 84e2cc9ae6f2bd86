"""The fake kubelets tied to the API: one controller for the Pods of all fake nodes.

The work queue is the one heap of timers for thousands of Pods; each transition is one write. Tests
may interfere: end or evict a Pod, change what Pods with certain labels do, lose a node.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any

from manta.api.meta import Key, ObjectMeta
from manta.api.resources import LEASES, NODES, PODS, Resource
from manta.api.selectors import LabelSelector, parse_label_selector
from manta.api.times import format_micro_time, format_time
from manta.kube.errors import AlreadyExists, MantaError, NotFound
from manta.localplane.builtin.shell import Builtin
from manta.localplane.builtin.views import Node, Pod, Resources
from manta.localplane.fakenodes import machines
from manta.localplane.fakenodes.addresses import Addresses
from manta.localplane.fakenodes.life import (
    STARTED,
    Life,
    Move,
    Stage,
    first_life,
    next_move,
    stage_after,
)
from manta.localplane.fakenodes.machines import FakeNodeOptions
from manta.localplane.fakenodes.script import ANNOTATION, Ending, Script, ScriptError, parse
from manta.localplane.fakenodes.status import Place, next_status
from manta.reconcile.actions import Delete, Patch
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.runtime.controller import Watch
from manta.runtime.manager import Manager

log = logging.getLogger(__name__)

KILLED = Ending(0, 143, "Error")
"""What ends the containers of a Pod that is told to go."""

RESOLUTION = 0.001
"""Sums of floats miss a timer by less than this."""


class Cause(StrEnum):
    LIFE = "the fake Pod's life goes on"
    GONE = "the fake Pod has ended and was told to go"


@dataclass(frozen=True, slots=True)
class PodScene:
    pod: Pod
    life: Life
    move: Move | None
    place: Place
    now: float


class FakeNodes(Builtin[PodScene]):
    name = "fake-kubelet"
    workers = 16

    def __init__(self, manager: Manager, options: FakeNodeOptions) -> None:
        self.options = options
        self._names = {name: index for index, name in enumerate(options.names())}
        self._lost: set[str] = set()
        self._lives: dict[str, Life] = {}
        self._forced: dict[str, Move] = {}
        self._sizes: dict[str, tuple[Resources | None, ...]] = {}
        """The resources of the containers as they were last told."""
        self._rules: list[tuple[LabelSelector, str]] = []
        self._addresses = Addresses()
        super().__init__(manager)
        manager.add_service("fake nodes", self.run)

    # ── for tests ────────────────────────────────────────────────────────────────────────
    def script(self, labels: str, text: str) -> None:
        """From now on Pods that match the label selector do this; later rules win."""
        parse(text, self.options.script)
        self._rules.append((parse_label_selector(labels), text))
        self._look_at(self._pods.all())

    def end(self, key: Key, code: int = 1, reason: str = "", container: str = "") -> None:
        """The containers of a Pod end now."""
        pod = self._pod(key)
        ending = Ending(0, code, reason, container)
        partly = bool(container) and len(pod.spec.containers) > 1
        stage = Stage.PARTLY_ENDED if partly else stage_after(pod, ending)
        self._force(pod, stage, ending)

    def kill_for_memory(self, key: Key) -> None:
        self.end(key, 137, "OOMKilled")

    def evict(self, key: Key) -> None:
        self._force(self._pod(key), Stage.EVICTED, None)

    def lose(self, node: str) -> None:
        """The node falls silent: no heartbeat, and nothing happens to its Pods."""
        self._lost.add(node)

    def recover(self, node: str) -> None:
        self._lost.discard(node)
        self._look_at_all_on(node)

    def _pod(self, key: Key) -> Pod:
        pod = self._pods.get(key)
        if pod is None or pod.spec.node_name not in self._names:
            raise LookupError(f"Pod {key} is not on a fake node")
        return pod

    def _force(self, pod: Pod, stage: Stage, ended: Ending | None) -> None:
        life = self._lives.get(pod.metadata.uid)
        move = Move(stage, 0.0, life.starts if life else 0, ended)
        self._forced[pod.metadata.uid] = move
        self.controller.enqueue(pod.metadata.key)

    def _look_at(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.controller.enqueue(pod.metadata.key)

    def _look_at_all_on(self, node: str) -> None:
        self._look_at(pod for pod in self._pods.all() if pod.spec.node_name == node)

    # ── the rooms ────────────────────────────────────────────────────────────────────────
    def watches(self) -> Sequence[Watch[Any]]:
        self._pods = self.manager.informer(PODS, Pod)
        self._nodes = self.manager.informer(NODES, Node)
        return (Watch(self._pods, self._keys),)

    def _keys(self, old: Pod | None, new: Pod | None) -> Iterable[Key]:
        if new is None:
            if old is not None:
                self._forget(old.metadata.uid)
            return ()
        if new.spec.node_name not in self._names:
            return ()
        self._addresses.note(new)
        known = old is not None and old.spec.node_name == new.spec.node_name
        # What we wrote ourselves brings the Pod to its next stage; news of others matter only
        # when somebody wants it gone, has changed its script, or has called it not ready.
        return (new.metadata.key,) if not known or _differs(old, new) else ()

    def _forget(self, uid: str) -> None:
        self._lives.pop(uid, None)
        self._forced.pop(uid, None)
        self._sizes.pop(uid, None)
        self._addresses.forget(uid)

    async def observe(self, key: Key) -> PodScene | None:
        pod = self._pods.get(key)
        if pod is None or pod.spec.node_name not in self._names or self._is_lost(pod):
            return None
        now = self.manager.clock.monotonic()
        life = self._life(pod, now)
        forced = self._forced.get(pod.metadata.uid) or self._resize(pod, life) or _vouch(pod, life)
        move = forced or next_move(pod, life, self._script_of(pod), now)
        index = self._names[pod.spec.node_name]
        host = machines.host_ip(index)
        own = host if pod.spec.host_network else self._address(pod.metadata.uid)
        stamp = format_time(self.manager.clock.now())
        return PodScene(pod, life, move, Place(host, own, stamp), now)

    def _address(self, uid: str) -> str:
        return self.options.pod_ip or self._addresses.of(uid)

    def _is_lost(self, pod: Pod) -> bool:
        return pod.spec.node_name in self._lost

    def _life(self, pod: Pod, now: float) -> Life:
        uid = pod.metadata.uid
        life = self._lives.get(uid) or first_life(pod, now)
        if pod.is_deleting and not life.stopping:
            life = replace(life, stopping=True, since=now)
        self._lives[uid] = life
        return life

    def _resize(self, pod: Pod, life: Life) -> Move | None:
        """A running Pod that was resized says that it has the new size, at once."""
        told = self._sizes.get(pod.metadata.uid)
        if pod.is_deleting or life.stage not in STARTED or told in (None, _sizes(pod)):
            return None
        return Move(life.stage, 0.0, life.starts, life.ended, again=True)

    def _script_of(self, pod: Pod) -> Script:
        owner = pod.metadata.controller
        defaults = self.options.script
        if owner is not None and owner.kind == "Job":
            defaults = replace(defaults, endings=(Ending(self.options.job_seconds),))
        text = pod.metadata.annotations.get(ANNOTATION, "")
        for selector, rule in self._rules:
            if selector.matches(pod.metadata.labels):
                text = rule
        try:
            return parse(text, defaults)
        except ScriptError as error:
            log.warning("Pod %s: %s", pod.metadata.key, error)
            return defaults

    def plan(self, seen: PodScene) -> Plan:
        return plan(seen)

    def subject(self, seen: PodScene) -> tuple[Resource, ObjectMeta]:
        return PODS, seen.pod.metadata

    async def report(self, seen: PodScene, plan: Plan, outcome: Outcome) -> bool:
        """Remember what was done; the next stage begins now."""
        move = seen.move
        if not plan.stages or outcome.failure or move is None:
            return False
        uid = seen.pod.metadata.uid
        self._forced.pop(uid, None)
        self._sizes[uid] = _sizes(seen.pod)
        now = seen.life.since if move.again else self.manager.clock.monotonic()
        self._lives[uid] = Life(
            move.stage, now, move.starts, move.ended, stopping=seen.life.stopping
        )
        self.controller.enqueue(seen.pod.metadata.key)
        return True

    # ── the nodes themselves ─────────────────────────────────────────────────────────────
    async def run(self) -> None:
        """Register all nodes, then keep renewing their Leases."""
        await self._nodes.synced.wait()
        for name in self._names:
            await self._register(name)
        while True:
            await asyncio.sleep(self.options.heartbeat)
            for name in self._names:
                if name not in self._lost:
                    await self._beat(name)

    async def _register(self, name: str) -> None:
        now = format_time(self.manager.clock.now())
        manifest = machines.node_manifest(self.options, self._names[name], now)
        try:
            with contextlib.suppress(AlreadyExists):
                await self.client.create(NODES, "", manifest)
            await self._say_ready(name)
        except MantaError as error:
            log.warning("fake node %s cannot register: %s", name, error)
        await self._beat(name)

    async def _beat(self, name: str) -> None:
        """Renew the Lease; a node that was given up for lost says that it is back."""
        renewal = {"spec": {"renewTime": format_micro_time(self.manager.clock.now())}}
        node = self._nodes.get(Key("", name))
        try:
            try:
                await self.client.patch(LEASES, Key(machines.LEASE_NAMESPACE, name), renewal)
            except NotFound:
                await self._create_lease(name)
            if node is not None and node.ready is not None and node.ready.status != "True":
                await self._say_ready(name)
                self._look_at_all_on(name)
        except MantaError as error:
            log.warning("fake node %s cannot renew its lease: %s", name, error)

    async def _create_lease(self, name: str) -> None:
        node = await self.client.get(NODES, Key("", name), into=Node)
        now = format_micro_time(self.manager.clock.now())
        lease = machines.lease_manifest(name, node.metadata.uid, now)
        await self.client.create(LEASES, machines.LEASE_NAMESPACE, lease)

    async def _say_ready(self, name: str) -> None:
        now = format_time(self.manager.clock.now())
        status = machines.node_status(self.options, self._names[name], now)
        await self.client.patch(NODES, Key("", name), {"status": status}, subresource="status")


def _vouch(pod: Pod, life: Life) -> Move | None:
    """Whoever gave up the node has called its Pods not ready; those that are say so again."""
    contained = pod.condition("ContainersReady")
    if pod.is_deleting or pod.is_ready or contained is None or contained.status != "True":
        return None
    if life.stage is not Stage.READY:
        return None
    return Move(life.stage, 0.0, life.starts, life.ended, again=True)


def plan(seen: PodScene) -> Plan:
    """Carry out the move that is due, or wait for it. Pure."""
    move, pod = seen.move, seen.pod
    if move is None:
        return NOTHING
    if (left := move.at - seen.now) > RESOLUTION:
        return Plan(wait=Wait(f"until the Pod is {move.stage.name}", timedelta(seconds=left)))
    meta = pod.metadata
    if move.stage is not Stage.STOPPED:
        return do(_write(seen, move))
    gone = do(Delete(PODS, meta.key, meta.uid, Cause.GONE, grace_seconds=0))
    if pod.is_terminal or not meta.finalizers:
        return gone
    # Somebody waits for the end of this Pod: it is told before the object goes.
    return do(_write(seen, replace(move, stage=Stage.FAILED, ended=KILLED))).then(gone)


def _write(seen: PodScene, move: Move) -> Patch:
    meta = seen.pod.metadata
    status = next_status(seen.pod, seen.life, move, seen.place)
    return Patch(
        PODS,
        meta.key,
        {"status": status},
        Cause.LIFE,
        subresource="status",
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def _sizes(pod: Pod) -> tuple[Resources | None, ...]:
    return tuple(one.resources for one in pod.spec.containers)


def _differs(old: Pod | None, new: Pod) -> bool:
    if old is None or _sizes(old) != _sizes(new) or (old.is_ready and not new.is_ready):
        return True
    return old.is_deleting != new.is_deleting or old.metadata.annotations.get(
        ANNOTATION
    ) != new.metadata.annotations.get(ANNOTATION)
