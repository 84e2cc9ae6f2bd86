"""Registers the nodes of this agent: their Node objects and Leases."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from manta import __version__
from manta.api.core import EGRESS_UNAVAILABLE
from manta.api.meta import Key
from manta.api.quantity import Quantity
from manta.api.resources import LEASES, NODES
from manta.api.times import format_micro_time, format_time
from manta.api.well_known import LABEL_ARCH, LABEL_HOSTNAME, LABEL_OS
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
from manta.localplane.node.machine import NodeOptions
from manta.localplane.node.spec.pod_spec import Quantities
from manta.runtime.clock import Clock

log = logging.getLogger(__name__)

RENEW_EVERY = 10.0
Shortages = Mapping[str, tuple[str, str]]


def node_names(options: NodeOptions) -> tuple[str, ...]:
    if options.nodes == 1:
        return (options.name,)
    return tuple(f"{options.name}-{number}" for number in range(1, options.nodes + 1))


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
    dns_error: str = "",
    egress_error: str = "",
    shortages: Shortages | None = None,
) -> dict[str, Any]:
    """`dns_error`: why Pods cannot resolve names. `egress_error`: why they have no egress. `shortages`:
    condition type -> reason and message."""
    stamp = format_time(now)
    conditions = node_conditions(stamp, shortages)
    if dns_error:
        conditions.append(
            node_condition("DnsUnavailable", "True", "AddressTaken", dns_error, stamp)
        )
    if egress_error:
        conditions.append(
            node_condition(EGRESS_UNAVAILABLE, "True", "NoUplink", egress_error, stamp)
        )
    return {
        "capacity": capacity_,
        "allocatable": capacity_,
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


class Registrar:
    """Creates the Node objects of this agent and renews their Leases."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        options: NodeOptions,
        address: str,
        dns_error: Callable[[], str],
        egress_error: str = "",
    ) -> None:
        self._client = client
        self._clock = clock
        self._options = options
        self._address = address
        self._dns_error = dns_error
        self._egress_error = egress_error
        self._paused: set[str] = set()
        self._shortages: Shortages = {}

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
        status = node_status(
            name,
            capacity(self._options),
            self._address,
            self._clock.now(),
            dns_error=self._dns_error(),
            egress_error=self._egress_error,
            shortages=self._shortages,
        )
        await self._client.patch(NODES, Key("", name), {"status": status}, subresource="status")
        await self._renew(name)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY)
            shortages, self._shortages = self._shortages, self._measure()
            renew = self._renew if shortages.keys() == self._shortages.keys() else self._report
            for name in node_names(self._options):
                if name in self._paused:
                    continue
                try:
                    await renew(name)
                except MantaError as error:
                    log.warning("lease of node %s not renewed: %s", name, error)

    def _measure(self) -> Shortages:
        return pressures(measure(self._options.dir), self._options.dir)

    async def _renew(self, name: str) -> None:
        now = format_micro_time(self._clock.now())
        try:
            await self._client.patch(
                LEASES, Key(LEASE_NAMESPACE, name), {"spec": lease_spec(name, now)}
            )
        except NotFound:
            await self._client.create(LEASES, LEASE_NAMESPACE, lease_manifest(name, now))
