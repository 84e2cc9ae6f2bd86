"""Rewrites the command lines of Pods that share the network of the machine (`--isolation none`). Pure.

Such Pods have no port space and no DNS of their own. In commands, arguments and variables, ports that
another Pod has are replaced by free ones, Service names by addresses, and programs that would guess
their address get it as a flag. Which programs and flags these are is a table that the caller gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from manta.localplane.node.spec.environment import ConfigError
from manta.localplane.node.spec.pod_spec import NodePod

_LOCALHOST = re.compile(r"\b(localhost|127\.0\.0\.1):(\d+)")
_LABEL = r"([a-z0-9](?:[-a-z0-9]*[a-z0-9])?)"


@dataclass(frozen=True, slots=True)
class ProgramTable:
    """What must be known of the programs that Pods run on a shared network."""

    port_flags: tuple[str, ...] = ()
    """Flags with a port that only the Pod's own probes use, and which may therefore be replaced."""
    extra_flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Command -> flags to insert behind it; `{address}` stands for the Pod's address."""
    scratch_variables: tuple[str, ...] = ()
    """Variables that name a directory for temporary files: set to one that the plane removes."""

    def own_ports(self, pod: NodePod) -> set[int]:
        """The ports behind `port_flags` in the Pod's commands and variables."""
        words = [word for one in pod.containers() for word in (*one.command, *one.args)]
        words += [variable.value for one in pod.containers() for variable in one.env]
        return {int(found[2]) for word in words for found in self._ports.finditer(word)}

    def rewrite(self, text: str, mapping: PortMapping) -> str:
        text = self._ports.sub(lambda found: f"{found[1]}{mapping.port(int(found[2]))}", text)
        for command, flags in self.extra_flags.items():
            present = flags[0].partition("=")[0]
            inserted = " ".join((command, *flags)).replace("{address}", mapping.address)
            text = re.sub(rf"\b{re.escape(command)}\b(?! {re.escape(present)})", inserted, text)
        return text

    @property
    def _ports(self) -> re.Pattern[str]:
        flags = "|".join(re.escape(flag) for flag in self.port_flags)
        return re.compile(rf"((?:{flags})[= ])(\d+)" if flags else "(?!)")


@dataclass(frozen=True, slots=True)
class PortMapping:
    """The address of a Pod on the shared network, and the ports that were replaced."""

    address: str
    ports: Mapping[int, int] = field(default_factory=dict)
    """Port in the Pod's commands -> port on the machine."""

    def port(self, number: int) -> int:
        return self.ports.get(number, number)


def declared_ports(pod: NodePod) -> Iterator[int]:
    """The TCP ports that the Pod's containers declare."""
    for container in pod.containers():
        yield from (port.container_port for port in container.ports if port.protocol == "TCP")


@dataclass(frozen=True, slots=True)
class CommandRewriter:
    """Rewrites the words of one Pod."""

    mapping: PortMapping
    domain: str
    service_address: Callable[[str, str], str | None]
    """(namespace, name) of a Service -> address of one of its Pods; "" if it has none yet, None if
    there is no such Service."""
    programs: ProgramTable = ProgramTable()

    def rewrite(self, text: str) -> str:
        """Raises ConfigError for the name of a Service that has no Pod yet."""
        text = self.programs.rewrite(text, self.mapping)
        text = _LOCALHOST.sub(lambda found: f"{found[1]}:{self.mapping.port(int(found[2]))}", text)
        domain = re.escape(self.domain)
        name = rf"\b{_LABEL}\.{_LABEL}\.svc(?:\.{domain})?(?!\.?[-a-z0-9])"
        return re.sub(name, self._resolve, text)

    def _resolve(self, found: re.Match[str]) -> str:
        name, namespace = found[1], found[2]
        address = self.service_address(namespace, name)
        if address == "":
            raise ConfigError(
                f'Service "{name}" has no Pod yet, and without isolation there is no DNS to find it'
                " later"
            )
        return found[0] if address is None else address
