"""Which Pod holds which GPU.

The truth is one record in the directory of each Pod, written before the Pod starts and removed after
its last process has ended. A new agent reads the records, so that a GPU is never given twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from manta.localplane.node.gpus.allocation import Holding, NoDeviceError, assign, wants_any
from manta.localplane.node.gpus.device import VENDORS, Gpu
from manta.localplane.node.host import wire
from manta.localplane.node.spec.pod_spec import NodePod

RECORD: Final = "gpus.json"
RETURN_SECONDS: Final = 2.0
"""How long a Pod waits for GPUs of one that is just ending, before that is reported as an error."""


class GpuPool:
    def __init__(self, dealt: Mapping[str, Sequence[Gpu]], pods: Path) -> None:
        """`dealt`: the GPUs of each node. `pods`: where the directories of Pods are."""
        self._dealt = dealt
        self._pods = pods
        self._returned = asyncio.Event()
        self._broken: frozenset[str] = frozenset()
        self.holdings: dict[str, Holding] = read_holdings(pods)
        """By UID of the Pod."""

    def of_node(self, node: str) -> tuple[Gpu, ...]:
        return tuple(self._dealt.get(node, ()))

    def set_broken(self, ids: frozenset[str]) -> None:
        """These are given to no further Pod."""
        self._broken = ids

    def free(self, node: str) -> tuple[Gpu, ...]:
        held = {id_ for one in self.holdings.values() for id_ in one.ids} | self._broken
        return tuple(gpu for gpu in self.of_node(node) if gpu.id not in held)

    def give(self, pod: NodePod) -> Holding | None:
        """What the Pod holds from now on; None if it asks for no GPU. Raises NoDeviceError.

        The same again for a Pod that holds some already."""
        meta, node = pod.metadata, pod.spec.node_name
        if (known := self.holdings.get(meta.uid)) is not None:
            return known
        if not wants_any(pod, tuple(VENDORS)):
            return None
        try:
            containers = assign(pod, self.free(node))
        except NoDeviceError as error:
            raise NoDeviceError(f"{error} of {len(self.of_node(node))} on node {node}") from None
        holding = Holding(meta.namespace, meta.name, containers)
        (self._pods / meta.uid).mkdir(parents=True, exist_ok=True)
        wire.write_record(self._pods / meta.uid / RECORD, _as_record(holding))
        self.holdings[meta.uid] = holding
        return holding

    async def give_when_returned(self, pod: NodePod) -> Holding | None:
        """Like `give`, but wait a little for Pods that are ending. Raises NoDeviceError."""
        deadline = asyncio.get_running_loop().time() + RETURN_SECONDS
        while True:
            self._returned.clear()
            try:
                return self.give(pod)
            except NoDeviceError:
                try:
                    async with asyncio.timeout_at(deadline):
                        await self._returned.wait()
                except TimeoutError:
                    return self.give(pod)

    def release(self, uid: str) -> None:
        """The last process of the Pod has ended."""
        if self.holdings.pop(uid, None) is not None:
            (self._pods / uid / RECORD).unlink(missing_ok=True)
            self._returned.set()


def assign_to_nodes(gpus: Sequence[Gpu], nodes: Sequence[str]) -> dict[str, tuple[Gpu, ...]]:
    """Each GPU belongs to one node; several nodes take turns."""
    return {node: tuple(gpus[turn :: len(nodes)]) for turn, node in enumerate(nodes)}


def read_holdings(pods: Path) -> dict[str, Holding]:
    found = {}
    for path in sorted(pods.glob(f"*/{RECORD}")):
        if (record := wire.read_record(path)) is not None:
            containers = {name: tuple(ids) for name, ids in record["containers"].items()}
            found[path.parent.name] = Holding(record["namespace"], record["name"], containers)
    return found


def _as_record(holding: Holding) -> dict[str, Any]:
    containers = {name: list(ids) for name, ids in holding.containers.items()}
    return {"namespace": holding.namespace, "name": holding.name, "containers": containers}
