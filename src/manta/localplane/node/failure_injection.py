"""Simulates the loss of a node: `kubectl annotate node NAME manta.dev/lost=true`.

The agent kills all processes of the node without reporting it and stops renewing the Lease, as if the
machine had lost power. When the annotation is removed, the node comes back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from manta.api.core import Node
from manta.api.resources import NODES
from manta.api.well_known import ANNOTATION_LOST_NODE
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.localplane.node.registration import Registrar
from manta.runtime.informer import Informer

log = logging.getLogger(__name__)


def is_lost(node: Node | None) -> bool:
    return node is not None and node.metadata.annotations.get(ANNOTATION_LOST_NODE) == "true"


class FailureInjector:
    def __init__(
        self,
        client: Client,
        names: Sequence[str],
        lose: Callable[[str], None],
        restore: Callable[[str], None],
        registrar: Registrar,
    ) -> None:
        self._names = frozenset(names)
        self._lose = lose
        self._restore = restore
        self._registrar = registrar
        self._nodes = Informer(client, NODES, Node)
        self._restored: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        self._nodes.add_handler(self._changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run(), name="watch nodes")
            while True:
                await self._bring_back(await self._restored.get())

    def _changed(self, old: Node | None, new: Node | None) -> None:
        known = new or old
        if known is None or known.metadata.name not in self._names:
            return
        name = known.metadata.name
        if is_lost(new) and not is_lost(old):
            self._registrar.pause(name)
            self._lose(name)
        elif is_lost(old) and not is_lost(new):
            self._restored.put_nowait(name)

    async def _bring_back(self, name: str) -> None:
        try:
            await self._registrar.resume(name)
        except MantaError as error:
            log.warning("node %s did not come back: %s", name, error)
        self._restore(name)
