"""Probes the Serve proxy on the head of each cluster that serves, every few seconds.

The readiness probe of a head checks Ray, not Serve: a head whose proxy died stays in the Service until
its label is changed. The operator therefore probes the proxy, with one small request over a persistent
connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from manta.controllers.rayservice.dashboard_query import DashboardQuery
from manta.controllers.rayservice.serve_answers import WatchKey
from manta.ray.poller import DashboardPoller, PollInterval

PROBE_EVERY = 2.5
"""Seconds. A dead proxy gets requests no longer than this plus the time of two tries."""
PROBE_THROUGH_API_SERVER_EVERY = 25.0
"""Seconds, if Pods are reached through the API server only: frequent probes would load it."""


class ProxyProbes:
    def __init__(
        self,
        changed: Callable[[WatchKey], None],
        is_healthy: Callable[[DashboardQuery], Awaitable[bool]],
        failed: Callable[[Exception], None],
        *,
        through_api_server: bool,
    ) -> None:
        every = PROBE_THROUGH_API_SERVER_EVERY if through_api_server else PROBE_EVERY
        self._poller: DashboardPoller[WatchKey, bool] = DashboardPoller(
            changed, PollInterval(fast=every, slow=every), failed=failed
        )
        self._is_healthy = is_healthy

    def __call__(self, subject: WatchKey, query: DashboardQuery) -> bool | None:
        async def probe() -> bool:
            return await self._is_healthy(query)

        identity = (query.target.head, query.pod_ip, query.proxy_port)
        return self._poller.latest(subject, identity, probe, expecting_change=False)

    def forget(self, subject: WatchKey) -> None:
        self._poller.forget(subject)

    def close(self) -> None:
        self._poller.close()

    async def run(self) -> None:
        await self._poller.run()
