"""Queries Ray dashboards and nodes through the API server, with the permissions of the user whose page is open.

Only what an open page shows is queried. A page does not wait for a query: it shows the last answer, and the next one comes
with a later message of its event stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from manta.api.core import Node
from manta.api.meta import Key
from manta.api.ray.cluster import RayCluster
from manta.api.resources import NODES, SERVICES
from manta.api.well_known import RESOURCES_OF_GPUS
from manta.client.auth_token import target_of
from manta.client.dashboard import ProxyTransport
from manta.client.gpus import GpuRow, node_gpus
from manta.console.live import Live
from manta.console.rights import Rights
from manta.console.snapshot import Item, Sample, Snapshot
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.ray.autoscaler_report import AutoscalerReport, AutoscalerResult
from manta.ray.dashboard import Dashboard
from manta.ray.models import JobInfo, Target, TaskList, TasksResult, Unreachable
from manta.runtime.clock import Clock

log = logging.getLogger(__name__)

FRESH_SECONDS: Final = 4.0
"""Age at which an answer is queried again."""
FIRST_SECONDS: Final = 0.4
"""How long a page waits for its first answer."""
TIMEOUT_SECONDS: Final = 5.0
MAX_REPLY_BYTES: Final = 4 * 1024 * 1024
MAX_ANSWERS: Final = 256
MAX_NODES: Final = 16
"""Nodes whose GPUs are queried for one page."""
MAX_SAMPLES: Final = 720
_AT_ONCE: Final = 8
_OVER: Final = frozenset(("Failed", "Complete"))


@dataclass(slots=True)
class _Query:
    task: asyncio.Task[Any]
    started: float
    answer: Any = None


class LiveQueries:
    def __init__(self, client: Client, clock: Clock, changed: Callable[[], None]) -> None:
        """`changed` is called after each answer that differs from the last."""
        self._client = client
        self._clock = clock
        self._changed = changed
        self._dashboard = Dashboard(ProxyTransport(client, TIMEOUT_SECONDS, MAX_REPLY_BYTES))
        self._queries: dict[str, _Query] = {}
        self._waiting: dict[str, deque[Sample]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def about(self, snapshot: Snapshot, one: Item, rights: Rights) -> Live:
        """What the page of this object shows beside the objects of Kubernetes."""
        if one.kind == "RayCluster":
            gpus = await self.gpus(snapshot.nodes, rights)
            if not (one.object.spec.get("enableInTreeAutoscaling") and head_service(one)):
                return Live(gpus=gpus, asks=bool(gpus))
            report = await self._autoscaler(one, rights)
            waiting = tuple(self._waiting.get(one.uid, ()))
            return Live(autoscaler=report, waiting=waiting, gpus=gpus, asks=True)
        if one.kind == "RayJob":
            return await self._about_job(snapshot, one, rights)
        return Live()

    async def gpus(self, nodes: Sequence[Node], rights: Rights) -> tuple[GpuRow, ...]:
        """The GPUs of the nodes of `manta up`."""
        names = [
            one.metadata.name
            for one in nodes
            if RESOURCES_OF_GPUS & one.status.capacity.keys()
            and rights.allows("get", NODES, one.metadata.name, "proxy")
        ]
        found = await asyncio.gather(*(self._gpus_of(name) for name in names[:MAX_NODES]))
        return tuple(row for rows in found for row in rows or ())

    async def _gpus_of(self, node: str) -> Sequence[GpuRow] | None:
        rows: Sequence[GpuRow] | None = await self.last(
            f"gpus {node}", lambda: node_gpus(self._client, node)
        )
        return rows

    async def close(self) -> None:
        tasks = [one.task for one in self._queries.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ── dashboards ───────────────────────────────────────────────────────────────────────

    async def _autoscaler(self, one: Item, rights: Rights) -> AutoscalerResult | None:
        if why := dashboard_refusal(one, rights):
            return Unreachable(why)

        async def ask() -> AutoscalerResult:
            report = await self._dashboard.autoscaler(await self._target(one))
            if isinstance(report, AutoscalerReport):
                values = (float(report.waiting), float(len(report.pending)))
                kept = self._waiting.setdefault(one.uid, deque(maxlen=MAX_SAMPLES))
                if not kept or kept[-1].values != values:
                    kept.append(Sample(self._clock.now(), values))
            return report

        found: AutoscalerResult | None = await self.last(f"autoscaler {one.uid}", ask)
        return found

    async def _about_job(self, snapshot: Snapshot, one: Item, rights: Rights) -> Live:
        status = one.object.status
        name = str(status.get("rayClusterName") or "")
        cluster = snapshot.get("RayCluster", Key(one.key.namespace, name))
        submission = str(status.get("jobId") or "")
        if cluster is None or not submission or not head_service(cluster):
            return Live()
        if why := dashboard_refusal(cluster, rights):
            return Live(failed_tasks=Unreachable(why))

        async def ask() -> TasksResult:
            target = await self._target(cluster)
            job = await self._dashboard.job(target, submission)
            if isinstance(job, Unreachable):
                return job
            if not isinstance(job, JobInfo) or not job.job_id:
                return TaskList()
            return await self._dashboard.failed_tasks(target, job.job_id)

        over = status.get("jobDeploymentStatus") in _OVER
        found = await self.last(f"tasks {one.uid} {submission} {over}", ask)
        return Live(failed_tasks=found, asks=not over)

    async def _target(self, cluster: Item) -> Target:
        """Raises MantaError if the running head wants a token that this visitor may not read."""
        found = await target_of(
            self._client, msgspec.convert(cluster.object.document(), RayCluster)
        )
        return Target(cluster.key.namespace, head_service(cluster), host="", token=found.token)

    # ── questions ────────────────────────────────────────────────────────────────────────

    async def last(self, name: str, ask: Callable[[], Awaitable[Any]]) -> Any:
        """The last answer, or None if there is none yet. An answer older than FRESH_SECONDS is queried again."""
        known = self._queries.get(name)
        now = self._clock.monotonic()
        if known is None or (known.task.done() and now - known.started > FRESH_SECONDS):
            answer = known.answer if known is not None else None
            self._forget_oldest()
            task = asyncio.create_task(self._ask(name, ask))
            known = self._queries[name] = _Query(task, now, answer)
            if answer is None:
                await asyncio.wait((task,), timeout=FIRST_SECONDS)
        return known.answer

    async def _ask(self, name: str, ask: Callable[[], Awaitable[Any]]) -> None:
        async with self._turns:
            try:
                answer = await ask()
            except MantaError as error:
                answer = Unreachable(str(error))
            except Exception as error:
                log.exception("the query %r failed", name)
                answer = Unreachable(f"the console failed: {type(error).__name__}: {error}")
        held = self._queries[name]
        if answer != held.answer:
            held.answer = answer
            self._changed()

    def _forget_oldest(self) -> None:
        done = [name for name, one in self._queries.items() if one.task.done()]
        for name in done[: max(len(self._queries) - MAX_ANSWERS, 0)]:
            del self._queries[name]
        if len(self._waiting) > MAX_ANSWERS:
            del self._waiting[next(iter(self._waiting))]


def head_service(cluster: Item) -> str:
    """The head Service of a cluster whose head is ready; empty: nobody would answer."""
    status = cluster.object.status
    ready = any(
        one.get("type") == "HeadPodReady" and one.get("status") == "True"
        for one in status.get("conditions") or ()
    )
    return str((status.get("head") or {}).get("serviceName") or "") if ready else ""


def dashboard_refusal(cluster: Item, rights: Rights) -> str:
    name = f"{head_service(cluster)}:dashboard"
    if rights.allows("get", SERVICES, name, "proxy"):
        return ""
    return f"you may not get services/proxy in namespace {cluster.key.namespace}"
