"""Losing a node on purpose: `kubectl annotate node NAME manta.dev/lost=true`.

All its processes are killed without a word to the API server and its lease is no longer renewed, as if
its machine had lost power. Without the annotation the node comes back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from manta.api.core import Node
from manta.api.resources import NODES
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.localplane.node.register import Registrar
from manta.runtime.informer import Informer

log = logging.getLogger(__name__)

LOST = "manta.dev/lost"


def is_lost(node: Node | None) -> bool:
    return node is not None and node.metadata.annotations.get(LOST) == "true"


class NodeLosses:
    def __init__(
        self,
        client: Client,
        names: Sequence[str],
        lose: Callable[[str], None],
        find: Callable[[str], None],
        registrar: Registrar,
    ) -> None:
        self._names = frozenset(names)
        self._lose = lose
        self._find = find
        self._registrar = registrar
        self._nodes = Informer(client, NODES, Node)
        self._found: asyncio.Queue[str] = asyncio.Queue()

    async def run(self) -> None:
        self._nodes.add_handler(self._changed)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._nodes.run(), name="watch nodes")
            while True:
                await self._welcome(await self._found.get())

    def _changed(self, old: Node | None, new: Node | None) -> None:
        known = new or old
        if known is None or known.metadata.name not in self._names:
            return
        name = known.metadata.name
        if is_lost(new) and not is_lost(old):
            self._registrar.silence(name)
            self._lose(name)
        elif is_lost(old) and not is_lost(new):
            self._found.put_nowait(name)

    async def _welcome(self, name: str) -> None:
        try:
            await self._registrar.speak_again(name)
        except MantaError as error:
            log.warning("node %s did not come back: %s", name, error)
        self._find(name)
