"""What the Pods of one plane share on this machine: network, launcher, images, volumes, cgroups."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from manta.localplane.node.gpus.machine_gpus import GpuOptions, MachineGpus
from manta.localplane.node.host import plane_register
from manta.localplane.node.host.cgroups import Cgroups
from manta.localplane.node.host.netlink import SOCKET, Netlink
from manta.localplane.node.host.plane_id import interface_prefix, plane_of
from manta.localplane.node.images.store import ImageStore
from manta.localplane.node.net.address_ranges import RangeRequest, Ranges, claim_ranges
from manta.localplane.node.net.command_rewriter import ProgramTable
from manta.localplane.node.net.egress import NO_PACKET_RULES, PlaneNetwork, open_egress
from manta.localplane.node.net.pod_network import PodNetwork
from manta.localplane.node.net.shared_network import SharedNetwork
from manta.localplane.node.net.sockets import PodSockets
from manta.localplane.node.net.user_egress import open_user_egress
from manta.localplane.node.sandbox.launcher import Launcher, Mode, NoNamespaces
from manta.localplane.node.spec.pod_files import Dns
from manta.localplane.node.storage.volumes import Volumes
from manta.localplane.waking import Wake

log = logging.getLogger(__name__)

Isolation = Literal["namespaces", "none"]


@dataclass(frozen=True, slots=True)
class NodeOptions:
    dir: Path
    """All files of the agent are below this directory."""
    plane: Path | None = None
    """Directory of the whole plane, with its keys; hidden from Pods. None: `dir` itself."""
    name: str = "manta"
    """Name of the node, or the prefix of the names of several nodes."""
    nodes: int = 1
    cpus: float | None = None
    """The CPUs of each node. None: those of the machine."""
    memory: int | None = None
    """Bytes of each node. None: what the machine has."""
    gpus: GpuOptions = field(default_factory=GpuOptions)
    """Which GPUs of the machine the nodes offer together."""
    pods: int = 110
    isolation: Isolation = "namespaces"
    rootless: bool = False
    """Run Pods in a user namespace also as root. Unprivileged users always do."""
    ranges: Ranges | None = None
    """Addresses of Services and Pods from `claim_ranges`. None: claimed at the start."""
    cluster_domain: str = "cluster.local"
    cache: Path | None = None
    """Directory of the environments of images. None: ~/.cache/manta/images."""
    api_server: tuple[str, int] | None = None
    """Host and port of the API server on this machine, for the Service `kubernetes`."""
    egress: bool = True
    """Let Pods reach what the machine reaches; for unprivileged users by slirp4netns or pasta."""
    ingress_port: int = 0
    """Port on 127.0.0.1 for Ingresses and Gateways. 0: a free one, the same next time."""
    programs: ProgramTable = field(default_factory=ProgramTable)
    """Without isolation: what the agent must know of the programs that Pods run."""
    limit_cpu: bool = True
    """Enforce the CPU limits of containers."""
    on_kept: Callable[[], None] | None = None
    """Called when something of a Pod was kept below `kept_directory`. None: nothing is kept."""
    wake: Wake | None = None
    """Called when somebody connects to a Service without endpoints."""


def node_names(options: NodeOptions) -> tuple[str, ...]:
    if options.nodes == 1:
        return (options.name,)
    return tuple(f"{options.name}-{number}" for number in range(1, options.nodes + 1))


def launcher_mode(options: NodeOptions) -> Mode:
    """Raises NoNamespaces on a system other than Linux."""
    if sys.platform != "linux":
        raise NoNamespaces(
            "Pods as processes need Linux. On this system run manta inside a Linux virtual"
            " machine (on macOS for example: colima start, then colima ssh)"
        )
    if options.isolation == "none":
        return "plain"
    return "user" if options.rootless or os.geteuid() != 0 else "root"


class Machine:
    """Created by `open`."""

    def __init__(self, options: NodeOptions, directory: Path, launcher: Launcher) -> None:
        self.options = options
        self.directory = directory
        self.plane = options.plane.resolve() if options.plane else directory
        self.launcher = launcher
        self.isolated = launcher.mode != "plain"
        self.userns = launcher.mode == "user"
        self.network: PodNetwork | None = None
        self.shared = None if self.isolated else SharedNetwork(directory, options.programs)
        """In place of `network` if Pods have no network of their own."""
        self.ranges = options.ranges or claim_ranges(
            directory, RangeRequest(), shared=launcher.mode == "root"
        )
        self.sockets = PodSockets(launcher)
        self.dns_error = ""
        """Why Pods cannot resolve names; empty if they can."""
        self.egress_error = ""
        """Why Pods cannot reach what the machine reaches; empty if they can."""
        cache = options.cache or Path.home() / ".cache" / "manta" / "images"
        self.images = ImageStore(cache, directory / "images.yaml")
        self.volumes = Volumes(self.plane, directory / "claims")
        self.cgroups = Cgroups(directory)
        self.gpus = MachineGpus.none(directory)

    @classmethod
    async def open(cls, options: NodeOptions) -> Machine:
        directory = options.dir.resolve()
        directory.mkdir(parents=True, exist_ok=True)
        launcher = Launcher(directory, launcher_mode(options))
        try:
            await launcher.open()
            machine = cls(options, directory, launcher)
            machine.gpus = await MachineGpus.open(options.gpus, directory, node_names(options))
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
        try:
            await self._open_egress(self._plane_network(self.network))
        except BaseException:  # the launcher may die meanwhile
            self.network.close()
            raise

    async def _open_egress(self, plane: PlaneNetwork) -> None:
        if self.userns:
            if self.options.egress:
                self.egress_error = await open_user_egress(self.directory, self.launcher, plane)
        else:
            with plane_register.locked():  # another plane may be restoring the forwarding
                opened = open_egress(plane, out=self.options.egress)
            if not opened:
                self.egress_error = NO_PACKET_RULES
        if self.egress_error:
            log.warning(self.egress_error)

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
        """Directories that no container may see: those of planes, with keys, state and Pods."""
        others: list[Path] = []
        if self.launcher.mode == "root":
            with plane_register.locked() as register:
                others = [plane_of(one) for one in register.others(self.directory)]
        return tuple(str(path) for path in (self.plane, *others))

    def pod_directory(self, uid: str) -> Path:
        return self.directory / "pods" / uid

    @property
    def kept_directory(self) -> Path:
        """What was kept of Pods that are gone, one directory for each."""
        return self.directory / "kept"

    def close(self) -> None:
        """Disconnect; Pods keep running."""
        self.launcher.close()
        if self.network is not None:
            self.network.close()
