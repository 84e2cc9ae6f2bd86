"""The simulated world: it runs a story, lets every oracle see every write, and waits until all is quiet."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any

import msgspec

from manta.api.meta import Key
from manta.api.ray.names import LEADER_LEASE_NAME
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import GATEWAYS, HTTP_ROUTES
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.kube.transport import Request
from manta.localplane.apiserver import watching
from manta.localplane.controllers import ControllerOptions, built_in_controllers
from manta.localplane.fakenodes.controller import FakeNodes
from manta.localplane.fakenodes.options import FakeNodeOptions
from manta.localplane.fakenodes.script import Script
from manta.reconcile import executor
from manta.reconcile.observer import Reconciled
from simulation.operators import Replica
from simulation.plane import ACTOR, ObservedStore, Written, new_app
from simulation.ray import JobScript, SimulatedRay
from simulation.story import Story, settings_from
from simulation.transport import Sent, SimulatedTransport
from support.rayservice import accepted
from support.virtual_time import run_virtual, virtual_clock

Object = dict[str, Any]
NAMESPACE = "default"
BOOKMARK_SECONDS = 140.0
"""Bookmarks of idle watches cost a quarter of a run; a watch without data for 150 s is given up."""
MOST_TURNS = 5000
"""Requests and reconciles in one virtual minute, by everybody."""
CLEANUP = "redis-cleanup"
PLAIN = {"head": "run", "worker": "run", CLEANUP: "exit=0@1"}
"""What Pods of each role do if nothing is wrong."""
AUTOSCALER_SECONDS = 5.0
"""Between two tries of Ray's autoscaler to change its RayCluster."""
AUTOSCALER_TRIES = 100
ACCEPT_SECONDS = 0.5
"""How long the Gateway controller takes to accept a Gateway or an HTTPRoute."""
ACCEPTED = {f"{one.plural}.{one.group}": one for one in (GATEWAYS, HTTP_ROUTES)}
UNWATCHED = ("leases.coordination.k8s.io",)
"""Written all the time by nodes; no oracle is about them."""


@dataclass(slots=True)
class Trace:
    """Everything that was written, in order: the text, and a hash of all of it."""

    lines: list[str] = field(default_factory=list)
    _hash: Any = field(default_factory=hashlib.sha256)

    def add(self, line: str, body: bytes = b"") -> None:
        self.lines.append(line)
        self._hash.update(line.encode() + b"\0" + body + b"\n")

    @property
    def digest(self) -> str:
        return str(self._hash.hexdigest())


class HotLoopError(BaseException):
    """Ends a task that runs in a loop: one that never waits would let nobody else run."""


