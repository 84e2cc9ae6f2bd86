"""When a cluster makes no headway, is it the cluster, or is our picture of it wrong?

A watch event that was lost on its way would leave a Pod as it was in the cache, for ever (C49). So
a cluster that is not whole and has not moved for a minute has its Pods read from the server
itself. A namespace is read at most once a minute, however many of its clusters are in doubt; a
healthy cluster is never read.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from manta.api.core import Pod
from manta.api.times import parse_time
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.controllers.raycluster.status import is_whole
from manta.kube.errors import MantaError
from manta.runtime.informer import Informer

QUIET: Final = timedelta(seconds=60)


class Doubts:
    def __init__(self, pods: Informer[Pod]) -> None:
        self._pods = pods
        self._read_at: dict[str, datetime] = {}

    async def resolve(self, seen: ClusterSnapshot) -> bool:
        """True when the Pods were read anew, and the caches should be looked at again."""
        namespace = seen.cluster.metadata.namespace
        last = self._read_at.get(namespace)
        if not is_stalled(seen) or (last is not None and seen.now - last < QUIET):
            return False
        self._read_at[namespace] = seen.now
        try:
            await self._pods.read_namespace(namespace)
        except MantaError:
            return False  # the caches are as good as before; the next round asks again
        return True


def is_stalled(seen: ClusterSnapshot) -> bool:
    told = seen.cluster.status.last_update_time
    if told is None or seen.violations or seen.is_being_deleted or is_whole(seen):
        return False
    return seen.now - parse_time(told) >= QUIET
