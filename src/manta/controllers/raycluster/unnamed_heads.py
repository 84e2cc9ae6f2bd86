"""Heads that are gone before the status named them.

The status of a cluster that starts is held back for some seconds. A head that is lost meanwhile is remembered here,
so that the status names it before its successor is created, under another name (ADR 9).
"""

from __future__ import annotations

from manta.api.meta import Key, Uid
from manta.api.ray.cluster import RayClusterStatus
from manta.controllers.raycluster.snapshot import ClusterSnapshot


class UnnamedHeads:
    def __init__(self) -> None:
        self._seen: dict[Key, tuple[Uid, str, str]] = {}
        """UID of the RayCluster, the head that its status names, and the head that was seen."""
        self.forget_all = self._seen.clear

    def of(self, snapshot: ClusterSnapshot) -> str:
        """The head that is gone and that the status never named; empty if there is none.

        In SidecarMode a head that the status does not name has run nothing, and naming it would end the job.
        """
        meta, head = snapshot.cluster.metadata, snapshot.head
        uid, named = meta.uid, snapshot.cluster.status.head.pod_name
        if head is None:
            *known, name = self._seen.get(meta.key, ("", "", ""))
            return name if known == [uid, named] else ""
        if head.metadata.name == named or snapshot.submits_beside_head:
            self.forget(meta.key)
        else:
            self._seen[meta.key] = uid, named, head.metadata.name
        return ""

    def wrote(self, key: Key, status: RayClusterStatus) -> None:
        """A written status names this head. If the server dropped the name, nothing waits for it any longer."""
        if key in self._seen and self._seen[key][-1] == status.head.pod_name:
            self.forget(key)

    def forget(self, key: Key) -> None:
        self._seen.pop(key, None)
