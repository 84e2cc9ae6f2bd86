"""The hands of the agent on one Pod: every deed is one coroutine that succeeds or raises.

It keeps what deeds leave behind for later ones (the sandbox, volumes, environments of images) and
decides nothing.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from manta.api.meta import Key
from manta.localplane.node import wire
from manta.localplane.node.attempts import attempt_directory, forget_old, recover
from manta.localplane.node.beneath import Directory
from manta.localplane.node.cgroups import Limits
from manta.localplane.node.channel import Gone, Refused
from manta.localplane.node.environment import ConfigError, Place, container_environment
from manta.localplane.node.hostports import HostPorts, PortTaken
from manta.localplane.node.images import Environment, PullError
from manta.localplane.node.launchspec import Launch, Rooms, container_spec, sub_path_of
from manta.localplane.node.machine import Machine
from manta.localplane.node.observe import Reader
from manta.localplane.node.podfiles import hosts_file, resolv_conf
from manta.localplane.node.podspec import Container, Handler, NodePod, Quantities
from manta.localplane.node.probes import Answer, ask
from manta.localplane.node.processes import (
    PLANE_VARIABLE,
    POD_VARIABLE,
    Execution,
    Sandbox,
    SandboxSpec,
    adopt,
    find_processes,
)
from manta.localplane.node.processtree import end_descendants, kill
from manta.localplane.node.relay import Streams
from manta.localplane.node.sharednet import Fitting, Seat, make_scratch
from manta.localplane.node.snapshot import ContainerFacts
from manta.localplane.node.sockets import PodSockets
from manta.localplane.node.trees import remove_tree
from manta.localplane.node.volumefiles import Content, token_projections
from manta.localplane.node.volumes import PreparedVolumes, ephemeral_claim, make_sub_path

log = logging.getLogger(__name__)

_CGROUP_TRIES = 100
_END_TRIES = 100

News = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Adopted:
    address: str
    containers: Mapping[str, ContainerFacts]
    running: bool
    """The sandbox runs; otherwise only its records were found."""


class PodRuntime:
    def __init__(
        self, machine: Machine, reader: Reader, pod: NodePod, allocatable: Quantities, news: News
    ) -> None:
        self.directory = machine.pod_directory(pod.metadata.uid)
        self.address = ""
        self._machine = machine
        self._reader = reader
        self._pod = pod
        self._allocatable = allocatable
        self._news = news
        self._sandbox: Sandbox | None = None
        self._host_ports = HostPorts(machine.sockets)
        self._seat: Seat | None = None
        self._volumes = PreparedVolumes({}, ())
        self._environments: dict[str, Environment] = {}
        self._tokens: dict[Any, tuple[float, bytes]] = {}

    def see(self, pod: NodePod) -> None:
        """The Pod's object has changed."""
        self._pod = pod

    @property
    def sockets(self) -> PodSockets:
        return self._machine.sockets

    @property
    def host_address(self) -> str:
        return self._machine.host_address

    @property
    def isolated(self) -> bool:
        return self._machine.isolated

    @property
    def dns_trouble(self) -> str:
        wants = self.has_own_network and self._pod.spec.dns_policy.startswith("ClusterFirst")
        return self._machine.dns_trouble if wants else ""

    @property
    def has_own_network(self) -> bool:
        return self._machine.isolated and not self._pod.spec.host_network

    @property
    def sandbox(self) -> Sandbox:
        if self._sandbox is None:
            raise Gone("the Pod has no sandbox")
        return self._sandbox

    # ── beginnings ─────────────────────────────────────────────────────────────────────
    async def adopt(self) -> Adopted | None:
        """What an earlier agent left of this Pod, or None."""
        record = wire.read_record(self.directory / "sandbox.json")
        if record is None:
            return None
        sandbox = adopt(self.directory, self._news, self._machine.launcher)
        running = await sandbox.running() if sandbox is not None else {}
        if sandbox is not None:
            self._sandbox = sandbox
            self.address = str(record.get("address", ""))
            if self._machine.network is not None and self.address:
                self._machine.network.reserve(IPv4Address(self.address))
                await self._reopen_host_ports()
            self._sit_again(record)
        containers = {
            one.name: recover(self.directory, one.name, running) for one in self._pod.containers()
        }
        return Adopted(self.address, containers, sandbox is not None)

    def _sit_again(self, record: Mapping[str, Any]) -> None:
        shared = self._machine.shared
        if shared is not None and self.address and not self._pod.spec.host_network:
            ports = {int(port): int(here) for port, here in record.get("ports", {}).items()}
            self._seat = Seat(self.address, ports)
            shared.keep(self._pod, self._seat)

    async def _reopen_host_ports(self) -> None:
        """The Pod goes on without a port that somebody took meanwhile."""
        try:
            await self._host_ports.open(self._pod, self.address)
        except PortTaken as error:
            log.warning("Pod %s: %s", self._pod.metadata.key, error)

    async def prepare_volumes(self, now: float) -> None:
        """Make or refresh all volumes; repeated now and then to follow changes."""
        await self._check_claims()
        content = Content(
            self._pod, self._place(), await self._reader.sources(self._pod), await self._fresh(now)
        )
        self._volumes = await asyncio.to_thread(
            self._machine.volumes.prepare, self.directory / "volumes", content
        )

    async def _check_claims(self) -> None:
        for volume in self._pod.spec.volumes:
            claim = volume.persistent_volume_claim
            key = Key(self._pod.metadata.namespace, claim.claim_name if claim else "")
            if claim is not None and not await self._reader.has_claim(key):
                raise ConfigError(f'persistentvolumeclaim "{key.name}" not found')

    async def _fresh(self, now: float) -> dict[Any, bytes]:
        """Tokens, asked anew when a fifth of their life is left."""
        for projection in token_projections(self._pod):
            renew_at, _ = self._tokens.get(projection, (0.0, b""))
            if now >= renew_at:
                token = await self._reader.token(self._pod, projection)
                self._tokens[projection] = (now + projection.expiration_seconds * 0.8, token)
        return {projection: token for projection, (_, token) in self._tokens.items()}

    def _place(self) -> Place:
        return Place(
            self._pod.spec.node_name, self._machine.host_address, self.address, self._allocatable
        )

    async def create_sandbox(self) -> str:
        """Namespaces, address, files; returns the Pod's address."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self._machine.isolated:
            await self._end_runaways()
        network = None if self._pod.spec.host_network else self._machine.network
        address = network.allocate() if network else None
        self.address = str(address) if address else self._sit()
        self._write_pod_files()
        meta = self._pod.metadata
        record = {
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "address": str(address) if address else self._seat.address if self._seat else "",
            "ports": dict(self._seat.ports) if self._seat else {},
        }
        spec = SandboxSpec(
            self.directory,
            self._pod.hostname,
            record,
            host_network=network is None,
            isolated=self._machine.isolated,
        )
        try:
            pid = await self._machine.launcher.create(spec)
            self._sandbox = Sandbox(self.directory, pid, self._news)
            if network is not None and address is not None:
                cable = network.attach(address, pid)
                await self._machine.launcher.configure_network(
                    pid, str(cable.address), str(cable.gateway)
                )
                await self._host_ports.open(self._pod, self.address)
            for memory in self._volumes.memory if self._machine.isolated else ():
                await self._sandbox.mount_memory(memory.path, memory.size)
        except BaseException:
            await self.kill_sandbox()
            self.release_address()
            raise
        return self.address

    def _sit(self) -> str:
        """An address for a Pod without a network of its own."""
        shared = None if self._pod.spec.host_network else self._machine.shared
        if shared is None:
            return self._machine.host_address
        self._seat = shared.take(self._pod)
        return self._seat.address

    def _write_pod_files(self) -> None:
        dns = self._machine.dns
        files = {
            "hosts": hosts_file(self._pod, self.address, dns.domain),
            "resolv.conf": resolv_conf(self._pod, dns),
            "hostname": f"{self._pod.hostname}\n",
        }
        with Directory.at(self.directory) as own:
            for name, text in files.items():
                own.write(name, text.encode())

    # ── containers ─────────────────────────────────────────────────────────────────────
    def image_present(self, container: Container) -> str | None:
        """The image's id when nothing has to be made for it."""
        try:
            found = self._machine.images.present(container.image)
        except PullError:
            return None
        if found is None:
            return None
        self._environments[container.name] = found
        return found.image_id

    async def pull(self, container: Container) -> str:
        found = await self._machine.images.ensure(container.image)
        self._environments[container.name] = found
        return found.image_id

    async def start(self, container: Container, attempt: int) -> None:
        """Start one attempt. How it goes on comes as news."""
        sources = await self._reader.sources(self._pod)
        env = container_environment(
            self._pod, container, self._place(), sources, self._reader.services()
        )
        if not self._machine.isolated:
            env[POD_VARIABLE] = self._pod.metadata.uid
            env[PLANE_VARIABLE] = str(self._machine.directory)
            env = make_scratch(self._machine.directory) | env
        directory = attempt_directory(self.directory, container.name, attempt)
        await asyncio.to_thread(self._make_room, container, attempt, env)
        limits = self._limits(container)
        launch = Launch(
            self._pod,
            container,
            attempt,
            env,
            self._environments[container.name],
            self._volumes.paths,
            Rooms(self.directory, directory),
            self._machine.cgroups.create(self._pod.metadata.uid, container.name, limits),
            isolated=self._machine.isolated,
            userns=self._machine.userns,
            hidden=self._machine.hidden,
        )
        spec = container_spec(launch)
        if (fitting := self.fitting()) is not None:
            spec["argv"] = [fitting.fit(word) for word in spec["argv"]]
            spec["env"] = {name: fitting.fit(value) for name, value in spec["env"].items()}
        await self.sandbox.start(spec)

    def fitting(self) -> Fitting | None:
        """How words of the Pod must be changed on a network that it shares with others."""
        if self._seat is None:
            return None
        domain = self._machine.options.cluster_domain
        return Fitting(self._seat, domain, self._reader.service_address)

    def _make_room(self, container: Container, attempt: int, env: Mapping[str, str]) -> None:
        """The attempt's directory, and directories that subPaths name."""
        directory = attempt_directory(self.directory, container.name, attempt)
        directory.mkdir(parents=True, exist_ok=True)
        with Directory.at(directory) as own:
            own.touch("termination-log")
            own.remove("scratch")  # of a start of this attempt that failed
        forget_old(self.directory, container.name, attempt)
        for mount in container.volume_mounts:
            volume = self._volumes.paths.get(mount.name)
            if volume is None:
                raise ConfigError(f'volume "{mount.name}" is not one of the Pod')
            if sub_path := sub_path_of(mount, env):
                make_sub_path(volume, sub_path)

    def resize(self, container: Container) -> None:
        """The limits of a running container have changed."""
        self._machine.cgroups.update(
            self._pod.metadata.uid, container.name, self._limits(container)
        )

    def _limits(self, container: Container) -> Limits:
        limits = Limits.of(container.resources)
        if self._machine.options.limit_cpu:
            return limits
        return Limits(memory=limits.memory, cpu_weight_milli=limits.cpu_weight_milli)

    async def signal(self, container: str, attempt: int, number: int) -> None:
        await self.sandbox.signal(f"{container}/{attempt}", number)

    async def kill(self, container: str, attempt: int) -> None:
        await self.signal(container, attempt, signal.SIGKILL)

    async def ask(
        self,
        container: Container,
        attempt: int,
        handler: Handler,
        timeout: float,  # noqa: ASYNC109
    ) -> Answer:
        """Run a probe or a hook against the container."""
        return await ask(handler, _Target(self, container, attempt), timeout)

    # ── ends ───────────────────────────────────────────────────────────────────────────
    async def kill_sandbox(self) -> None:
        """Everything of the Pod that runs, ends. Also right when nothing runs."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            if not self._machine.isolated:
                await asyncio.to_thread(end_descendants, sandbox.pid)
            sandbox.kill()
            await sandbox.ended.wait()
        if not self._machine.isolated:
            await self._end_runaways()

    async def _end_runaways(self) -> None:
        """Without namespaces, processes of the Pod outlive its init, and hold its ports."""
        mark = f"\0{POD_VARIABLE}={self._pod.metadata.uid}\0".encode()
        for _ in range(_END_TRIES):
            members = self._machine.cgroups.members(self._pod.metadata.uid)
            left = {*find_processes("environ", mark), *members}
            kill(left)
            if not left:
                return
            await asyncio.sleep(0.01)

    def forget_sandbox(self) -> None:
        """It ended by itself."""
        self._sandbox = None

    def release_address(self) -> None:
        self._host_ports.close()
        if self._seat is not None and self._machine.shared is not None:
            self._machine.shared.leave(self._pod, self._seat)
            self._seat = None
        network = self._machine.network
        if network is not None and self.address and not self._pod.spec.host_network:
            network.release(IPv4Address(self.address))
        self.address = ""

    async def remove(self) -> None:
        """Leave no trace on the machine."""
        for volume in self._pod.spec.volumes:
            if volume.ephemeral is not None:
                claim = ephemeral_claim(self._pod, volume)
                self._machine.volumes.remove_claim(self._pod.metadata.namespace, claim)
        await self.kill_sandbox()
        self.release_address()
        for _ in range(_CGROUP_TRIES):
            if self._machine.cgroups.remove(self._pod.metadata.uid):
                break
            await asyncio.sleep(0.01)
        await asyncio.to_thread(remove_tree, self.directory)

    def leave(self) -> None:
        """The agent ends; the Pod goes on."""
        self._host_ports.close()
        if self._sandbox is not None:
            self._sandbox.leave()


@dataclass(frozen=True, slots=True)
class _Target:
    """A container, as probes see it."""

    runtime: PodRuntime
    container: Container
    attempt: int

    @property
    def address(self) -> str:
        return self.runtime.address

    async def connect(self, host: str, port: int, context: ssl.SSLContext | None = None) -> Streams:
        fitting = self.runtime.fitting() if host == self.address else None
        port = fitting.seat.port(port) if fitting else port
        return await self.runtime.sockets.connect(host, port, context)

    async def execute(self, command: tuple[str, ...], fds: tuple[int, int, int]) -> Execution:
        fitting = self.runtime.fitting()
        argv = [fitting.fit(word) for word in command] if fitting else list(command)
        return await self.runtime.sandbox.execute(
            f"{self.container.name}/{self.attempt}", {"argv": argv}, fds
        )


DEED_ERRORS = (ConfigError, PullError, Gone, Refused, OSError)
"""What a deed may fail with because of the machine or the Pod, and not of a bug."""


def pod_directories(directory: Path) -> list[Path]:
    """The directories of Pods that were run here."""
    try:
        return sorted(entry for entry in (directory / "pods").iterdir() if entry.is_dir())
    except FileNotFoundError:
        return []
