"""Asks dashboards on behalf of RayJobs, with the token that each of them wants."""

from __future__ import annotations

import msgspec

from manta.api.meta import Key
from manta.api.ray import names
from manta.controllers.rayjob.handover import SubmissionRefusedError, submission
from manta.controllers.rayjob.inquire import Question
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
    SessionAnswer,
    SubmitAnswer,
    Target,
    Unreachable,
)
from manta.runtime.kept_secrets import KeptSecrets

DEFINITE = frozenset((400, 422))
"""Answers that no second try will change; what a proxy or a missing token says may pass."""


class DashboardError(MantaError):
    """Ray did not do what it was asked."""


class Asker:
    def __init__(self, dashboard: Dashboard, client: Client) -> None:
        self._dashboard = dashboard
        self._tokens = KeptSecrets(client, names.SECRET_KEY_AUTH_TOKEN)

    async def ask(self, asked: Question) -> JobAnswer | SessionAnswer:
        target = await self._target(asked)
        if isinstance(target, Unreachable):
            return target
        answer: JobAnswer | SessionAnswer
        if asked.about_session:
            answer = await self._dashboard.session(target)
        else:
            answer = await self._dashboard.job(target, asked.job_id)
        if isinstance(answer, Unreachable):
            self._tokens.forget(Key(asked.namespace, asked.secret))
        return answer

    async def stop(self, asked: Question | None, job_id: str) -> None:
        target = await self._reachable(asked)
        _settle(await self._dashboard.stop(target, job_id))

    async def submit(self, asked: Question | None, seen: JobSnapshot) -> None:
        target = await self._reachable(asked)
        answer = await self._dashboard.submit(target, _request(seen))
        if isinstance(answer, Refused) and answer.status in DEFINITE:
            raise SubmissionRefusedError(f"Ray refused the job ({answer.status}): {answer.why}")
        _settle(answer)

    async def _reachable(self, asked: Question | None) -> Target:
        if asked is None:
            raise DashboardError("there is no head to ask")
        target = await self._target(asked)
        if isinstance(target, Unreachable):
            raise DashboardError(target.why)
        return target

    async def _target(self, asked: Question) -> Target | Unreachable:
        token = ""
        if asked.secret:
            try:
                token = await self._tokens.read(Key(asked.namespace, asked.secret))
            except (MantaError, ValueError) as error:
                return Unreachable(f"the token in Secret {asked.secret}: {error}", sent=False)
        return Target(asked.namespace, asked.service, asked.host, asked.port, token=token)


def _settle(answer: SubmitAnswer) -> None:
    match answer:
        case Accepted() | AlreadySubmitted():
            return
        case Refused(status=status, why=why):
            raise DashboardError(f"Ray refused ({status}): {why}")
        case Unreachable(why=why):
            raise DashboardError(why)


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
