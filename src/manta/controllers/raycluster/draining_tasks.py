"""How many tasks the workers that drain still run, by Ray's dashboard. Only the condition needs it.

It is asked while a rolling update waits for a worker, and never otherwise. A dashboard that does not answer
makes the sentence shorter, and stops nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlencode

import msgspec

from manta.api.core import Pod, Service
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import RayCluster
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.ray.dashboard import Dashboard
from manta.ray.models import Target, Unreachable
from manta.ray.poller import DashboardPoller, PollInterval
from manta.rules.pod_health import is_terminating
from manta.rules.running_head import token_secret
from manta.rules.settings import Settings
from manta.rules.traits import head_fqdn, head_service_name
from manta.runtime.informer import Informer
from manta.runtime.secret_cache import SecretCache

INTERVAL: Final = PollInterval(fast=5.0, slow=30.0)
_MAX_TASKS: Final = 10_000
"""What Ray's state API returns at most."""

ByAddress = Mapping[str, int]
"""Running tasks by the address of their node."""


class _Row(msgspec.Struct, frozen=True):
    node_id: str | None = None
    node_ip: str | None = None


class _Rows(msgspec.Struct, frozen=True):
    result: tuple[_Row, ...] = ()


class _Data(msgspec.Struct, frozen=True):
    result: _Rows = _Rows()


class _Answer(msgspec.Struct, frozen=True):
    """Answer of the state API: `data.result.result`."""

    data: _Data | None = None

    @property
    def rows(self) -> tuple[_Row, ...]:
        return self.data.result.result if self.data else ()


def _path(kind: str, **wanted: str) -> str:
    query = [("limit", str(_MAX_TASKS)), ("timeout", "2")]
    for name, value in wanted.items():
        query += [("filter_keys", name), ("filter_predicates", "="), ("filter_values", value)]
    return f"/api/v0/{kind}?{urlencode(query)}"


class DrainingTasks:
    def __init__(
        self,
        dashboard: Dashboard,
        client: Client,
        services: Informer[Service],
        settings: Settings,
        changed: Callable[[Key], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self._dashboard = dashboard
        self._services = services
        self._settings = settings
        self._tokens = SecretCache(client, names.SECRET_KEY_AUTH_TOKEN)
        self._poller: DashboardPoller[Key, ByAddress] = DashboardPoller(
            changed, INTERVAL, failed=failed
        )
        self.run = self._poller.run
        self.close = self._poller.close

    def of(self, snapshot: ClusterSnapshot) -> Mapping[str, int]:
        """By the name of the Pod; empty before the first answer, and when no worker drains."""
        key = snapshot.cluster.metadata.key
        going = _draining(snapshot)
        head = snapshot.head
        if not going or head is None:
            self._poller.forget(key)
            return {}

        async def ask() -> ByAddress:
            return await self._ask(snapshot.cluster, head)

        answer = self._poller.latest(key, head.metadata.uid, ask, expecting_change=True)
        if not answer:
            return {}
        return {pod.metadata.name: answer.get(pod.status.pod_ip, 0) for pod in going}

    def forget(self, key: Key) -> None:
        self._poller.forget(key)

    async def _ask(self, cluster: RayCluster, head: Pod) -> ByAddress:
        """Nodes without tasks are in the answer too; it is empty if Ray does not answer."""
        target = await self._target(cluster, head)
        if target is None:
            return {}
        nodes = await self._dashboard.read(target, _path("nodes", state="ALIVE"), _Answer)
        tasks = await self._dashboard.read(target, _path("tasks", state="RUNNING"), _Answer)
        if isinstance(nodes, Unreachable) or isinstance(tasks, Unreachable):
            return {}
        count = Counter(one.node_id for one in tasks.rows)
        return {one.node_ip: count[one.node_id] for one in nodes.rows if one.node_ip}

    async def _target(self, cluster: RayCluster, head: Pod) -> Target | None:
        meta, token = cluster.metadata, ""
        if secret := token_secret(cluster, head):
            try:
                token = await self._tokens.read(Key(meta.namespace, secret))
            except (MantaError, ValueError):
                return None
        key = Key(meta.namespace, head_service_name(cluster))
        service = self._services.get(key)
        port = service.port(names.PORT_NAME_DASHBOARD) if service else None
        host = head_fqdn(cluster, self._settings.cluster_domain)
        return Target(*key, host, port.port if port else names.PORT_DASHBOARD, token=token)


def _draining(snapshot: ClusterSnapshot) -> list[Pod]:
    rollout = snapshot.rollout
    if rollout is None:
        return []
    return [
        pod
        for pod in snapshot.worker_pods
        if is_terminating(pod) and pod.metadata.name in rollout.outdated and pod.status.pod_ip
    ]
