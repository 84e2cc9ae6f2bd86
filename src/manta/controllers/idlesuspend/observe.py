"""Reads the snapshot of a RayCluster: from the caches, and from Ray when a question is due.

Ray is asked here, in a reconcile, and not by a poller: each cluster has its own interval, and the answers of
hundreds of clusters arrive without a task for each. A dashboard that hangs occupies one of many workers.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Final

from manta.api.core import Pod, Service
from manta.api.meta import Key, Object, View
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import TERMINAL_DEPLOYMENT_STATUSES, JobDeploymentStatus
from manta.api.ray.resources import RAY_JOBS
from manta.controllers.idlesuspend.facts import current_answer, decision_at, query_is_due
from manta.controllers.idlesuspend.snapshot import Answer, IdleSnapshot
from manta.controllers.idlesuspend.usage import held_by
from manta.kube.client import Client
from manta.kube.errors import MantaError, NotFound
from manta.ray.activity import Activity, InUse, NotInUse, read_activity
from manta.ray.dashboard import Dashboard
from manta.ray.models import Target, Unreachable
from manta.rules.idle import IdleLimit, idle_limit
from manta.rules.running_head import token_secret
from manta.rules.selection import BY_CLUSTER
from manta.rules.settings import Settings
from manta.rules.traits import Creator, creator, head_fqdn, head_service_name
from manta.rules.validation.violation import Violation
from manta.runtime.clock import Clock
from manta.runtime.informer import Informer
from manta.runtime.secret_cache import SecretCache

MAX_ANSWERS: Final = 10_000
ENDED: Final = TERMINAL_DEPLOYMENT_STATUSES | {JobDeploymentStatus.VALIDATION_FAILED}


class _JobStatus(View, frozen=True, kw_only=True):
    ray_cluster_name: str = ""
    job_deployment_status: str = ""


class UsingJob(Object, frozen=True, kw_only=True):
    """A RayJob, with the fields that say whether it still needs its cluster."""

    status: _JobStatus = _JobStatus()


def concerns(cluster: RayCluster, settings: Settings) -> bool:
    """Whether this controller has anything to do with the cluster."""
    meta = cluster.metadata
    marked = any(name in meta.annotations for name in names.IDLE_MARKS)
    counted = names.ANNOTATION_USAGE in meta.annotations
    shown = any(one.type == "Idle" for one in cluster.status.conditions)
    return marked or counted or shown or idle_limit(meta, settings.idle_suspend) is not None


class Observer:
    def __init__(
        self,
        clusters: Informer[RayCluster],
        pods: Informer[Pod],
        services: Informer[Service],
        dashboard: Dashboard,
        client: Client,
        clock: Clock,
        settings: Settings,
    ) -> None:
        self._clusters = clusters
        self._pods = pods
        self._services = services
        self._dashboard = dashboard
        self._client = client
        self._clock = clock
        self._settings = settings
        self._tokens = SecretCache(client, names.SECRET_KEY_AUTH_TOKEN)
        self._answers: OrderedDict[Key, Answer] = OrderedDict()

    async def observe(self, key: Key) -> IdleSnapshot | None:
        snapshot = self._snapshot(key)
        if snapshot is None:
            self._answers.pop(key, None)
            return None
        if not query_is_due(snapshot):
            return snapshot
        answer = await self._ask(snapshot)
        self._remember(key, answer)
        latest = self._snapshot(key)  # the cluster may have changed meanwhile
        return None if latest is None else replace(latest, answer=answer)

    def forget_answers(self) -> None:
        """Another replica leads now: what Ray said is old when this one leads again."""
        self._answers.clear()

    def _snapshot(self, key: Key) -> IdleSnapshot | None:
        cluster = self._clusters.get(key)
        if cluster is None or not concerns(cluster, self._settings):
            return None
        head = cluster.status.head.pod_name
        limit = idle_limit(cluster.metadata, self._settings.idle_suspend)
        return IdleSnapshot(
            cluster,
            limit if isinstance(limit, IdleLimit) else None,
            self._clock.now(),
            self._pods.get(Key(key.namespace, head)) if head else None,
            self._answers.get(key),
            held_by(self._pods.by(BY_CLUSTER, str(key))),
            str(limit) if isinstance(limit, Violation) else "",
        )

    def _remember(self, key: Key, answer: Answer) -> None:
        self._answers[key] = answer
        self._answers.move_to_end(key)
        while len(self._answers) > MAX_ANSWERS:
            self._answers.popitem(last=False)

    async def _ask(self, snapshot: IdleSnapshot) -> Answer:
        try:
            needed_by = await self._unfinished_job(snapshot)
        except MantaError as error:
            return self._answer(snapshot, reason="RayJobsNotRead", message=f"RayJobs: {error}")
        if needed_by:
            message = f"RayJob {needed_by} has not ended"
            return self._answer(snapshot, in_use=True, reason="RayJobRunning", message=message)
        match await self._activity(snapshot):
            case InUse(use=use, what=what):
                return self._answer(snapshot, in_use=True, reason=use, message=what)
            case NotInUse(evidence=evidence):
                return self._answer(snapshot, evidence=evidence)
            case Unreachable(why=why):
                return self._answer(snapshot, reason="DashboardUnreachable", message=why)

    def _answer(
        self,
        snapshot: IdleSnapshot,
        *,
        in_use: bool = False,
        evidence: str = "",
        reason: str = "",
        message: str = "",
    ) -> Answer:
        before = current_answer(snapshot)
        at = before.at if before is not None and before.is_known else None
        return Answer(self._clock.now(), snapshot.head, in_use, evidence, reason, message, at)

    async def _unfinished_job(self, snapshot: IdleSnapshot) -> str:
        """The name of a RayJob that still needs the cluster.

        Its own RayJob is read before every question. Others that selected it are found by what they run in Ray;
        one that is about to submit is looked for when a decision is due.
        """
        meta, limit = snapshot.cluster.metadata, snapshot.limit
        if creator(meta) is Creator.JOB and meta.controller is not None:
            try:
                key = Key(meta.namespace, meta.controller.name)
                own = await self._client.get(RAY_JOBS, key, into=UsingJob)
            except NotFound:
                return ""
            return "" if own.status.job_deployment_status in ENDED else own.metadata.name
        decision = decision_at(snapshot, limit) if limit is not None else None
        if decision is None or snapshot.now < decision:
            return ""
        found = (await self._client.list(RAY_JOBS, meta.namespace, into=UsingJob)).items
        using = (one for one in found if one.status.ray_cluster_name == meta.name)
        unfinished = (one for one in using if one.status.job_deployment_status not in ENDED)
        return next((one.metadata.name for one in unfinished), "")

    async def _activity(self, snapshot: IdleSnapshot) -> Activity:
        cluster, token = snapshot.cluster, ""
        secret = Key(cluster.metadata.namespace, token_secret(cluster, snapshot.head_pod))
        if secret.name:
            try:
                token = await self._tokens.read(secret)
            except (MantaError, ValueError) as error:
                return Unreachable(f"the token in Secret {secret.name}: {error}", sent=False)
        found = await read_activity(self._dashboard, self._target(cluster, token))
        if isinstance(found, Unreachable):
            self._tokens.forget(secret)
        return found

    def _target(self, cluster: RayCluster, token: str) -> Target:
        key = Key(cluster.metadata.namespace, head_service_name(cluster))
        service = self._services.get(key)
        port = service.port(names.PORT_NAME_DASHBOARD) if service else None
        host = head_fqdn(cluster, self._settings.cluster_domain)
        number = port.port if port else names.PORT_DASHBOARD
        return Target(*key, host, number, token=token)
