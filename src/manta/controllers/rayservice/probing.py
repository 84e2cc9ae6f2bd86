"""Probes the Serve proxy on the head of each cluster that serves, every few seconds.

The readiness probe of a head checks Ray, not Serve: a head whose proxy died stays in the Service until
its label is changed. The operator therefore probes the proxy, with one small request over a persistent
connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from manta.controllers.rayservice.inquire import Question
from manta.controllers.rayservice.observe import WatchKey
from manta.ray.watch import DashboardWatch, Pace

PROBE_EVERY = 2.5
"""Seconds. A dead proxy gets requests for no longer than this and the time of two tries."""
PROBE_THROUGH_SERVER_EVERY = 25.0
"""Seconds, where Pods are reached through the API server only: it is not there to carry probes."""


class ProxyProbes:
    def __init__(
        self,
        changed: Callable[[WatchKey], None],
        answers: Callable[[Question], Awaitable[bool]],
        *,
        through_server: bool,
    ) -> None:
        every = PROBE_THROUGH_SERVER_EVERY if through_server else PROBE_EVERY
        self._watch: DashboardWatch[WatchKey, bool] = DashboardWatch(
            changed, Pace(busy=every, calm=every)
        )
        self._answers = answers

    def __call__(self, subject: WatchKey, asked: Question) -> bool | None:
        async def probe() -> bool:
            return await self._answers(asked)

        identity = (asked.whereabouts.head, asked.pod_ip, asked.proxy_port)
        return self._watch.answer(subject, identity, probe, expecting=False)

    def forget(self, subject: WatchKey) -> None:
        self._watch.forget(subject)

    def close(self) -> None:
        self._watch.close()

    async def run(self) -> None:
        await self._watch.run()
