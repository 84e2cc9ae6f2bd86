"""What the Pods of one plane share on this machine: network, launcher, images, claims, cgroups."""

from __future__ import annotations

import logging
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from manta.localplane.node import planeregister
from manta.localplane.node.cgroups import Cgroups
from manta.localplane.node.egress import NO_PACKET_RULES, PlaneNetwork, open_way
from manta.localplane.node.images import ImageStore
from manta.localplane.node.netlink import SOCKET, Netlink
from manta.localplane.node.network import PodNetwork
from manta.localplane.node.planeid import interface_prefix, plane_of
from manta.localplane.node.podfiles import Dns
from manta.localplane.node.processes import Launcher, NoNamespaces, Way
from manta.localplane.node.ranges import Ranges, Wish, claim_ranges
from manta.localplane.node.sharednet import SharedNetwork
from manta.localplane.node.sockets import PodSockets
from manta.localplane.node.user_egress import open_user_egress
from manta.localplane.node.volumes import Volumes

log = logging.getLogger(__name__)

Isolation = Literal["namespaces", "none"]


@dataclass(frozen=True, slots=True)
class NodeOptions:
    dir: Path
    """Everything that the agent keeps is below this directory."""
    plane: Path | None = None
    """Directory of the whole plane, with its keys: no Pod sees it. None: `dir` itself."""
    name: str = "manta"
    """Name of the node; of several nodes, the first part of their names."""
    nodes: int = 1
    cpus: float | None = None
    """Of each node. None: what the machine has."""
    memory: int | None = None
    """Bytes of each node. None: what the machine has."""
    pods: int = 110
    isolation: Isolation = "namespaces"
    rootless: bool = False
    """Keep Pods in a user namespace also when we are root. Ordinary users always do."""
    ranges: Ranges | None = None
    """Addresses of Services and Pods, as `claim_ranges` gave them. None: claimed when it starts."""
    cluster_domain: str = "cluster.local"
    cache: Path | None = None
    """Where environments of images are kept. None: ~/.cache/manta/images."""
    api_server: tuple[str, int] | None = None
    """Where the `kubernetes` Service leads: host and port of the API server on this machine."""
    egress: bool = True
    """Let Pods reach what the machine reaches; for ordinary users by slirp4netns or pasta."""
    ingress_port: int = 0
    """On 127.0.0.1, for Ingresses and Gateways. 0: one that is free, the same again next time."""
    limit_cpu: bool = True
    """Hold containers to their CPU limits, as a kubelet does."""


def way_of(options: NodeOptions) -> Way:
    if sys.platform != "linux":
        raise NoNamespaces(
            "Pods as processes need Linux. On this system run manta inside a Linux virtual"
            " machine (on macOS for example: colima start, then colima ssh)"
        )
    if options.isolation == "none":
        return "plain"
    return "user" if options.rootless or os.geteuid() != 0 else "root"


class Machine:
    """Made by `open`."""

    def __init__(self, options: NodeOptions, directory: Path, launcher: Launcher) -> None:
        self.options = options
        self.directory = directory
        self.plane = options.plane.resolve() if options.plane else directory
        self.launcher = launcher
        self.isolated = launcher.way != "plain"
        self.userns = launcher.way == "user"
        self.network: PodNetwork | None = None
        self.shared = None if self.isolated else SharedNetwork(directory)
        """In place of `network` where Pods have none of their own."""
        self.ranges = options.ranges or claim_ranges(
            directory, Wish(), shared=launcher.way == "root"
        )
        self.sockets = PodSockets(launcher)
        self.dns_trouble = ""
        """Why names cannot be resolved; empty when they can."""
        self.egress_trouble = ""
        """Why Pods cannot reach what the machine reaches; empty when they can."""
        cache = options.cache or Path.home() / ".cache" / "manta" / "images"
        self.images = ImageStore(cache, directory / "images.yaml")
        self.volumes = Volumes(self.plane, directory / "claims")
        self.cgroups = Cgroups(directory)

    @classmethod
    async def open(cls, options: NodeOptions) -> Machine:
        directory = options.dir.resolve()
        directory.mkdir(parents=True, exist_ok=True)
        launcher = Launcher(directory, way_of(options))
        try:
            await launcher.open()
            machine = cls(options, directory, launcher)
            if machine.isolated:
                await machine._open_network()
        except BaseException:
            launcher.close()
            raise
        return machine

    async def _open_network(self) -> None:
        netlink = None
        if self.userns:
            netlink = Netlink(await self.launcher.make_socket(*SOCKET))
        self.network = PodNetwork.open(self.directory, self.ranges, netlink)
        plane = self._plane_network(self.network)
        if self.userns:
            if self.options.egress:
                self.egress_trouble = await open_user_egress(self.directory, self.launcher, plane)
        else:
            with planeregister.locked():  # no other plane may be about to take the way back
                opened = open_way(plane, out=self.options.egress)
            if not opened:
                self.egress_trouble = NO_PACKET_RULES
        if self.egress_trouble:
            log.warning(self.egress_trouble)

    def _plane_network(self, network: PodNetwork) -> PlaneNetwork:
        return PlaneNetwork(
            interface_prefix(self.directory), network.subnet, network.services, network.bridge
        )

    @property
    def host_address(self) -> str:
        return str(self.network.gateway) if self.network else "127.0.0.1"

    @property
    def dns(self) -> Dns:
        try:
            machine = Path("/etc/resolv.conf").read_text()
        except OSError:
            machine = ""
        return Dns(self.host_address, self.options.cluster_domain, machine)

    @property
    def hidden(self) -> tuple[str, ...]:
        """What no container may see: where planes keep their keys, state and Pods."""
        others: list[Path] = []
        if self.launcher.way == "root":
            with planeregister.locked() as register:
                others = [plane_of(one) for one in register.others(self.directory)]
        return tuple(str(path) for path in (self.plane, *others))

    def pod_directory(self, uid: str) -> Path:
        return self.directory / "pods" / uid

    def close(self) -> None:
        """Let go; Pods stay as they are."""
        self.launcher.close()
        if self.network is not None:
            self.network.close()
