"""One controller for the Pods of all fake nodes.

The work queue holds the timers of all Pods; each transition is one write. Tests can interfere: end or
evict a Pod, set the script of Pods by label, make a node unreachable.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from manta.api.meta import Key
from manta.api.resources import LEASES, NODES, PODS
from manta.api.selectors import LabelSelector, parse_label_selector
from manta.api.times import format_micro_time, format_time
from manta.api.well_known import ANNOTATION_FAKE_SCRIPT
from manta.kube.errors import AlreadyExists, MantaError, NotFound
from manta.localplane.builtin.views import Node, Pod, Resources
from manta.localplane.fakenodes import node_status
from manta.localplane.fakenodes.options import FakeNodeOptions
from manta.localplane.fakenodes.pod_addresses import PodAddresses
from manta.localplane.fakenodes.pod_lifecycle import (
    STARTED,
    PodState,
    Stage,
    Transition,
    initial_state,
    next_transition,
    stage_after,
)
from manta.localplane.fakenodes.pod_status import Placement, next_status
from manta.localplane.fakenodes.script import Exit, Script, ScriptError, parse
from manta.localplane.kubelet import LEASE_NAMESPACE, lease_manifest
from manta.reconcile.actions import Delete, Patch
from manta.reconcile.causes import ONLY_FAILURES, ActionCause
from manta.reconcile.outcome import Outcome
from manta.reconcile.plan import NOTHING, Plan, Wait, do
from manta.reconcile.reconciler import Reconciler, Subject
from manta.reconcile.step import Step
from manta.runtime.controller import Watch
from manta.runtime.manager import Manager

log = logging.getLogger(__name__)

KILLED = Exit(0, 143, "Error")
"""How the containers of a deleted Pod end."""

RESOLUTION = 0.001
"""Seconds by which float sums may miss a timer."""


class Cause(ActionCause):
    TRANSITION = ONLY_FAILURES, "the fake Pod changes its stage"
    DELETED = ONLY_FAILURES, "the fake Pod has ended and was deleted"


@dataclass(frozen=True, slots=True)
class PodSnapshot:
    pod: Pod
    state: PodState
    transition: Transition | None
    placement: Placement
    now: float


class FakeNodes(Reconciler[PodSnapshot, Any]):
    name = "fake-kubelet"
    workers = 16

    def __init__(self, manager: Manager, options: FakeNodeOptions) -> None:
        self.options = options
        self._names = {name: index for index, name in enumerate(options.names())}
        self._disconnected: set[str] = set()
        self._states: dict[str, PodState] = {}
        self._forced: dict[str, Transition] = {}
        self._sizes: dict[str, tuple[Resources | None, ...]] = {}
        """UID -> the container resources that the status last showed."""
        self._rules: list[tuple[LabelSelector, str]] = []
        self._addresses = PodAddresses()
        super().__init__(manager)
        manager.add_service("fake nodes", self.run)

    # ── for tests ────────────────────────────────────────────────────────────────────────
    def script(self, labels: str, text: str) -> None:
        """Set the script of Pods that match the label selector; later rules win. Raises ScriptError."""
        parse(text, self.options.script)
        self._rules.append((parse_label_selector(labels), text))
        self._enqueue(self._pods.all())

    def end(self, key: Key, code: int = 1, reason: str = "", container: str = "") -> None:
        """End the containers of a Pod now. Raises LookupError for a Pod that is not on a fake node."""
        pod = self._pod(key)
        exit_ = Exit(0, code, reason, container)
        partly = bool(container) and len(pod.spec.containers) > 1
        stage = Stage.PARTLY_ENDED if partly else stage_after(pod, exit_)
        self._force(pod, stage, exit_)

    def oom_kill(self, key: Key) -> None:
        self.end(key, 137, "OOMKilled")

    def evict(self, key: Key) -> None:
        self._force(self._pod(key), Stage.EVICTED, None)

    def disconnect(self, node: str) -> None:
        """Make the node unreachable: no heartbeat, and no transition of its Pods."""
        self._disconnected.add(node)

    def reconnect(self, node: str) -> None:
        self._disconnected.discard(node)
        self._enqueue_pods_of(node)

    def _pod(self, key: Key) -> Pod:
        pod = self._pods.get(key)
        if pod is None or pod.spec.node_name not in self._names:
            raise LookupError(f"Pod {key} is not on a fake node")
        return pod

    def _force(self, pod: Pod, stage: Stage, ended: Exit | None) -> None:
        state = self._states.get(pod.metadata.uid)
        transition = Transition(stage, 0.0, state.restarts if state else 0, ended)
        self._forced[pod.metadata.uid] = transition
        self.controller.enqueue(pod.metadata.key)

    def _enqueue(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self.controller.enqueue(pod.metadata.key)

    def _enqueue_pods_of(self, node: str) -> None:
        self._enqueue(pod for pod in self._pods.all() if pod.spec.node_name == node)

    # ── reconcile ────────────────────────────────────────────────────────────────────────
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
        self._addresses.reserve(new)
        known = old is not None and old.spec.node_name == new.spec.node_name
        # Our own writes move the Pod to its next stage. A write of another client matters only if
        # it deletes the Pod, resizes it, changes its script or sets it to not ready.
        return (new.metadata.key,) if not known or _differs(old, new) else ()

    def _forget(self, uid: str) -> None:
        self._states.pop(uid, None)
        self._forced.pop(uid, None)
        self._sizes.pop(uid, None)
        self._addresses.release(uid)

    async def observe(self, key: Key) -> PodSnapshot | None:
        pod = self._pods.get(key)
        if pod is None or pod.spec.node_name not in self._names or self._is_disconnected(pod):
            return None
        now = self.manager.clock.monotonic()
        state = self._state_of(pod, now)
        forced = (
            self._forced.get(pod.metadata.uid)
            or self._resize(pod, state)
            or _restore_ready(pod, state)
        )
        transition = forced or next_transition(pod, state, self._script_of(pod), now)
        index = self._names[pod.spec.node_name]
        host = node_status.host_ip(index)
        own = host if pod.spec.host_network else self._address(pod.metadata.uid)
        stamp = format_time(self.manager.clock.now())
        return PodSnapshot(pod, state, transition, Placement(host, own, stamp), now)

    def _address(self, uid: str) -> str:
        return self.options.pod_ip or self._addresses.allocate(uid)

    def _is_disconnected(self, pod: Pod) -> bool:
        return pod.spec.node_name in self._disconnected

    def _state_of(self, pod: Pod, now: float) -> PodState:
        uid = pod.metadata.uid
        state = self._states.get(uid) or initial_state(pod, now)
        if pod.is_deleting and not state.stopping:
            state = replace(state, stopping=True, since=now)
        self._states[uid] = state
        return state

    def _resize(self, pod: Pod, state: PodState) -> Transition | None:
        """A running Pod that was resized shows its new size at once."""
        shown = self._sizes.get(pod.metadata.uid)
        if pod.is_deleting or state.stage not in STARTED or shown in (None, _sizes(pod)):
            return None
        return Transition(state.stage, 0.0, state.restarts, state.ended, status_only=True)

    def _script_of(self, pod: Pod) -> Script:
        owner = pod.metadata.controller
        defaults = self.options.script
        if owner is not None and owner.kind == "Job":
            defaults = replace(defaults, exits=(Exit(self.options.job_seconds),))
        text = pod.metadata.annotations.get(ANNOTATION_FAKE_SCRIPT, "")
        for selector, rule in self._rules:
            if selector.matches(pod.metadata.labels):
                text = rule
        try:
            return parse(text, defaults)
        except ScriptError as error:
            log.warning("Pod %s: %s", pod.metadata.key, error)
            return defaults

    def plan(self, snapshot: PodSnapshot) -> Step[Any]:
        return Step(plan(snapshot))

    def subject(self, snapshot: PodSnapshot) -> Subject:
        return Subject(PODS, snapshot.pod.metadata)

    def remember(self, snapshot: PodSnapshot, outcome: Outcome, _: object) -> None:
        """Record the transition that was written; the next stage begins now."""
        transition = snapshot.transition
        if transition is None or not outcome.done or outcome.failure:
            return
        uid = snapshot.pod.metadata.uid
        self._forced.pop(uid, None)
        self._sizes[uid] = _sizes(snapshot.pod)
        now = snapshot.state.since if transition.status_only else self.manager.clock.monotonic()
        self._states[uid] = PodState(
            transition.stage,
            now,
            transition.restarts,
            transition.ended,
            stopping=snapshot.state.stopping,
        )
        self.controller.enqueue(snapshot.pod.metadata.key)

    # ── the nodes themselves ─────────────────────────────────────────────────────────────
    async def run(self) -> None:
        """Register all nodes, then renew their Leases until cancelled."""
        await self._nodes.synced.wait()
        for name in self._names:
            await self._register(name)
        while True:
            await asyncio.sleep(self.options.heartbeat)
            for name in self._names:
                if name not in self._disconnected:
                    await self._heartbeat(name)

    async def _register(self, name: str) -> None:
        now = format_time(self.manager.clock.now())
        manifest = node_status.node_manifest(self.options, self._names[name], now)
        try:
            with contextlib.suppress(AlreadyExists):
                await self.client.create(NODES, "", manifest)
            await self._set_ready(name)
        except MantaError as error:
            log.warning("fake node %s cannot register: %s", name, error)
        await self._heartbeat(name)

    async def _heartbeat(self, name: str) -> None:
        """Renew the Lease. A node that the controllers have marked not ready becomes Ready again."""
        renewal = {"spec": {"renewTime": format_micro_time(self.manager.clock.now())}}
        node = self._nodes.get(Key("", name))
        try:
            try:
                await self.client.patch(LEASES, Key(LEASE_NAMESPACE, name), renewal)
            except NotFound:
                await self._create_lease(name)
            if node is not None and node.ready is not None and node.ready.status != "True":
                await self._set_ready(name)
                self._enqueue_pods_of(name)
        except MantaError as error:
            log.warning("fake node %s cannot renew its lease: %s", name, error)

    async def _create_lease(self, name: str) -> None:
        node = await self.client.get(NODES, Key("", name), into=Node)
        now = format_micro_time(self.manager.clock.now())
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
        await self.client.create(LEASES, LEASE_NAMESPACE, lease_manifest(name, now, (owner,)))

    async def _set_ready(self, name: str) -> None:
        now = format_time(self.manager.clock.now())
        status = node_status.node_status(self.options, self._names[name], now)
        await self.client.patch(NODES, Key("", name), {"status": status}, subresource="status")


def _restore_ready(pod: Pod, state: PodState) -> Transition | None:
    """Sets a Pod Ready again that the node lifecycle controller has set to not ready."""
    contained = pod.condition("ContainersReady")
    if pod.is_deleting or pod.is_ready or contained is None or contained.status != "True":
        return None
    if state.stage is not Stage.READY:
        return None
    return Transition(state.stage, 0.0, state.restarts, state.ended, status_only=True)


def plan(snapshot: PodSnapshot) -> Plan:
    """Write the transition that is due, or wait for it. Pure."""
    transition, pod = snapshot.transition, snapshot.pod
    if transition is None:
        return NOTHING
    if (remaining := transition.at - snapshot.now) > RESOLUTION:
        return Plan(
            wait=Wait(f"until the Pod is {transition.stage.name}", timedelta(seconds=remaining))
        )
    meta = pod.metadata
    if transition.stage is not Stage.STOPPED:
        return do(_write(snapshot, transition))
    delete = do(Delete(PODS, meta.key, meta.uid, Cause.DELETED, grace_seconds=0))
    if pod.is_terminal or not meta.finalizers:
        return delete
    # A finalizer waits for the end of this Pod: write it before the object is deleted.
    return do(_write(snapshot, replace(transition, stage=Stage.FAILED, ended=KILLED))).then(delete)


def _write(snapshot: PodSnapshot, transition: Transition) -> Patch:
    meta = snapshot.pod.metadata
    status = next_status(snapshot.pod, snapshot.state, transition, snapshot.placement)
    return Patch(
        PODS,
        meta.key,
        {"status": status},
        Cause.TRANSITION,
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
        ANNOTATION_FAKE_SCRIPT
    ) != new.metadata.annotations.get(ANNOTATION_FAKE_SCRIPT)
