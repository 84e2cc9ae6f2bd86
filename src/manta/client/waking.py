"""Wakes a RayCluster that sleeps because nobody used it, when somebody connects to its head Service.

Only what the operator itself suspended is woken: a suspension of the user or of Kueue stays.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import msgspec

from manta.api.conditions import is_true
from manta.api.core import Service
from manta.api.meta import Key
from manta.api.ray import names
from manta.api.ray.cluster import ClusterConditionType, RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import SERVICES
from manta.client.watch import watch_object
from manta.kube.client import Client
from manta.kube.errors import Conflict, MantaError, NotFound
from manta.rules.traits import head_service_name

HOLD_SECONDS: Final = 300.0
"""How long connections are held. Most clients give up earlier."""
_ATTEMPTS: Final = 5
NO_USE: Final = frozenset(
    (names.PORT_NAME_METRICS, str(names.PORT_METRICS), names.PORT_NAME_GCS, str(names.PORT_GCS))
)
"""Ports at which nobody uses a cluster: a metrics server asks for ever, and the cluster's own workers, which end
after the head, look for its GCS."""

log = logging.getLogger(__name__)


class Waker:
    """A `Wake` of the embedded plane."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._waking: dict[Key, asyncio.Task[bool]] = {}
        self._waiting: Counter[Key] = Counter()

    def is_waking(self, service: Key) -> bool:
        return service in self._waking

    async def sleeps(self, service: Key) -> bool:
        try:
            cluster = await cluster_behind(self._client, service)
        except MantaError as error:
            log.warning("whether Service %s sleeps is not known: %s", service, error)
            return False
        return cluster is not None and sleeps(cluster)

    async def __call__(self, service: Key, port: str = "") -> bool:
        """All who ask wait for the same resume. Once it has begun it goes on if they leave."""
        if port in NO_USE:
            return False
        if service not in self._waking:
            task = asyncio.create_task(self._serve_again(service))
            self._waking[service] = task
            task.add_done_callback(lambda _: self._waking.pop(service, None))
        self._waiting[service] += 1
        try:
            return await asyncio.shield(self._waking[service])
        finally:
            self._waiting[service] -= 1
            self._waiting += Counter()  # drops what is zero

    async def _serve_again(self, service: Key) -> bool:
        try:
            async with asyncio.timeout(HOLD_SECONDS):
                key = await self._resume(service)
                if key is None:
                    return False
                log.info("RayCluster %s is resumed: its head is used", key)
                return await self._until(key, has_ready_head)
        except MantaError as error:
            log.warning("Service %s is used, but was not woken: %s", service, error)
        except TimeoutError:
            log.warning("Service %s is not ready after %.0f s", service, HOLD_SECONDS)
        return False

    async def _until(self, key: Key, wanted: Callable[[RayCluster], bool]) -> bool:
        """False: the cluster was deleted."""
        async with aclosing(watch_object(self._client, RAY_CLUSTERS, key)) as changes:
            async for document in changes:
                if document is None:
                    return False
                if wanted(msgspec.convert(document, RayCluster)):
                    return True
        return False

    async def _resume(self, service: Key) -> Key | None:
        """The cluster that was resumed; None if none sleeps. Raises MantaError.

        Not before its Pods are gone: those that look for their head meanwhile are no use of it."""
        for _ in range(_ATTEMPTS):
            cluster = await cluster_behind(self._client, service)
            if cluster is None or not sleeps(cluster):
                return None
            if not is_suspended(cluster):
                await self._until(cluster.metadata.key, is_suspended)
                if not self._waiting[service]:
                    log.info("Service %s is not woken: who used it has left", service)
                    return None
                continue
            try:
                await resume(self._client, cluster)
            except Conflict:  # the operator wrote its status meanwhile
                continue
            return cluster.metadata.key
        raise MantaError(f"RayCluster of {service} changes all the time")


async def cluster_behind(client: Client, service: Key) -> RayCluster | None:
    """The RayCluster whose head Service this is. Raises MantaError."""
    try:
        owner = (await client.get(SERVICES, service, into=Service)).metadata.controller
        if owner is None or owner.kind != RAY_CLUSTERS.kind:
            return None
        key = Key(service.namespace, owner.name)
        cluster = await client.get(RAY_CLUSTERS, key, into=RayCluster)
    except NotFound:
        return None
    is_head = head_service_name(cluster) == service.name
    return cluster if is_head and cluster.metadata.uid == owner.uid else None


def sleeps(cluster: RayCluster) -> bool:
    """Whether the operator suspended it because nobody used it."""
    marked = names.ANNOTATION_IDLE_SUSPENDED in cluster.metadata.annotations
    return marked and bool(cluster.spec.suspend) and cluster.metadata.deletion_timestamp is None


def is_suspended(cluster: RayCluster) -> bool:
    """Whether its Pods are gone, or it is no longer to be suspended."""
    is_gone = is_true(cluster.status.conditions, ClusterConditionType.SUSPENDED)
    return is_gone or not sleeps(cluster)


def has_ready_head(cluster: RayCluster) -> bool:
    """Whether the head of a cluster that was resumed serves. Until it is suspended, its old head is there."""
    conditions = cluster.status.conditions
    is_over = is_true(conditions, ClusterConditionType.SUSPENDING) or is_true(
        conditions, ClusterConditionType.SUSPENDED
    )
    return not is_over and is_true(conditions, ClusterConditionType.HEAD_POD_READY)


async def resume(client: Client, cluster: RayCluster) -> None:
    """Start its Pods again, if nobody else changed it meanwhile. The operator removes its own marks, and says
    so in an Event. Raises Conflict."""
    meta = cluster.metadata
    guard = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    await client.patch(RAY_CLUSTERS, meta.key, {"metadata": guard, "spec": {"suspend": False}})
