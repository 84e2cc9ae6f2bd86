"""Whether the Node of a stuck Pod can still run it.

Nodes are not watched. A Node is read by its name when a Pod on it is stuck, at most every ten seconds
for all its Pods. A Node that is only NotReady does not count as lost: its kubelet may be disconnected
while the containers still run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from manta.api.core import Node
from manta.api.meta import Key
from manta.api.resources import NODES
from manta.api.well_known import TAINT_OUT_OF_SERVICE
from manta.controllers.raycluster.facts import is_stuck
from manta.controllers.raycluster.snapshot import ClusterSnapshot
from manta.kube.client import Client
from manta.kube.errors import Forbidden, MantaError, NotFound

READ_EVERY: Final = timedelta(seconds=10)

log = logging.getLogger(__name__)


class LostNodes:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._read: dict[str, tuple[datetime, str]] = {}
        self._is_forbidden = False

    async def of(self, snapshot: ClusterSnapshot) -> dict[str, str]:
        """The Nodes of stuck Pods that no longer run Pods, each with the reason."""
        stuck = {
            pod.spec.node_name
            for pod in (*snapshot.pods, *snapshot.foreign_pods)
            if is_stuck(snapshot, pod)
        }
        answers = {name: await self._answer(name, snapshot.now) for name in sorted(stuck - {""})}
        return {name: why for name, why in answers.items() if why}

    async def _answer(self, name: str, now: datetime) -> str:
        self._read = {node: read for node, read in self._read.items() if now - read[0] < READ_EVERY}
        if name not in self._read:
            self._read[name] = (now, await self._why_lost(name))
        return self._read[name][1]

    async def _why_lost(self, name: str) -> str:
        try:
            node = await self._client.get(NODES, Key("", name), into=Node)
        except MantaError as error:
            if isinstance(error, NotFound) and not error.of_type:
                return f"Node {name} no longer exists"
            # Any other 404 comes from a proxy in front of the API server, and proves nothing.
            self._log(name, error)
            return ""
        return _why_out_of_service(name, (one.key for one in node.spec.taints))

    def _log(self, name: str, error: MantaError) -> None:
        """A missing permission is logged once: it lasts, and a Pod may be stuck for days."""
        if isinstance(error, Forbidden):
            if self._is_forbidden:
                return
            self._is_forbidden = True
        log.warning("cannot tell whether Node %s is lost: %s", name, error)


def _why_out_of_service(name: str, taints: Iterable[str]) -> str:
    return (
        f"Node {name} has the taint {TAINT_OUT_OF_SERVICE}"
        if TAINT_OUT_OF_SERVICE in taints
        else ""
    )
