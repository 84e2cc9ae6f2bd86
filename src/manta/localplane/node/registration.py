"""Registers the nodes of this agent: their Node objects and Leases."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from manta import __version__
from manta.api.core import EGRESS_UNAVAILABLE
from manta.api.meta import Key
from manta.api.quantity import Quantity
from manta.api.resources import LEASES, NODES
from manta.api.times import format_micro_time, format_time
from manta.api.well_known import LABEL_ARCH, LABEL_HOSTNAME, LABEL_OS, RESOURCES_OF_GPUS
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, MantaError, NotFound
from manta.localplane.kubelet import (
    LEASE_NAMESPACE,
    lease_manifest,
    lease_spec,
    node_condition,
    node_conditions,
)
from manta.localplane.node.host.pressure import measure, pressures
from manta.localplane.node.machine import Machine, NodeOptions, node_names
from manta.localplane.node.spec.pod_spec import Quantities
from manta.runtime.clock import Clock

log = logging.getLogger(__name__)

RENEW_SECONDS = 10.0
GPU_UNAVAILABLE = "GpuUnavailable"
"""The condition of a node one of whose GPUs cannot be used."""
Conditions = Mapping[str, tuple[str, str]]


def capacity(options: NodeOptions) -> Quantities:
    """The capacity of one node. Several nodes on one machine each have the full configured capacity."""
    memory = options.memory or _machine_memory()
    cpus = options.cpus or os.cpu_count() or 1
    return {
        "cpu": str(Quantity.parse(cpus)),
        "memory": f"{memory // 1024}Ki",
        "pods": str(options.pods),
        "ephemeral-storage": f"{_free_disk(options.dir) // 1024}Ki",
    }


def _machine_memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _free_disk(directory: Path) -> int:
    found = os.statvfs(directory if directory.exists() else "/")
    return found.f_blocks * found.f_frsize


def node_manifest(name: str, labels: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                LABEL_HOSTNAME: name,
                LABEL_OS: "linux",
                LABEL_ARCH: _ARCHITECTURES.get(platform.machine(), platform.machine()),
                **labels,
            },
        },
    }


_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def node_status(
    name: str,
    capacity_: Quantities,
    address: str,
    now: datetime,
    *,
    allocatable: Quantities | None = None,
    shortages: Conditions | None = None,
    troubles: Conditions | None = None,
) -> dict[str, Any]:
    """`shortages`, `troubles`: condition type -> reason and message. A trouble is shown only while it
    lasts. `allocatable`: None if it is the capacity."""
    stamp = format_time(now)
    conditions = node_conditions(stamp, shortages)
    for type_, (reason, message) in (troubles or {}).items():
        conditions.append(node_condition(type_, "True", reason, message, stamp))
    return {
        "capacity": capacity_,
        "allocatable": capacity_ if allocatable is None else allocatable,
        "conditions": conditions,
        "addresses": [
            {"type": "InternalIP", "address": address},
            {"type": "Hostname", "address": name},
        ],
        "nodeInfo": {
            "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
            "operatingSystem": "linux",
            "kernelVersion": platform.release(),
            "osImage": "the machine's own",
            "containerRuntimeVersion": f"manta://{__version__}",
            "kubeletVersion": f"v1.34.0+manta-{__version__}",
            "kubeProxyVersion": "",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
    }


def _without_lost_gpus(status: dict[str, Any]) -> dict[str, Any]:
    """The patch of this status: it removes what the last start offered, as with another `--gpus`."""
    none: dict[str, str | None] = dict.fromkeys(RESOURCES_OF_GPUS)
    return {**status, **{kind: none | status[kind] for kind in ("capacity", "allocatable")}}


def _troubles(machine: Machine, node: str) -> Conditions:
    found = {
        "DnsUnavailable": ("AddressTaken", machine.dns_error),
        EGRESS_UNAVAILABLE: ("NoUplink", machine.egress_error),
        GPU_UNAVAILABLE: (machine.gpus.trouble_reason, machine.gpus.trouble(node)),
    }
    return {type_: known for type_, known in found.items() if known[1]}


class Registrar:
    """Creates the Node objects of this agent and renews their Leases."""

    def __init__(self, client: Client, clock: Clock, machine: Machine) -> None:
        self._client = client
        self._clock = clock
        self._machine = machine
        self._options = machine.options
        self._paused: set[str] = set()
        self._shortages: Conditions = {}

    def pause(self, name: str) -> None:
        """Stop renewing the Lease of a node."""
        self._paused.add(name)

    async def resume(self, name: str) -> None:
        self._paused.discard(name)
        await self._register(name)

    async def register(self) -> None:
        self._shortages = self._measure()
        for name in node_names(self._options):
            await self._register(name)

    async def _register(self, name: str) -> None:
        try:
            await self._client.create(NODES, "", node_manifest(name, {}))
        except AlreadyExists:
            log.debug("node %s exists already", name)
        await self._report(name)

    async def _report(self, name: str) -> None:
        """Write status and Lease of a registered node. Like a kubelet, does not re-create a deleted Node
        until the agent restarts."""
        machine, usual = self._machine, capacity(self._options)
        status = node_status(
            name,
            usual | machine.gpus.capacity(name),
            machine.host_address,
            self._clock.now(),
            allocatable=usual | machine.gpus.allocatable(name),
            shortages=self._shortages,
            troubles=_troubles(machine, name),
        )
        patch = {"status": _without_lost_gpus(status)}
        await self._client.patch(NODES, Key("", name), patch, subresource="status")
        await self._renew(name)

    async def report(self) -> None:
        """Write the status of all nodes at once."""
        for name in node_names(self._options):
            if name not in self._paused:
                await self._report(name)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            shortages, self._shortages = self._shortages, self._measure()
            renew = self._renew if shortages.keys() == self._shortages.keys() else self._report
            for name in node_names(self._options):
                if name in self._paused:
                    continue
                try:
                    await renew(name)
                except MantaError as error:
                    log.warning("lease of node %s not renewed: %s", name, error)

    def _measure(self) -> Conditions:
        return pressures(measure(self._options.dir), self._options.dir)

    async def _renew(self, name: str) -> None:
        now = format_micro_time(self._clock.now())
        try:
            await self._client.patch(
                LEASES, Key(LEASE_NAMESPACE, name), {"spec": lease_spec(name, now)}
            )
        except NotFound:
            await self._client.create(LEASES, LEASE_NAMESPACE, lease_manifest(name, now))
