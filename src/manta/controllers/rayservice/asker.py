"""Asks a cluster's Serve: the dashboard about the applications, and the head's proxy itself."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manta.api.core import SecretData
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.service import ApplicationStatusWord
from manta.api.resources import SECRETS
from manta.controllers.rayservice.inquire import Question
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.kube.proxy import pod_proxy_path
from manta.ray.dashboard import Dashboard
from manta.ray.models import Accepted, Refused, ServeAnswer, ServeStatus, Target, Unreachable

HEALTH = "-/healthz"
MOST_TOKENS = 2000
"""Clusters come and go: what is kept of them must not grow for ever (C38)."""


class DashboardError(MantaError):
    """Ray did not do what it was asked."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What one question brought."""

    serve: ServeAnswer
    proxy_answers: bool | None = None
    """None: not asked, because nothing hangs on it yet."""


class Asker:
    def __init__(self, dashboard: Dashboard, client: Client, *, through_server: bool) -> None:
        """`through_server`: Pods are reached by the API server's proxy only."""
        self._dashboard = dashboard
        self._client = client
        self._through_server = through_server
        self._tokens: dict[tuple[str, str], str] = {}

    async def ask(self, asked: Question) -> Heard:
        target = await self._target(asked)
        if isinstance(target, Unreachable):
            return Heard(target)
        serve = await self._dashboard.serve_status(target)
        if isinstance(serve, Unreachable) and asked.secret:
            self._tokens.pop((asked.whereabouts.namespace, asked.secret), None)
        if not asked.probe_always and not _all_run(serve, asked.applications):
            return Heard(serve)
        return Heard(serve, await self._proxy_answers(asked))

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

    async def _proxy_answers(self, asked: Question) -> bool:
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
                token = await self._token(where.namespace, asked.secret)
            except (MantaError, ValueError) as error:
                return Unreachable(f"the token in Secret {asked.secret}: {error}", sent=False)
        return Target(where.namespace, where.service, where.host, where.port, token=token)

    async def _token(self, namespace: str, name: str) -> str:
        """Read once and kept until the dashboard no longer answers to it."""
        address = (namespace, name)
        if len(self._tokens) >= MOST_TOKENS:
            self._tokens.clear()
        if address not in self._tokens:
            secret = await self._client.get(SECRETS, Key(namespace, name), into=SecretData)
            encoded = secret.data.get(names.SECRET_KEY_AUTH_TOKEN)
            if encoded is None:
                raise ValueError(f"it has no key {names.SECRET_KEY_AUTH_TOKEN}")
            # Whoever made the Secret from a file has the file's last newline in it.
            self._tokens[address] = base64.b64decode(encoded).decode().strip()
        return self._tokens[address]


def _all_run(serve: ServeAnswer, applications: tuple[str, ...]) -> bool:
    if not isinstance(serve, ServeStatus):
        return False
    running = {
        name
        for name, one in serve.applications.items()
        if one.status == ApplicationStatusWord.RUNNING
    }
    return bool(applications) and set(applications) <= running
