"""Asks a cluster's Serve: the dashboard about the applications, and the head's proxy itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.service import ApplicationStatusWord
from manta.controllers.rayservice.inquire import Question
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.kube.proxy import pod_proxy_path
from manta.ray.dashboard import Dashboard
from manta.ray.models import Accepted, Refused, ServeAnswer, ServeStatus, Target, Unreachable
from manta.runtime.kept_secrets import KeptSecrets

HEALTH = "-/healthz"


class DashboardError(MantaError):
    """Ray did not do what it was asked."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What one question brought."""

    serve: ServeAnswer
    proxy_answers: bool | None = None
    """None: not asked, because nothing depends on it yet, or because it is probed apart."""


class Asker:
    def __init__(self, dashboard: Dashboard, client: Client, *, through_server: bool) -> None:
        """`through_server`: Pods are reached by the API server's proxy only."""
        self._dashboard = dashboard
        self._through_server = through_server
        self._tokens = KeptSecrets(client, names.SECRET_KEY_AUTH_TOKEN)

    async def ask(self, asked: Question) -> Heard:
        target = await self._target(asked)
        if isinstance(target, Unreachable):
            return Heard(target)
        serve = await self._dashboard.serve_status(target)
        if isinstance(serve, Unreachable) and asked.secret:
            self._tokens.forget(Key(asked.whereabouts.namespace, asked.secret))
        if asked.is_probed or not _all_run(serve, asked.applications):
            return Heard(serve)
        return Heard(serve, await self.proxy_answers(asked))

    async def submit(self, asked: Question, config: Mapping[str, Any]) -> None:
        target = await self._target(asked)
        if isinstance(target, Unreachable):
            raise DashboardError(target.why)
        answer = await self._dashboard.put_serve_config(target, config)
        match answer:
            case Accepted():
                return
            case Refused(status=status, why=why):
                raise DashboardError(f"Ray refused the Serve config ({status}): {why}")
            case Unreachable(why=why):
                raise DashboardError(why)

    async def proxy_answers(self, asked: Question) -> bool:
        """One lost packet must not take a head out of the service: two silences count as one."""
        url = self._health_url(asked)
        return await self._dashboard.proxy_is_healthy(
            url
        ) or await self._dashboard.proxy_is_healthy(url)

    def _health_url(self, asked: Question) -> str:
        if self._through_server:
            namespace = asked.whereabouts.namespace
            return pod_proxy_path(namespace, asked.pod, asked.proxy_port, HEALTH)
        host = f"[{asked.pod_ip}]" if ":" in asked.pod_ip else asked.pod_ip
        return f"http://{host}:{asked.proxy_port}/{HEALTH}"

    async def _target(self, asked: Question) -> Target | Unreachable:
        where, token = asked.whereabouts, ""
        if asked.secret:
            try:
                token = await self._tokens.read(Key(where.namespace, asked.secret))
            except (MantaError, ValueError) as error:
                return Unreachable(f"the token in Secret {asked.secret}: {error}", sent=False)
        return Target(where.namespace, where.service, where.host, where.port, token=token)


def _all_run(serve: ServeAnswer, applications: tuple[str, ...]) -> bool:
    if not isinstance(serve, ServeStatus):
        return False
    running = {
        name
        for name, one in serve.applications.items()
        if one.status == ApplicationStatusWord.RUNNING
    }
    return bool(applications) and set(applications) <= running
