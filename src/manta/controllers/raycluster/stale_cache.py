"""Reads the Pods of a stalled cluster from the API server, in case the cache is stale.

A lost watch event would leave an old Pod in the cache for ever (C49). So if a cluster is not ready and
its status has not changed for a minute, its Pods are read from the API server. A namespace is read at
most once a minute, whatever the number of its clusters. A healthy cluster is never read.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from manta.api.core import Pod
from manta.api.times import parse_time
from manta.controllers.raycluster.facts import all_pods_ready
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.kube.errors import MantaError
from manta.runtime.informer import Informer

STALLED_AFTER: Final = timedelta(seconds=60)


class StaleCacheCheck:
    def __init__(self, pods: Informer[Pod]) -> None:
        self._pods = pods
        self._read_at: dict[str, datetime] = {}

    async def refresh(self, snapshot: ClusterSnapshot) -> bool:
        """True when the Pods were read, and the caches should be observed again."""
        namespace = snapshot.cluster.metadata.namespace
        last = self._read_at.get(namespace)
        if not is_stalled(snapshot) or (last is not None and snapshot.now - last < STALLED_AFTER):
            return False
        self._read_at[namespace] = snapshot.now
        try:
            await self._pods.read_namespace(namespace)
        except MantaError:
            return False  # the cache is unchanged; the next reconcile tries again
        return True


def is_stalled(snapshot: ClusterSnapshot) -> bool:
    updated = snapshot.cluster.status.last_update_time
    if updated is None or snapshot.violations or snapshot.is_being_deleted:
        return False
    if all_pods_ready(snapshot):
        return False
    return snapshot.now - parse_time(updated) >= STALLED_AFTER
