"""The GPUs of this machine as the node agent uses them: found, dealt to nodes, given, watched."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from manta.localplane.node.gpus.device import DeviceNodes, Gpu, GpuHealth, device_nodes, variables
from manta.localplane.node.gpus.inventory import Inventory, find_gpus, take_inventory
from manta.localplane.node.gpus.kernel import KernelGpus
from manta.localplane.node.gpus.pool import GpuPool, assign_to_nodes, read_holdings
from manta.localplane.node.gpus.report import GpuState, gpu_states
from manta.localplane.node.host import wire
from manta.localplane.node.spec.environment import ConfigError
from manta.localplane.node.spec.pod_spec import Quantities

FAKE_RECORD = "gpus.json"
"""Says how many fake GPUs the plane has, for commands that look without the agent."""


@dataclass(frozen=True, slots=True)
class GpuOptions:
    """The flags --gpus and --fake-gpus of `manta up`."""

    limit: int | None = None
    """Offer at most so many. None: all."""
    fake: int = 0
    """Pretend to have so many, instead of those of the machine."""


class MachineGpus:
    def __init__(
        self, inventory: Inventory, directory: Path, nodes: Sequence[str], missing: str = ""
    ) -> None:
        """`missing`: why fewer are offered than were asked for."""
        self._missing = missing
        self._source = inventory.source
        self._directory = directory
        self._by_id = {gpu.id: gpu for gpu in inventory.source.gpus}
        self.pool = GpuPool(assign_to_nodes(inventory.offered, nodes), directory / "pods")
        self.errors: Mapping[str, str] = {}
        """Why a GPU cannot be used, by id."""

    @classmethod
    async def open(cls, options: GpuOptions, directory: Path, nodes: Sequence[str]) -> MachineGpus:
        inventory = await asyncio.to_thread(
            take_inventory, directory, limit=options.limit, fake=options.fake, env=os.environ
        )
        wire.write_record(directory / FAKE_RECORD, {"fake": options.fake})
        return cls(inventory, directory, nodes, _missing(options, len(inventory.offered)))

    @classmethod
    def none(cls, directory: Path) -> MachineGpus:
        return cls(Inventory(KernelGpus(Path("/nonexistent")), ()), directory, ())

    @property
    def found(self) -> tuple[Gpu, ...]:
        """All of the machine, also those that are not offered."""
        return self._source.gpus

    # ── nodes ──────────────────────────────────────────────────────────────────────────
    def capacity(self, node: str) -> Quantities:
        return _counted(self.pool.of_node(node))

    def allocatable(self, node: str) -> Quantities:
        """The capacity without GPUs that have fallen off; a resource of which none is left is 0."""
        usable = [gpu for gpu in self.pool.of_node(node) if gpu.id not in self.errors]
        return {**dict.fromkeys(self.capacity(node), "0"), **_counted(usable)}

    @property
    def trouble_reason(self) -> str:
        return "FewerThanAskedFor" if self._missing and not self.errors else "FallenOff"

    def trouble(self, node: str) -> str:
        """What is wrong with the GPUs of the node, for its condition; empty if nothing is."""
        fallen = [
            f"{gpu.model} {gpu.id}: {self.errors[gpu.id]}"
            for gpu in self.pool.of_node(node)
            if gpu.id in self.errors
        ]
        return "; ".join(filter(None, (self._missing, *fallen)))

    async def check(self) -> bool:
        """Look for GPUs that have fallen off or have come back. Whether any has."""
        before = self.errors
        self.errors = await asyncio.to_thread(self._source.errors)
        self.pool.set_broken(frozenset(self.errors))
        return self.errors != before

    async def states(self, node: str) -> list[GpuState]:
        """What the GPUs of the node do, and who holds them."""
        holdings = tuple(self.pool.holdings.values())
        return await asyncio.to_thread(
            lambda: gpu_states(
                self.pool.of_node(node), self._source.read(), holdings, self._directory
            )
        )

    # ── Pods ───────────────────────────────────────────────────────────────────────────
    def given(self, uid: str, container: str) -> tuple[Gpu, ...]:
        """Raises ConfigError if the machine has one of them no longer."""
        holding = self.pool.holdings.get(uid)
        ids = holding.containers.get(container, ()) if holding else ()
        for id_ in ids:
            if id_ not in self._by_id:
                raise ConfigError(
                    f"this machine no longer has {id_}, which the Pod holds: delete the Pod, so that "
                    "another takes its place"
                )
        return tuple(self._by_id[id_] for id_ in ids)

    def variables(self, uid: str, container: str, *, isolated: bool) -> dict[str, str]:
        return variables(self.given(uid, container), self.found, isolated=isolated)

    def device_nodes(self, uid: str, container: str) -> DeviceNodes:
        return device_nodes(self.given(uid, container), self.found)

    def health(self, uid: str) -> dict[str, tuple[GpuHealth, ...]]:
        """The health of the GPUs that the Pod holds, by container."""
        holding = self.pool.holdings.get(uid)
        return {
            container: tuple(self._health(id_) for id_ in ids)
            for container, ids in (holding.containers if holding else {}).items()
        }

    def _health(self, id_: str) -> GpuHealth:
        gpu = self._by_id.get(id_)
        if gpu is None:
            return GpuHealth("gpu", id_, "this machine has it no longer")
        return GpuHealth(gpu.resource, id_, self.errors.get(id_, ""))


def states_on_this_machine(directory: Path) -> list[GpuState]:
    """Without the agent; `directory` is that of the node. Blocking."""
    record = wire.read_record(directory / FAKE_RECORD) or {}
    source = find_gpus(directory, int(record.get("fake", 0)))
    holdings = read_holdings(directory / "pods").values()
    return gpu_states(source.gpus, source.read() if source.gpus else {}, holdings, directory)


def _missing(options: GpuOptions, offered: int) -> str:
    if options.fake or options.limit is None or options.limit <= offered:
        return ""
    return f"--gpus {options.limit}: this machine has {offered} to offer; `manta doctor` says what it finds"


def _counted(gpus: Sequence[Gpu]) -> Quantities:
    return {name: str(count) for name, count in Counter(gpu.resource for gpu in gpus).items()}
