"""Pods without a network of their own (`--isolation none`): how several live on the machine's.

Every Pod gets a loopback address. That is not enough: much listens on all addresses, and no DNS is
served. So what a container is started with is fitted to the place: a port that a program is told to open
is exchanged for a free one when another Pod has it, programs that would guess their address are told it,
and names of Services become addresses. One Ray cluster with its workers runs like this; the second is
refused, because the ports that its clients know are taken.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from manta.localplane.node.environment import ConfigError
from manta.localplane.node.network import Addresses
from manta.localplane.node.planeid import plane_id
from manta.localplane.node.podspec import NodePod

_OWN_PORTS = re.compile(r"(--(?:metrics-export-port|dashboard-agent-listen-port)[= ])(\d+)")
"""Ports that a program of every Pod opens and that nobody but the Pod's own probes asks."""
_POD_HAS_IT = (
    "port {port} is taken by Pod {owner}: with --isolation none all Pods share the ports of this machine,"
    " enough for one Ray cluster. Delete the other, or run as root or where user namespaces are allowed"
    " (`manta doctor`)"
)
_PROGRAM_HAS_IT = (
    "port {port} is taken by another program of this machine, which Pods share with --isolation none:"
    " stop it, or give the Pod another containerPort"
)
_STARTS = re.compile(r"\bray start\b(?! --node-ip-address)")
_LOCAL = re.compile(r"\b(localhost|127\.0\.0\.1):(\d+)")
_NAMES = r"\b([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)\.([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)\.svc(?:\.{})?"
_END = r"(?!\.?[-a-z0-9])"


def scratch_place(directory: Path) -> Path:
    """Where programs of the plane in `directory` keep what they would keep below /tmp, which others have
    used before. Its name is short: sockets are made below it."""
    return Path(tempfile.gettempdir(), f"manta-{plane_id(directory)}")


def make_scratch(directory: Path) -> dict[str, str]:
    """The variables that tell programs of that place."""
    place = scratch_place(directory)
    place.mkdir(mode=0o700, exist_ok=True)
    if place.lstat().st_uid != os.geteuid():
        raise ConfigError(f"{place} is somebody else's: remove it, or choose another --dir")
    return {"RAY_TMPDIR": str(place)}


class Crowded(OSError):  # noqa: N818 - a state of the machine
    """Two Pods want the same port of the machine."""


@dataclass(frozen=True, slots=True)
class Seat:
    """What one Pod has of the shared network."""

    address: str
    ports: Mapping[int, int] = field(default_factory=dict)
    """Ports that its own programs are told to open -> those that they open here."""

    def port(self, number: int) -> int:
        return self.ports.get(number, number)


class SharedNetwork:
    """Who has which address and which ports; made anew by each agent from the Pods' records."""

    def __init__(self, directory: Path) -> None:
        second = int(plane_id(directory), 16) % 253 + 1
        self._addresses = Addresses(IPv4Network(f"127.{second}.0.0/16"))
        self._owners: dict[int, str] = {}

    def take(self, pod: NodePod) -> Seat:
        """A place for a Pod, or Crowded with the name of who has its port."""
        own = own_ports(pod)
        who = str(pod.metadata.key)
        for port in sorted({*declared_ports(pod)} - own):
            if (owner := self._owners.get(port, who)) != who:
                raise Crowded(errno.EADDRINUSE, _POD_HAS_IT.format(port=port, owner=owner))
            if not _is_free(port):
                raise Crowded(errno.EADDRINUSE, _PROGRAM_HAS_IT.format(port=port))
        ports = {port: self._free(port, who) for port in sorted(own)}
        seat = Seat(str(self._addresses.allocate()), ports)
        self.keep(pod, seat)
        return seat

    def _free(self, wanted: int, who: str) -> int:
        if self._owners.get(wanted, who) == who and _is_free(wanted):
            return wanted
        with socket.socket() as probe:
            probe.bind(("0.0.0.0", 0))  # noqa: S104 - looked at, not listened on
            return int(probe.getsockname()[1])

    def keep(self, pod: NodePod, seat: Seat) -> None:
        """An adopted Pod sits here."""
        self._addresses.reserve(IPv4Address(seat.address))
        who = str(pod.metadata.key)
        own = own_ports(pod)
        for port in (*seat.ports.values(), *(set(declared_ports(pod)) - own)):
            self._owners[port] = who

    def leave(self, pod: NodePod, seat: Seat) -> None:
        self._addresses.release(IPv4Address(seat.address))
        who = str(pod.metadata.key)
        self._owners = {port: owner for port, owner in self._owners.items() if owner != who}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - as above
        except OSError as error:
            return error.errno != errno.EADDRINUSE
    return True


# ── pure ─────────────────────────────────────────────────────────────────────────────────
def declared_ports(pod: NodePod) -> Iterator[int]:
    for container in pod.containers():
        yield from (port.container_port for port in container.ports if port.protocol == "TCP")


def own_ports(pod: NodePod) -> set[int]:
    """Ports that the Pod's programs are told to open and that can be others."""
    words = [word for one in pod.containers() for word in (*one.command, *one.args)]
    words += [variable.value for one in pod.containers() for variable in one.env]
    return {int(found[2]) for word in words for found in _OWN_PORTS.finditer(word)}


@dataclass(frozen=True, slots=True)
class Fitting:
    """How words of a Pod are changed for its seat."""

    seat: Seat
    domain: str
    address_of: Callable[[str, str], str | None]
    """Of a Service by namespace and name: where a Pod of it listens; "" while none does; None: there
    is no such Service."""

    def fit(self, text: str) -> str:
        text = _OWN_PORTS.sub(lambda found: f"{found[1]}{self.seat.port(int(found[2]))}", text)
        text = _LOCAL.sub(lambda found: f"{found[1]}:{self.seat.port(int(found[2]))}", text)
        told = f"ray start --node-ip-address={self.seat.address}"
        text = _STARTS.sub(f"{told} --min-worker-port=0 --max-worker-port=0", text)
        return re.sub(_NAMES.format(re.escape(self.domain)) + _END, self._resolved, text)

    def _resolved(self, found: re.Match[str]) -> str:
        name, namespace = found[1], found[2]
        address = self.address_of(namespace, name)
        if address == "":
            raise ConfigError(
                f'Service "{name}" has no Pod yet, and without isolation no DNS finds it later'
            )
        return found[0] if address is None else address
