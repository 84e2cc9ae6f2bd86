"""What the Pods of one plane share on this machine: network, launcher, images, claims, cgroups."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network
from pathlib import Path
from typing import Literal

from manta.localplane.node.cgroups import Cgroups
from manta.localplane.node.images import ImageStore
from manta.localplane.node.network import PodNetwork, plane_id
from manta.localplane.node.podfiles import Dns
from manta.localplane.node.processes import Launcher
from manta.localplane.node.volumes import Volumes

Isolation = Literal["namespaces", "none"]


@dataclass(frozen=True, slots=True)
class NodeOptions:
    dir: Path
    """Everything that the agent keeps is below this directory."""
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
    """The agent runs inside a user namespace of its own (see rootless.py)."""
    service_cidr: str = "10.96.0.0/16"
    cluster_domain: str = "cluster.local"
    cache: Path | None = None
    """Where environments of images are kept. None: ~/.cache/manta/images."""
    api_server: tuple[str, int] | None = None
    """Where the `kubernetes` Service leads: host and port of the API server on this machine."""
    limit_cpu: bool = True
    """Hold containers to their CPU limits, as a kubelet does."""


class Machine:
    def __init__(self, options: NodeOptions) -> None:
        self.options = options
        self.directory = options.dir.resolve()
        self.directory.mkdir(parents=True, exist_ok=True)
        self.isolated = options.isolation == "namespaces"
        self.network = (
            PodNetwork.open(self.directory, IPv4Network(options.service_cidr))
            if self.isolated
            else None
        )
        self.launcher = Launcher(self.directory)
        cache = options.cache or Path.home() / ".cache" / "manta" / "images"
        self.images = ImageStore(cache, options.dir / "images.yaml")
        self.volumes = Volumes(self.directory / "claims")
        self.cgroups = Cgroups(self.directory, plane_id(self.directory))
        self.host_address = str(self.network.gateway) if self.network else "127.0.0.1"

    @property
    def dns(self) -> Dns:
        try:
            machine = Path("/etc/resolv.conf").read_text()
        except OSError:
            machine = ""
        return Dns(self.host_address, self.options.cluster_domain, machine)

    def pod_directory(self, uid: str) -> Path:
        return self.directory / "pods" / uid

    def close(self) -> None:
        """Let go; Pods stay as they are."""
        self.launcher.close()
        if self.network is not None:
            self.network.close()
