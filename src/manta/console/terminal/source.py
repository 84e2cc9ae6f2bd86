"""Where the terminal gets its snapshots: the watches of one user, as for a visitor of the console."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from manta.api.well_known import RESOURCES_OF_GPUS
from manta.client.gpus import GpuRow
from manta.console.snapshot import Snapshot
from manta.console.visitors import Visitor
from manta.kube.errors import MantaError


class Source(Protocol):
    server: str
    """The address of the API server, shown to the user."""

    @property
    def version(self) -> int:
        """Grows with every change."""
        ...

    def snapshot(self) -> Snapshot: ...

    async def wait_newer(self, version: int, seconds: float) -> None:
        """Return when something has changed since this version, or after so many seconds."""
        ...

    async def gpus(self, snapshot: Snapshot) -> tuple[GpuRow, ...]:
        """What the nodes say about their GPUs. Raises the client's errors."""
        ...


class VisitorSource:
    def __init__(self, visitor: Visitor, server: str) -> None:
        self._visitor = visitor
        self.server = server

    @property
    def version(self) -> int:
        return self._visitor.watch.version

    def snapshot(self) -> Snapshot:
        return self._visitor.watch.snapshot()

    async def wait_newer(self, version: int, seconds: float) -> None:
        with suppress(MantaError):  # the watches fail too, and the screen shows why
            await self._visitor.check()
        await self._visitor.watch.wait_newer(version, seconds)

    async def gpus(self, snapshot: Snapshot) -> tuple[GpuRow, ...]:
        if not any(RESOURCES_OF_GPUS & one.status.capacity.keys() for one in snapshot.nodes):
            return ()
        rights = await self._visitor.rights("default")  # nodes are in none; a review needs one
        return await self._visitor.queries.gpus(snapshot.nodes, rights)
