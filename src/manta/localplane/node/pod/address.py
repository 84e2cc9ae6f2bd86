"""The address and ports of one Pod: on the Pod network, or on the machine's own network."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address
from typing import Any

from manta.localplane.node.machine import Machine
from manta.localplane.node.net.command_rewriter import CommandRewriter, PortMapping
from manta.localplane.node.net.host_ports import HostPorts, PortTaken
from manta.localplane.node.net.shared_network import make_scratch_directory
from manta.localplane.node.spec.pod_spec import NodePod

log = logging.getLogger(__name__)


class PodAddress:
    def __init__(self, machine: Machine, service_address: Callable[[str, str], str | None]) -> None:
        self.value = ""
        """Empty while the Pod has no address."""
        self._machine = machine
        self._service_address = service_address
        self._host_ports = HostPorts(machine.sockets)
        self._mapping: PortMapping | None = None

    def allocate(self, pod: NodePod) -> None:
        """Raises OSError if there is no free address, PortConflict if a port is taken."""
        network, shared = self._machine.network, self._machine.shared
        if pod.spec.host_network or (network is None and shared is None):
            self.value = self._machine.host_address
        elif network is not None:
            self.value = str(network.allocate())
        elif shared is not None:
            self._mapping = shared.allocate(pod)
            self.value = self._mapping.address

    def record(self, pod: NodePod) -> dict[str, Any]:
        """What `restore` needs after a restart of the agent."""
        ports = dict(self._mapping.ports) if self._mapping else {}
        own = self._mapping is not None or (self._machine.isolated and not pod.spec.host_network)
        return {"address": self.value if own else "", "ports": ports}

    async def restore(self, pod: NodePod, record: Mapping[str, Any]) -> None:
        """Take the address of a Pod that an earlier agent started."""
        self.value = str(record.get("address", ""))
        if not self.value:
            return
        if self._machine.network is not None:
            self._machine.network.reserve(IPv4Address(self.value))
            await self._reopen_host_ports(pod)
        if self._machine.shared is not None and not pod.spec.host_network:
            ports = {int(port): int(here) for port, here in record.get("ports", {}).items()}
            self._mapping = PortMapping(self.value, ports)
            self._machine.shared.reserve(pod, self._mapping)

    async def _reopen_host_ports(self, pod: NodePod) -> None:
        """The Pod keeps running without a port that another program has taken meanwhile."""
        try:
            await self._host_ports.open(pod, self.value)
        except PortTaken as error:
            log.warning("Pod %s: %s", pod.metadata.key, error)

    async def attach(self, pod: NodePod, pid: int) -> None:
        """Connect the network namespace of the init `pid` and open the host ports."""
        network = self._machine.network
        if network is None or pod.spec.host_network:
            return
        link = network.attach(IPv4Address(self.value), pid)
        await self._machine.launcher.configure_network(pid, str(link.address), str(link.gateway))
        await self._host_ports.open(pod, self.value)

    def close(self) -> None:
        """Close the host ports of this process; the Pod keeps its address."""
        self._host_ports.close()

    def release(self, pod: NodePod) -> None:
        self._host_ports.close()
        if self._mapping is not None and self._machine.shared is not None:
            self._machine.shared.release(pod, self._mapping)
            self._mapping = None
        network = self._machine.network
        if network is not None and self.value and not pod.spec.host_network:
            network.release(IPv4Address(self.value))
        self.value = ""

    # ── Pods that share the machine's network ──────────────────────────────────────────
    def port(self, number: int) -> int:
        """The port on the machine of a program whose command names port `number`."""
        return self._mapping.port(number) if self._mapping else number

    def rewriter(self) -> CommandRewriter | None:
        """Rewrites the Pod's commands; None for a Pod with a network of its own."""
        shared = self._machine.shared
        if self._mapping is None or shared is None:
            return None
        domain = self._machine.options.cluster_domain
        return CommandRewriter(self._mapping, domain, self._service_address, shared.programs)

    def scratch_variables(self) -> dict[str, str]:
        """Variables that keep temporary files of known programs in a directory of the plane."""
        shared = self._machine.shared
        if shared is None or not shared.programs.scratch_variables:
            return {}
        scratch = str(make_scratch_directory(self._machine.directory))
        return dict.fromkeys(shared.programs.scratch_variables, scratch)