class World:
    def __init__(self, story: Story) -> None:
        self.story = story
        self.random = Random(f"{story.seed}/world")
        self.clock = virtual_clock()
        self.app = new_app(self.clock, story.seed)
        store = self.app.store
        assert isinstance(store, ObservedStore)
        store.observer = self._observe
        self.store = store
        self.live: dict[str, dict[str, Object]] = {}
        """All objects, by resource and `namespace/name`."""
        self.trace = Trace()
        self.observers: list[Callable[[Written], None]] = []
        self.senders: list[Callable[[str, Sent], None]] = []
        self.user = Client(SimulatedTransport(self.app, "user", lambda: 0.0), timeout=30)
        self.others = Client(SimulatedTransport(self.app, "cluster", lambda: 0.0), timeout=30)
        """Of controllers that are neither ours nor Kubernetes' own."""
        self.nodes = self._start_nodes()
        self.ray = SimulatedRay(
            self._end_container,
            lambda namespace, name: self.background(self._first_worker(Key(namespace, name))),
            JobScript(story.job_seconds, story.job_status),
        )
        self.plain = PLAIN
        self.replicas = [self._replica(f"operator-{number}") for number in range(story.replicas)]
        self.problems: list[str] = []
        """What the simulation itself could not do."""
        self.tasks: list[asyncio.Task[Any]] = []
        self.refused: list[str] = []
        """What the API server refused the user."""
        self.causes: dict[str, int] = {}
        self.leader = ""
        """Who holds the lease of the operators, as the API server knows it."""
        self.paused = 0
        """How often an operator was suspended with its clock."""
        self.main: asyncio.Task[Any] | None = None
        self.hot = ""
        """The writer that writes so often that the simulation was given up."""
        self._minute = (0, 0)
        self.objects: dict[tuple[str, str], Object] = {}
        """What the user wants now: by kind and name."""
        self._stored: dict[tuple[str, str], Object] = {}
        """Ray objects as the server stored them last, also those that are gone: by resource and name."""
        self.foreign: list[Object] = []
        """What somebody else has created."""

    def _start_nodes(self) -> FakeNodes:
        transport = SimulatedTransport(self.app, "cluster", lambda: 0.0)
        transport.counted = self._count
        client = Client(transport, timeout=30)
        die = any(step.do in ("node_down", "node_gone") for step in self.story.steps)
        options = ControllerOptions(
            root_ca="PEM", random=Random(f"{self.story.seed}/cluster"), node_lifecycle=die
        )
        self.cluster = built_in_controllers(client, self.clock, options)
        nodes = FakeNodes(
            self.cluster,
            FakeNodeOptions(
                count=self.story.nodes,
                heartbeat=30.0 if die else 3600.0,
                cpu="16",
                script=Script(start=0.5),
                job_seconds=inf,  # `ray` ends a submitter when its job has ended
            ),
        )
        nodes.script(f"ray.io/node-type={CLEANUP}", PLAIN[CLEANUP])
        return nodes

    def _replica(self, name: str) -> Replica:
        elects = self.story.replicas > 1
        return Replica(
            name,
            self.app,
            self.ray,
            settings_from(self.story.settings),
            str(self.story.seed),
            elects,
            self.story.latency,
            reconciled=self._reconciled,
        )

    def _end_container(self, key: Key, code: int, container: str) -> None:
        try:
            self.nodes.end(key, code, container=container)
        except LookupError:
            return

    async def _first_worker(self, cluster: Key) -> None:
        """Ray's autoscaler gives Serve a worker, if the cluster has none: of its first group that may have one."""
        for _ in range(AUTOSCALER_TRIES):
            await asyncio.sleep(AUTOSCALER_SECONDS)
            found = self.live.get("rayclusters.ray.io", {}).get(str(cluster))
            if found is None or not (patch := _one_more(found["spec"])):
                return
            with contextlib.suppress(MantaError):  # it is refused, or something else changed it
                await self.others.patch(RAY_CLUSTERS, cluster, patch, kind="json")
                return

    # ── observing ────────────────────────────────────────────────────────────────────────

    def _observe(self, written: Written) -> None:
        meta = written.metadata
        if written.resource in UNWATCHED:
            if meta["name"] == LEADER_LEASE_NAME:
                self.leader = (written.object.get("spec") or {}).get("holderIdentity") or ""
            return
        key = f"{meta.get('namespace', '')}/{meta['name']}"
        table = self.live.setdefault(written.resource, {})
        self.trace.add(
            f"{written.at:.6f} {written.by} {written.type} {written.resource} {key}",
            msgspec.json.encode(written.object, order="deterministic"),
        )
        for observer in self.observers:
            observer(written)
        if written.type == "DELETED":
            table.pop(key, None)
        else:
            table[key] = written.object
        if written.resource.endswith(".ray.io"):
            self._stored[written.resource, meta["name"]] = written.object
        self.ray.see(written.type, written.resource, written.object)
        if written.resource in ACCEPTED and written.type == "ADDED":
            self.background(self._accept(written))

    async def _accept(self, written: Written) -> None:
        """What a Gateway controller does, which finds nothing wrong."""
        await asyncio.sleep(ACCEPT_SECONDS)
        resource, meta = ACCEPTED[written.resource], written.metadata
        body = {"status": accepted(resource, written.object)}
        key = Key(meta["namespace"], meta["name"])
        try:
            await self.others.patch(resource, key, body, subresource="status")
        except MantaError:
            return  # it is gone already

    def _count(self, actor: str, request: Request) -> None:
        self._turn(f"{actor} sends {request.method} {request.path} again and again")

    def _reconciled(self, actor: str, done: Reconciled) -> None:
        """A loop of reconciles may send nothing, and then no virtual time passes."""
        self._turn(f"{actor} reconciles {done.controller} {done.key} again and again")

    def _turn(self, what: str) -> None:
        """Give up when a minute has too many requests or reconciles: somebody runs in a loop."""
        minute, count = self._minute
        now = int(self.clock.monotonic() // 60)
        self._minute = (now, count + 1 if now == minute else 1)
        if count > MOST_TURNS and not self.hot and self.main is not None:
            self.hot = what
            self.main.cancel()
        if self.hot:
            raise HotLoopError(self.hot)

    def all(self, resource: str) -> list[Object]:
        return [one for _, one in sorted(self.live.get(resource, {}).items())]

    def events(self) -> list[tuple[str, str, str]]:
        """(reason, type, UID of the object) of every Event of a Ray controller."""
        return [
            (
                one.get("reason", ""),
                one.get("type", ""),
                (one.get("regarding") or one.get("involvedObject") or {}).get("uid", ""),
            )
            for one in self.all("events")
            if "ray" in str(one.get("reportingController") or one.get("reportingComponent"))
        ]

    def final_objects(self) -> list[Object]:
        """What the user wants in the end, with the specs that the server has of it: a CRD of an older release
        removes fields. A suspended cluster whose field was removed stays suspended, as in KubeRay."""
        found = []
        for key, wanted in sorted(self.objects.items()):
            stored = self._stored.get((f"{key[0].lower()}s.ray.io", key[1]), wanted)
            spec = dict(stored["spec"])
            if key[0] == "RayCluster" and spec.get("suspend") is None and _is_suspended(stored):
                spec["suspend"] = True
            found.append({**wanted, "spec": spec})
        return found

    def pods(self, node_type: str = "", cluster: str = "") -> list[Object]:
        """The Ray Pods, the oldest first."""
        found = []
        for pod in self.all("pods"):
            labels = pod["metadata"].get("labels") or {}
            if node_type in ("", labels.get("ray.io/node-type")) and cluster in (
                "",
                labels.get("ray.io/cluster"),
            ):
                found.append(pod)
        return sorted(found, key=lambda one: int(one["metadata"]["resourceVersion"]))

    # ── operators ────────────────────────────────────────────────────────────────────────

    def start(self, replica: Replica) -> None:
        if replica.life is None:
            life = replica.start()
            life.transport.counted = self._count
            life.transport.sent = lambda sent: self._sent(replica.name, sent)
            for hook in replica.on_start:
                hook(life)  # type: ignore[operator]

    def _sent(self, name: str, sent: Sent) -> None:
        for sender in self.senders:
            sender(name, sent)

    def restart_later(self, replica: Replica, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self.start, replica)

    # ── running ──────────────────────────────────────────────────────────────────────────

    async def begin(self) -> None:
        ACTOR.set("cluster")
        self.tasks.append(asyncio.create_task(self.cluster.run(), name="cluster"))
        await asyncio.sleep(1.0)
        for replica in self.replicas:
            self.start(replica)

    def background(self, work: Coroutine[Any, Any, Any]) -> None:
        self.tasks.append(asyncio.create_task(work))

    async def close(self) -> None:
        for replica in self.replicas:
            await replica.close()
        await self.ray.close()
        for task in self.tasks:
            if task.done() and not task.cancelled() and task.exception():
                self.problems.append(f"{task.get_name()} ended: {task.exception()!r}")
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.store.close()


def _one_more(spec: Object) -> list[Object]:
    """A patch that gives an autoscaled cluster without workers one worker."""
    groups = spec.get("workerGroupSpecs") or []
    if not spec.get("enableInTreeAutoscaling") or any(one.get("replicas") for one in groups):
        return []
    for number, one in enumerate(groups):
        if one.get("maxReplicas") != 0 and not one.get("suspend"):
            path = f"/workerGroupSpecs/{number}"
            return [
                {"op": "test", "path": f"/spec{path}/groupName", "value": one["groupName"]},
                {"op": "add", "path": f"/spec{path}/replicas", "value": 1},
            ]
    return []


def _is_suspended(cluster: Object) -> bool:
    conditions = (cluster.get("status") or {}).get("conditions") or ()
    return any(
        one["type"] == "RayClusterSuspended" and one["status"] == "True" for one in conditions
    )


class _Tokens:
    """Random secrets from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"{seed}/secrets")

    def token_urlsafe(self, size: int) -> str:
        return self._random.randbytes(size).hex()


def _count_causes(causes: dict[str, int]) -> Callable[[], None]:
    """Count the causes of all actions of Ray controllers. Returns what ends it."""
    real = executor.PlanExecutor._one

    async def one(self: Any, owner: Any, action: Any, call: Any) -> Any:
        module = type(action.cause).__module__
        if module.startswith("manta.controllers."):
            name = f"{module.split('.')[2]}.{action.cause.name}"
            causes[name] = causes.get(name, 0) + 1
        return await real(self, owner, action, call)

    setattr(executor.PlanExecutor, "_one", one)  # noqa: B010  a method
    return lambda: setattr(executor.PlanExecutor, "_one", real)


def simulate(main: Callable[[World], Any], story: Story) -> Any:
    """Run `main` with a fresh world under virtual time."""

    async def run() -> Any:
        world = World(story)
        stop = _count_causes(world.causes)
        try:
            return await main(world)
        finally:
            stop()
            await world.close()

    real, executor.secrets = executor.secrets, _Tokens(story.seed)  # type: ignore[attr-defined, assignment]
    often, watching.BOOKMARK_SECONDS = watching.BOOKMARK_SECONDS, BOOKMARK_SECONDS
    level, thresholds = logging.root.manager.disable, gc.get_threshold()
    logging.disable(logging.CRITICAL)
    gc.set_threshold(
        50_000, 20, 20
    )  # the garbage of one run is small: a fifth of the time went here
    try:
        return run_virtual(run())
    finally:
        gc.set_threshold(*thresholds)
        executor.secrets = real  # type: ignore[attr-defined]
        watching.BOOKMARK_SECONDS = often
        logging.disable(level)
