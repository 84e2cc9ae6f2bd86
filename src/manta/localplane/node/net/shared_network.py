"""Pods without a network of their own (`--isolation none`): their addresses and ports on the machine.

Every Pod gets a loopback address, but programs that listen on all addresses still compete for ports.
A port that only the Pod itself uses is replaced by a free one; a port that its clients know is refused
if another Pod or program has it.
"""

from __future__ import annotations

import errno
import os
import socket
import tempfile
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from manta.localplane.node.host.plane_id import plane_id
from manta.localplane.node.net.command_rewriter import PortMapping, ProgramTable, declared_ports
from manta.localplane.node.net.pod_network import Addresses
from manta.localplane.node.spec.environment import ConfigError
from manta.localplane.node.spec.pod_spec import NodePod

_POD_HAS_IT = (
    "port {port} is taken by Pod {owner}: with --isolation none all Pods share the ports of this machine."
    " Delete the other Pod, or run as root or where user namespaces are allowed (`manta doctor`)"
)
_PROGRAM_HAS_IT = (
    "port {port} is taken by another program of this machine, whose ports Pods share with"
    " --isolation none: stop it, or give the Pod another containerPort"
)


def scratch_directory(directory: Path) -> Path:
    """The directory for temporary files of the programs of the plane in `directory`. Its path is short
    because sockets are created below it."""
    return Path(tempfile.gettempdir(), f"manta-{plane_id(directory)}")


def make_scratch_directory(directory: Path) -> Path:
    """Raises ConfigError if the directory belongs to another user."""
    scratch = scratch_directory(directory)
    scratch.mkdir(mode=0o700, exist_ok=True)
    if scratch.lstat().st_uid != os.geteuid():
        raise ConfigError(f"{scratch} belongs to another user: remove it, or choose another --dir")
    return scratch


class PortConflict(OSError):  # noqa: N818 - a state of the machine
    """A port that a Pod needs is taken on the machine."""


class SharedNetwork:
    """Allocates addresses and ports. An agent that starts fills it from the records of running Pods."""

    def __init__(self, directory: Path, programs: ProgramTable) -> None:
        """`programs` tells which ports of a Pod only the Pod itself uses."""
        second_octet = int(plane_id(directory), 16) % 253 + 1
        self.programs = programs
        self._addresses = Addresses(IPv4Network(f"127.{second_octet}.0.0/16"))
        self._owners: dict[int, str] = {}

    def allocate(self, pod: NodePod) -> PortMapping:
        """Raises PortConflict, which names the Pod that has the port."""
        own = self.programs.own_ports(pod)
        name = str(pod.metadata.key)
        for port in sorted({*declared_ports(pod)} - own):
            if (owner := self._owners.get(port, name)) != name:
                raise PortConflict(errno.EADDRINUSE, _POD_HAS_IT.format(port=port, owner=owner))
            if not _is_free(port):
                raise PortConflict(errno.EADDRINUSE, _PROGRAM_HAS_IT.format(port=port))
        ports = {port: self._free_port(port, name) for port in sorted(own)}
        mapping = PortMapping(str(self._addresses.allocate()), ports)
        self.reserve(pod, mapping)
        return mapping

    def _free_port(self, wanted: int, name: str) -> int:
        if self._owners.get(wanted, name) == name and _is_free(wanted):
            return wanted
        with socket.socket() as probe:
            probe.bind(("0.0.0.0", 0))  # noqa: S104 - only to find a free port
            return int(probe.getsockname()[1])

    def reserve(self, pod: NodePod, mapping: PortMapping) -> None:
        """Record what a running Pod has."""
        self._addresses.reserve(IPv4Address(mapping.address))
        own = self.programs.own_ports(pod)
        for port in (*mapping.ports.values(), *(set(declared_ports(pod)) - own)):
            self._owners[port] = str(pod.metadata.key)

    def release(self, pod: NodePod, mapping: PortMapping) -> None:
        self._addresses.release(IPv4Address(mapping.address))
        name = str(pod.metadata.key)
        self._owners = {port: owner for port, owner in self._owners.items() if owner != name}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - only to see whether it is free
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True
