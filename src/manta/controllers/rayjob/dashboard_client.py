"""Queries the dashboard of a RayJob, and submits and stops its job, with the token of the cluster."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Final

import msgspec

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.job import JobStatus
from manta.controllers.rayjob.dashboard_query import DashboardQuery
from manta.controllers.rayjob.first_failure import first_failure
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.controllers.rayjob.submission import SubmissionRefusedError, submission
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.ray.dashboard import Dashboard
from manta.ray.models import (
    Accepted,
    AlreadySubmitted,
    JobInfo,
    JobRequest,
    JobResult,
    Refused,
    SessionResult,
    SubmitResult,
    Target,
    TasksResult,
    Unreachable,
)
from manta.runtime.secret_cache import SecretCache

log = logging.getLogger(__name__)

_FAILURE_SECONDS: Final = 2.0
"""For the question why a job failed: its end is reported at most so much later."""
_FAILURE_PAUSE_SECONDS: Final = 0.5
_FAILURES: Final = 1000
"""Jobs whose first failure is remembered."""
PERMANENT = frozenset((400, 422))
"""Status codes that a retry does not change. Others may come from a proxy or a missing token."""


class DashboardError(MantaError):
    """Ray did not execute a request."""


class DashboardClient:
    def __init__(self, dashboard: Dashboard, client: Client) -> None:
        self._dashboard = dashboard
        self._tokens = SecretCache(client, names.SECRET_KEY_AUTH_TOKEN)
        self._failures: dict[DashboardQuery, str] = {}

    async def query_dashboard(self, query: DashboardQuery) -> JobResult | SessionResult:
        target = await self._target(query)
        if isinstance(target, Unreachable):
            return target
        answer: JobResult | SessionResult
        if query.about_session:
            answer = await self._dashboard.session(target)
        else:
            answer = await self._dashboard.job(target, query.job_id)
        if isinstance(answer, JobInfo) and answer.status == JobStatus.FAILED:
            failure = await self._first_failure(query, target, answer.job_id or "")
            answer = msgspec.structs.replace(answer, first_failure=failure)
        if isinstance(answer, Unreachable):
            self._tokens.forget(Key(query.namespace, query.secret))
        return answer

    async def _first_failure(self, query: DashboardQuery, target: Target, ray_job_id: str) -> str:
        """The error of the job's first failed task; empty if Ray does not say it in time.

        Ray is asked when the job ends and not later, so that its message does not change while a submitter prints
        the log.
        """
        if not ray_job_id or query in self._failures:
            return self._failures.get(query, "")
        while len(self._failures) >= _FAILURES:
            del self._failures[next(iter(self._failures))]
        self._failures[query] = ""
        found = await self._failed_tasks(target, ray_job_id)
        if isinstance(found, Unreachable):
            log.info("the failed tasks of job %s are not known: %s", query.job_id, found.why)
            return ""
        self._failures[query] = first_failure(found.tasks)
        return self._failures[query]

    async def _failed_tasks(self, target: Target, ray_job_id: str) -> TasksResult:
        """The failed tasks of a job that has just ended.

        Ray's workers report their tasks once a second: a driver that ends with the error of a task is faster.
        """
        found: TasksResult = Unreachable(f"no answer within {_FAILURE_SECONDS:g} s")
        with suppress(TimeoutError):
            async with asyncio.timeout(_FAILURE_SECONDS):
                while True:
                    found = await self._dashboard.failed_tasks(target, ray_job_id)
                    if isinstance(found, Unreachable) or found.tasks:
                        break
                    await asyncio.sleep(_FAILURE_PAUSE_SECONDS)
        return found

    async def stop(self, query: DashboardQuery | None, job_id: str) -> None:
        """Raise DashboardError if Ray did not accept it."""
        target = await self._reachable(query)
        _raise_for(await self._dashboard.stop(target, job_id))

    async def submit(self, query: DashboardQuery | None, snapshot: JobSnapshot) -> None:
        """Raise SubmissionRefusedError if Ray refused for good, DashboardError if a retry may help."""
        target = await self._reachable(query)
        answer = await self._dashboard.submit(target, _request(snapshot))
        if isinstance(answer, Refused) and answer.status in PERMANENT:
            raise SubmissionRefusedError(f"Ray refused the job ({answer.status}): {answer.why}")
        _raise_for(answer)

    async def _reachable(self, query: DashboardQuery | None) -> Target:
        if query is None:
            raise DashboardError("there is no head to send the request to")
        target = await self._target(query)
        if isinstance(target, Unreachable):
            raise DashboardError(target.why)
        return target

    async def _target(self, query: DashboardQuery) -> Target | Unreachable:
        token = ""
        if query.secret:
            try:
                token = await self._tokens.read(Key(query.namespace, query.secret))
            except (MantaError, ValueError) as error:
                return Unreachable(f"the token in Secret {query.secret}: {error}", sent=False)
        return Target(query.namespace, query.service, query.host, query.port, token=token)


def _raise_for(answer: SubmitResult) -> None:
    match answer:
        case Accepted() | AlreadySubmitted():
            return
        case Refused(status=status, why=why):
            raise DashboardError(f"Ray refused ({status}): {why}")
        case Unreachable(why=why):
            raise DashboardError(why)


def _request(snapshot: JobSnapshot) -> JobRequest:
    spec, submitted = snapshot.spec, submission(snapshot)
    resources = msgspec.json.decode(spec.entrypoint_resources or "{}")
    return JobRequest(
        submitted.job_id,
        spec.entrypoint,
        submitted.runtime_env,
        spec.metadata,
        spec.entrypoint_num_cpus or None,
        spec.entrypoint_num_gpus or None,
        resources,
    )
