"""Queries the dashboard of a cluster about Serve, submits configs, and checks the head's proxy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.service import ApplicationStatusWord
from manta.controllers.rayservice.canary_subjects import Subject
from manta.controllers.rayservice.dashboard_query import DashboardQuery
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.kube.proxy import pod_proxy_path
from manta.ray.dashboard import Dashboard
from manta.ray.models import Accepted, Refused, ServeResult, ServeStatus, Target, Unreachable
from manta.ray.prometheus import query_number
from manta.ray.transport import DirectTransport, Reply
from manta.runtime.secret_cache import SecretCache

HEALTH = "-/healthz"
METRICS = "metrics"
PROMETHEUS_TIMEOUT_SECONDS = 5.0


class DashboardError(MantaError):
    """Ray did not execute a request."""


@dataclass(frozen=True, slots=True)
class ServeQueryResult:
    """The result of one query."""

    serve: ServeResult
    proxy_healthy: bool | None = None
    """None: not checked, because applications do not run yet, or the proxy is probed apart."""


class DashboardClient:
    def __init__(
        self,
        dashboard: Dashboard,
        client: Client,
        *,
        through_api_server: bool,
        prometheus_address: str = "",
    ) -> None:
        """`through_api_server`: Pods are reached only through the API server's proxy."""
        self._dashboard = dashboard
        self._prometheus_address = prometheus_address
        self._prometheus: DirectTransport | None = None
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

    async def metrics(self, subject: Subject) -> Reply | Unreachable:
        """The page of metrics that Ray publishes in a Pod."""
        url = self._pod_url(subject.namespace, subject.name, subject.ip, subject.port, METRICS)
        return await self._dashboard.page(url)

    async def ask_prometheus(self, query: str) -> float | str:
        """The number that the query returns, or why there is none."""
        if not self._prometheus_address:
            return "the operator has no address of it; start it with --prometheus-address"
        if self._prometheus is None:
            self._prometheus = DirectTransport(PROMETHEUS_TIMEOUT_SECONDS)
        return await query_number(self._prometheus, self._prometheus_address, query)

    async def close(self) -> None:
        if self._prometheus is not None:
            await self._prometheus.close()

    def _health_url(self, query: DashboardQuery) -> str:
        namespace, port = query.target.namespace, query.proxy_port
        return self._pod_url(namespace, query.pod, query.pod_ip, port, HEALTH)

    def _pod_url(self, namespace: str, name: str, address: str, port: int, path: str) -> str:
        if self._through_server:
            return pod_proxy_path(namespace, name, port, path)
        host = f"[{address}]" if ":" in address else address
        return f"http://{host}:{port}/{path}"

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
