"""Queries the dashboard of a cluster about Serve, submits configs, and checks the head's proxy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.service import ApplicationStatusWord
from manta.controllers.rayservice.dashboard_query import DashboardQuery
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.kube.proxy import pod_proxy_path
from manta.ray.dashboard import Dashboard
from manta.ray.models import Accepted, Refused, ServeResult, ServeStatus, Target, Unreachable
from manta.runtime.secret_cache import SecretCache

HEALTH = "-/healthz"


class DashboardError(MantaError):
    """Ray did not execute a request."""


@dataclass(frozen=True, slots=True)
class ServeQueryResult:
    """The result of one query."""

    serve: ServeResult
    proxy_healthy: bool | None = None
    """None: not checked, because applications do not run yet, or the proxy is probed apart."""


class DashboardClient:
    def __init__(self, dashboard: Dashboard, client: Client, *, through_api_server: bool) -> None:
        """`through_api_server`: Pods are reached only through the API server's proxy."""
        self._dashboard = dashboard
        self._through_server = through_api_server
        self._tokens = SecretCache(client, names.SECRET_KEY_AUTH_TOKEN)

    async def query_dashboard(self, query: DashboardQuery) -> ServeQueryResult:
        target = await self._target(query)
        if isinstance(target, Unreachable):
            return ServeQueryResult(target)
        serve = await self._dashboard.serve_status(target)
        if isinstance(serve, Unreachable) and query.secret:
            self._tokens.forget(Key(query.target.namespace, query.secret))
        if query.is_probed or not _all_run(serve, query.applications):
            return ServeQueryResult(serve)
        return ServeQueryResult(serve, await self.proxy_healthy(query))

    async def submit(self, query: DashboardQuery, config: Mapping[str, Any]) -> None:
        """Raise DashboardError if Ray did not accept it."""
        target = await self._target(query)
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

    async def proxy_healthy(self, query: DashboardQuery) -> bool:
        """Try twice: one lost packet must not take a head out of service."""
        url, is_healthy = self._health_url(query), self._dashboard.proxy_is_healthy
        return await is_healthy(url) or await is_healthy(url)

    def _health_url(self, query: DashboardQuery) -> str:
        if self._through_server:
            namespace = query.target.namespace
            return pod_proxy_path(namespace, query.pod, query.proxy_port, HEALTH)
        host = f"[{query.pod_ip}]" if ":" in query.pod_ip else query.pod_ip
        return f"http://{host}:{query.proxy_port}/{HEALTH}"

    async def _target(self, query: DashboardQuery) -> Target | Unreachable:
        where, token = query.target, ""
        if query.secret:
            try:
                token = await self._tokens.read(Key(where.namespace, query.secret))
            except (MantaError, ValueError) as error:
                return Unreachable(f"the token in Secret {query.secret}: {error}", sent=False)
        return Target(where.namespace, where.service, where.host, where.port, token=token)


def _all_run(serve: ServeResult, applications: tuple[str, ...]) -> bool:
    if not isinstance(serve, ServeStatus):
        return False
    running = {
        name
        for name, one in serve.applications.items()
        if one.status == ApplicationStatusWord.RUNNING
    }
    return bool(applications) and set(applications) <= running
