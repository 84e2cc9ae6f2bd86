"""The RayJob controller: what it watches, and its rooms tied together."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from manta.api.batch import Job
from manta.api.core import Pod, SecretData, Service
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJobStatus
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import JOBS, PODS, SECRETS, SERVICES
from manta.controllers.rayjob.events import CONTROLLER, EVENTS
from manta.controllers.rayjob.handover import submission
from manta.controllers.rayjob.inquire import Question, whom_to_ask
from manta.controllers.rayjob.observe import (
    BY_CLUSTER,
    CachedRayJob,
    Caches,
    Observer,
    head_of_cluster,
)
from manta.controllers.rayjob.plan import next_status, plan
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.ray.dashboard import Dashboard
from manta.ray.models import (
    Accepted,
    AlreadySubmitted,
    JobAnswer,
    JobRequest,
    Refused,
    SubmitAnswer,
    Target,
    Unreachable,
)
from manta.ray.watch import DashboardWatch, Pace
from manta.reconcile import events
from manta.reconcile.actions import Call
from manta.reconcile.loop import reconcile
from manta.reconcile.outcome import Outcome
from manta.reconcile.perform import KubePerformer
from manta.reconcile.plan import Plan
from manta.reconcile.report import StatusWriter
from manta.rules.selection import RAY_PODS
from manta.rules.settings import Settings
from manta.runtime.controller import Controller, Watch, own_key, owner_keys
from manta.runtime.freshness import Owner
from manta.runtime.manager import Manager
from manta.runtime.queue import Done, Retry
from manta.runtime.recorder import ObjectReference, Recorder

WORKERS = 64
"""Rounds may wait for a dashboard when they submit or stop; they are cheap, so there are many."""

PACE = Pace(busy=1.0, calm=5.0)
CREATED_BY_US = f"{names.LABEL_APP_CREATED_BY}={names.OPERATOR_NAME}"


class DashboardError(MantaError):
    """Ray did not do what it was asked."""


class Asker:
    """Asks dashboards on behalf of RayJobs, with the token that each of them wants."""

    def __init__(self, dashboard: Dashboard, client: Client) -> None:
        self._dashboard = dashboard
        self._client = client
        self._tokens: dict[tuple[str, str], str] = {}

    async def job(self, asked: Question) -> JobAnswer:
        target = await self.target(asked)
        if isinstance(target, Unreachable):
            return target
        return await self._dashboard.job(target, asked.job_id)

    async def target(self, asked: Question) -> Target | Unreachable:
        token = ""
        if asked.secret:
            try:
                token = await self._token(asked.namespace, asked.secret)
            except (MantaError, ValueError) as error:
                return Unreachable(f"the token in Secret {asked.secret}: {error}", sent=False)
        return Target(asked.namespace, asked.service, asked.host, asked.port, token=token)

    async def _token(self, namespace: str, name: str) -> str:
        """Read once and kept: tokens of a cluster do not change while it lives."""
        address = (namespace, name)
        if address not in self._tokens:
            secret = await self._client.get(SECRETS, Key(namespace, name), into=SecretData)
            encoded = secret.data.get(names.SECRET_KEY_AUTH_TOKEN)
            if encoded is None:
                raise ValueError(f"it has no key {names.SECRET_KEY_AUTH_TOKEN}")
            self._tokens[address] = base64.b64decode(encoded).decode()
        return self._tokens[address]


class RayJobRooms:
    def __init__(
        self,
        observer: Observer,
        performer: KubePerformer,
        status: StatusWriter,
        recorder: Recorder,
        asker: Asker,
        dashboard: Dashboard,
        watch: DashboardWatch[Key, JobAnswer],
    ) -> None:
        self.observe = observer.observe
        self._performer = performer
        self._status = status
        self._recorder = recorder
        self._asker = asker
        self._dashboard = dashboard
        self._watch = watch

    def plan(self, seen: JobSnapshot) -> Plan:
        return plan(seen)

    async def apply(self, seen: JobSnapshot, plan: Plan) -> Outcome:
        async def perform(call: Call) -> Mapping[str, Any]:
            return await self._call(seen, call)

        return await self._performer.apply(_owner(seen), plan, perform)

    async def _call(self, seen: JobSnapshot, call: Call) -> Mapping[str, Any]:
        asked = whom_to_ask(seen)
        target = await self._asker.target(asked) if asked else Unreachable("no head", sent=False)
        if isinstance(target, Unreachable):
            raise DashboardError(target.why)
        answer: SubmitAnswer
        if call.verb == "stop":
            answer = await self._dashboard.stop(target, call.arguments["job_id"])
        else:
            answer = await self._dashboard.submit(target, _request(seen))
        self._watch.ask_now(seen.job.metadata.key)
        match answer:
            case Accepted() | AlreadySubmitted():
                return {}
            case Refused(status=status, why=why):
                raise DashboardError(f"Ray refused ({status}): {why}")
            case Unreachable(why=why):
                raise DashboardError(why)

    async def report(self, seen: JobSnapshot, plan: Plan, outcome: Outcome) -> bool:
        meta = seen.job.metadata
        events.emit(self._recorder, CONTROLLER, ObjectReference.to(RAY_JOBS, meta), EVENTS, outcome)
        new = next_status(seen, outcome)
        if meta.deletion_timestamp is not None or not differs(seen.status, new):
            return False
        return await self._status.write(_owner(seen), RAY_JOBS, meta, seen.status, new)

    def idle_delay(self, _: JobSnapshot) -> timedelta | None:
        return None


def differs(old: RayJobStatus, new: RayJobStatus) -> bool:
    """A status that differs only in the generation that it speaks of is not worth a write."""
    return msgspec.structs.replace(new, observed_generation=old.observed_generation) != old


def _request(seen: JobSnapshot) -> JobRequest:
    spec, handed_over = seen.spec, submission(seen)
    resources = msgspec.json.decode(spec.entrypoint_resources or "{}")
    return JobRequest(
        handed_over.job_id,
        spec.entrypoint,
        handed_over.runtime_env,
        spec.metadata,
        spec.entrypoint_num_cpus or None,
        spec.entrypoint_num_gpus or None,
        resources,
    )


def _owner(seen: JobSnapshot) -> Owner:
    return Owner(CONTROLLER, seen.job.metadata.key)


def build(manager: Manager, settings: Settings, dashboard: Dashboard) -> Controller:
    """Wire the controller into a manager, which then runs it."""
    caches = Caches(
        jobs=manager.informer(RAY_JOBS, CachedRayJob),
        clusters=manager.informer(RAY_CLUSTERS, RayCluster),
        pods=manager.informer(PODS, Pod, labels=RAY_PODS, indexes={BY_CLUSTER: head_of_cluster}),
        services=manager.informer(SERVICES, Service),
        submitters=manager.informer(JOBS, Job, labels=CREATED_BY_US),
    )
    asker = Asker(dashboard, manager.client)

    def news_of(key: Key) -> None:
        controller.enqueue(key)

    watch: DashboardWatch[Key, JobAnswer] = DashboardWatch(news_of, PACE)
    rooms = RayJobRooms(
        Observer(caches, watch, asker.job, manager.clock, manager.random, settings),
        KubePerformer(manager.client, manager.freshness),
        StatusWriter(manager.client, manager.freshness),
        manager.recorder,
        asker,
        dashboard,
        watch,
    )

    async def run_round(key: Key) -> Done | Retry:
        return await reconcile(rooms, key)

    owned = owner_keys(RAY_JOBS.kind, RAY_JOBS.group)
    watches = (
        Watch(caches.jobs, own_key),
        Watch(caches.clusters, owned),
        Watch(caches.services, owned),
        Watch(caches.submitters, owned),
        Watch(caches.pods, _jobs_on(caches)),
    )
    controller = Controller(CONTROLLER, run_round, watches, workers=WORKERS)
    return controller


def _jobs_on(caches: Caches) -> Any:
    """Head Pods concern the RayJob that owns, or borrows, their cluster."""

    def keys(old: Pod | None, new: Pod | None) -> tuple[Key, ...]:
        pod = new or old
        if pod is None or not head_of_cluster(pod):
            return ()
        name = pod.metadata.labels.get(names.LABEL_CLUSTER, "")
        cluster = caches.clusters.get(Key(pod.metadata.namespace, name))
        owner = cluster.metadata.controller if cluster else None
        if owner and owner.kind == RAY_JOBS.kind:
            return (Key(pod.metadata.namespace, owner.name),)
        return ()

    return keys
