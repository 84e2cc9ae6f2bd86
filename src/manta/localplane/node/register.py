"""The nodes themselves: their Node objects, and the Leases that say they are alive."""

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
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, MantaError, NotFound
from manta.localplane.node.machine import NodeOptions
from manta.localplane.node.podspec import Quantities
from manta.localplane.node.pressures import look, pressures
from manta.runtime.clock import Clock

log = logging.getLogger(__name__)

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_EVERY = 10.0
Scarce = Mapping[str, tuple[str, str]]
_PRESSURES = {
    "MemoryPressure": ("KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    "DiskPressure": ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    "PIDPressure": ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
}


def node_names(options: NodeOptions) -> tuple[str, ...]:
    if options.nodes == 1:
        return (options.name,)
    return tuple(f"{options.name}-{number}" for number in range(1, options.nodes + 1))


def capacity(options: NodeOptions) -> Quantities:
    """What one node offers. Several nodes on one machine each offer what was asked for."""
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
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": _ARCHITECTURES.get(platform.machine(), platform.machine()),
                **labels,
            },
        },
    }


_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def node_status(
    name: str,
    offered: Quantities,
    address: str,
    now: datetime,
    *,
    trouble: str = "",
    no_egress: str = "",
    scarce: Scarce | None = None,
) -> dict[str, Any]:
    """`trouble`: why the cluster's names cannot be resolved here. `no_egress`: why Pods reach nothing
    outside. `scarce`: what the machine lacks."""
    stamp = format_time(now)
    scarce = scarce or {}
    conditions = [
        _condition(kind, str(kind in scarce), *scarce.get(kind, words), stamp)
        for kind, words in _PRESSURES.items()
    ]
    words = "kubelet is posting ready status"
    conditions.append(_condition("Ready", "True", "KubeletReady", words, stamp))
    if trouble:
        conditions.append(_condition("DnsUnavailable", "True", "AddressTaken", trouble, stamp))
    if no_egress:
        conditions.append(_condition(EGRESS_UNAVAILABLE, "True", "NoUplink", no_egress, stamp))
    return {
        "capacity": offered,
        "allocatable": offered,
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


def _condition(kind: str, status: str, reason: str, message: str, stamp: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": stamp,
    }


class Registrar:
    """Keeps the Node objects of this agent there and their leases fresh."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        options: NodeOptions,
        address: str,
        trouble: Callable[[], str],
        no_egress: str = "",
    ) -> None:
        self._client = client
        self._clock = clock
        self._options = options
        self._address = address
        self._trouble = trouble
        self._no_egress = no_egress
        self._silent: set[str] = set()
        self._scarce: Scarce = {}

    def silence(self, name: str) -> None:
        """Let a node look lost: its lease is no longer renewed."""
        self._silent.add(name)

    async def speak_again(self, name: str) -> None:
        self._silent.discard(name)
        await self._register(name)

    async def register(self) -> None:
        self._scarce = self._look()
        for name in node_names(self._options):
            await self._register(name)

    async def _register(self, name: str) -> None:
        try:
            await self._client.create(NODES, "", node_manifest(name, {}))
        except AlreadyExists:
            log.debug("node %s is known already", name)
        await self._report(name)

    async def _report(self, name: str) -> None:
        """Status and Lease of a node that is registered. One that was deleted stays so until the agent
        starts again, as with a kubelet."""
        status = node_status(
            name,
            capacity(self._options),
            self._address,
            self._clock.now(),
            trouble=self._trouble(),
            no_egress=self._no_egress,
            scarce=self._scarce,
        )
        await self._client.patch(NODES, Key("", name), {"status": status}, subresource="status")
        await self._renew(name)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(RENEW_EVERY)
            scarce, self._scarce = self._scarce, self._look()
            renew = self._renew if scarce.keys() == self._scarce.keys() else self._report
            for name in node_names(self._options):
                if name in self._silent:
                    continue
                try:
                    await renew(name)
                except MantaError as error:
                    log.warning("lease of node %s not renewed: %s", name, error)

    def _look(self) -> Scarce:
        return pressures(look(self._options.dir), self._options.dir)

    async def _renew(self, name: str) -> None:
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": format_micro_time(self._clock.now()),
        }
        key = Key(LEASE_NAMESPACE, name)
        try:
            await self._client.patch(LEASES, key, {"spec": spec})
        except NotFound:
            manifest = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": LEASE_NAMESPACE},
                "spec": spec,
            }
            await self._client.create(LEASES, LEASE_NAMESPACE, manifest)
