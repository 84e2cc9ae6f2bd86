"""Adds to a snapshot what the Serve of each cluster reports: latest dashboard answers and probes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.service import AppStatus, ServeDeploymentStatus
from manta.controllers.rayservice.dashboard_client import ServeQueryResult
from manta.controllers.rayservice.dashboard_query import DashboardQuery, due_query, expects_change
from manta.controllers.rayservice.snapshot import (
    ClusterView,
    DashboardAnswer,
    DashboardReply,
    DashboardUnreachable,
    ServiceSnapshot,
)
from manta.ray.models import ApplicationStatus, ServeResult, Unreachable
from manta.ray.poller import DashboardPoller

DRAINING: Final = ("DRAINING", "DRAINED")
"""Serve's states of a proxy that stops, and takes no more requests."""


class WatchKey(NamedTuple):
    """One cluster of one RayService, which is polled."""

    service: Key
    cluster: str


class Probes(Protocol):
    """Probes of the Serve proxies on heads that serve."""

    def __call__(self, subject: WatchKey, query: DashboardQuery) -> bool | None:
        """Whether the proxy answered the last probe; None before the first. Starts to probe it."""
        ...

    def forget(self, subject: WatchKey) -> None: ...


@dataclass(frozen=True, slots=True)
class ServeAnswers:
    poller: DashboardPoller[WatchKey, ServeQueryResult]
    query_dashboard: Callable[[DashboardQuery], Awaitable[ServeQueryResult]]
    probes: Probes
    _queried: dict[Key, frozenset[str]] = field(default_factory=dict)
    _expecting: dict[WatchKey, bool] = field(default_factory=dict)

    def add_to(self, snapshot: ServiceSnapshot) -> ServiceSnapshot:
        """The snapshot with the latest answers. Polls the clusters that it needs, and no others."""
        key = snapshot.service.metadata.key
        active = self._with_answer(key, snapshot, snapshot.active)
        pending = self._with_answer(key, snapshot, snapshot.pending)
        views = (one for one in (active, pending) if one is not None)
        queried = frozenset(one.name for one in views if due_query(snapshot, one) is not None)
        self._forget_others(key, queried)
        return replace(snapshot, active=active, pending=pending)

    def forget(self, key: Key) -> None:
        """Stop polling the clusters of this RayService."""
        self._forget_others(key, frozenset())

    def _with_answer(
        self, key: Key, snapshot: ServiceSnapshot, view: ClusterView | None
    ) -> ClusterView | None:
        query = due_query(snapshot, view) if view is not None else None
        if view is None or query is None:
            return view

        async def fetch() -> ServeQueryResult:
            return await self.query_dashboard(query)

        subject = WatchKey(key, view.name)
        before = self._expecting.get(subject, True)
        result = self.poller.latest(subject, query.target, fetch, expecting_change=before)
        if result is not None:
            answer = to_answer(result.serve)
            view = replace(view, answer=answer, proxy_healthy=result.proxy_healthy)
        if query.is_probed and (probed := self.probes(subject, query)) is not None:
            view = replace(view, proxy_healthy=probed)
        now = expects_change(snapshot, view)
        if now != before:
            self.poller.latest(subject, query.target, fetch, expecting_change=now)
        self._expecting[subject] = now
        return view

    def _forget_others(self, key: Key, clusters: frozenset[str]) -> None:
        for name in self._queried.pop(key, frozenset()) - clusters:
            subject = WatchKey(key, name)
            self.poller.forget(subject)
            self.probes.forget(subject)
            self._expecting.pop(subject, None)
        if clusters:
            self._queried[key] = clusters


def to_answer(result: ServeResult) -> DashboardAnswer:
    """The result of a query as the planners read it."""
    if isinstance(result, Unreachable):
        return DashboardUnreachable(result.why)
    applications = {
        name or names.DEFAULT_SERVE_APPLICATION: _application(one)
        for name, one in result.applications.items()
    }
    running = (one.node_ip for one in result.proxies.values() if one.status not in DRAINING)
    return DashboardReply(applications, frozenset(running))


def _application(one: ApplicationStatus) -> AppStatus:
    return AppStatus(
        status=one.status,
        message=one.message,
        serve_deployment_statuses={
            name: ServeDeploymentStatus(status=deployment.status, message=deployment.message)
            for name, deployment in one.deployments.items()
        },
    )
