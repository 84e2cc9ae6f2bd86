"""Operations on the machine for one Pod: sandbox, volumes, address, images and containers.

Each operation is a coroutine that succeeds or raises one of `RUNTIME_ERRORS`. The runtime keeps the
handles that later operations need (the sandbox, volumes, images) and decides nothing.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from manta.api.well_known import ANNOTATION_POSTS_PORT
from manta.localplane.node.gpus.device import GpuHealth
from manta.localplane.node.host import wire
from manta.localplane.node.host.cgroups import Limits, pod_limits
from manta.localplane.node.host.confined_files import Directory
from manta.localplane.node.host.process_tree import end_descendants
from manta.localplane.node.images.store import Environment, PullError
from manta.localplane.node.machine import Machine
from manta.localplane.node.net.relay import Streams
from manta.localplane.node.net.sockets import PodSockets
from manta.localplane.node.pod.address import PodAddress
from manta.localplane.node.pod.api_reader import ApiReader
from manta.localplane.node.pod.attempts import (
    attempt_directory,
    remove_old_attempts,
    restore_from_disk,
)
from manta.localplane.node.pod.kept import POSTS, is_kept, write_record
from manta.localplane.node.pod.leftovers import (
    keep_and_remove,
    kill_remaining_processes,
    remove_cgroup,
)
from manta.localplane.node.pod.posts import PostReceiver
from manta.localplane.node.pod.probes import ProbeResult, run_handler
from manta.localplane.node.pod.snapshot import ContainerFacts
from manta.localplane.node.pod.volumes import PodVolumes
from manta.localplane.node.sandbox.channel import Gone, Refused
from manta.localplane.node.sandbox.launch_spec import (
    AttemptPaths,
    Launch,
    container_spec,
    sub_path_of,
)
from manta.localplane.node.sandbox.launcher import SandboxSpec
from manta.localplane.node.sandbox.processes import PLANE_VARIABLE, POD_VARIABLE
from manta.localplane.node.sandbox.sandbox import Execution, Sandbox, adopt
from manta.localplane.node.spec.environment import ConfigError, PodPlacement, container_environment
from manta.localplane.node.spec.pod_files import hosts_file, resolv_conf
from manta.localplane.node.spec.pod_spec import Container, Handler, NodePod, Quantities
from manta.localplane.node.storage.volumes import make_sub_path

log = logging.getLogger(__name__)

RUNTIME_ERRORS = (ConfigError, PullError, Gone, Refused, OSError)
"""Errors whose cause is the machine or the Pod, not a bug."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """What an earlier agent left of a Pod."""

    address: str
    containers: Mapping[str, ContainerFacts]
    running: bool
    """The sandbox runs; otherwise only its records were found."""


class PodRuntime:
    def __init__(
        self,
        machine: Machine,
        reader: ApiReader,
        pod: NodePod,
        allocatable: Quantities,
        on_event: Callable[[dict[str, Any]], None],
    ) -> None:
        """`on_event` is called with what the Pod's init reports."""
        self.directory = machine.pod_directory(pod.metadata.uid)
        self._machine = machine
        self._reader = reader
        self._pod = pod
        self._allocatable = allocatable
        self._on_event = on_event
        self._sandbox: Sandbox | None = None
        self._address = PodAddress(machine, reader.service_address)
        self._volumes = PodVolumes(machine.volumes, reader)
        self._environments: dict[str, Environment] = {}
        self._posts: PostReceiver | None = None

    def set_pod(self, pod: NodePod) -> None:
        self._pod = pod

    @property
    def address(self) -> str:
        return self._address.value

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
    def dns_error(self) -> str:
        """Why the Pod cannot resolve names; empty if it can, or does not use the cluster's DNS."""
        wanted = self.has_own_network and self._pod.spec.dns_policy.startswith("ClusterFirst")
        return self._machine.dns_error if wanted else ""

    @property
    def has_own_network(self) -> bool:
        return self._machine.isolated and not self._pod.spec.host_network

    @property
    def sandbox(self) -> Sandbox:
        """Raises Gone if the Pod has none."""
        if self._sandbox is None:
            raise Gone("the Pod has no sandbox")
        return self._sandbox

    # ── sandbox ────────────────────────────────────────────────────────────────────────
    async def adopt(self) -> Adopted | None:
        """Take over what an earlier agent left of this Pod, or None if there is nothing."""
        record = wire.read_record(self.directory / "sandbox.json")
        if record is None:
            return None
        sandbox = adopt(self.directory, self._on_event, self._machine.launcher)
        running = await sandbox.running() if sandbox is not None else {}
        if sandbox is not None:
            self._sandbox = sandbox
            await self._address.restore(self._pod, record)
            await self._receive_posts(sandbox.pid)
        containers = {
            one.name: restore_from_disk(self.directory, one.name, running)
            for one in self._pod.containers()
        }
        return Adopted(self.address, containers, sandbox is not None)

    async def prepare_volumes(self, now: float) -> None:
        """Create all volumes, or refresh them with the API objects of now."""
        await self._volumes.prepare(self.directory / "volumes", self._pod, self._place(), now)

    def _place(self) -> PodPlacement:
        return PodPlacement(
            self._pod.spec.node_name, self._machine.host_address, self.address, self._allocatable
        )

    async def create_sandbox(self) -> str:
        """Create the namespaces and files of the Pod; returns its address."""
        self.directory.mkdir(parents=True, exist_ok=True)
        await kill_remaining_processes(self._machine, self._pod.metadata.uid)
        await self._machine.gpus.pool.give_when_returned(self._pod)
        self._address.allocate(self._pod)
        self._write_pod_files()
        meta = self._pod.metadata
        identity = {"namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
        spec = SandboxSpec(
            self.directory,
            self._pod.hostname,
            identity | self._address.record(self._pod),
            host_network=self._pod.spec.host_network or self._machine.network is None,
            isolated=self._machine.isolated,
        )
        try:
            pid = await self._machine.launcher.create(spec)
            self._sandbox = Sandbox(self.directory, pid, self._on_event)
            await self._address.attach(self._pod, pid)
            for memory in self._volumes.prepared.memory if self._machine.isolated else ():
                await self._sandbox.mount_memory(memory.path, memory.size)
            await self._receive_posts(pid)
        except BaseException:
            await self.kill_sandbox()
            self.release_address()
            raise
        return self.address

    @property
    def _is_kept(self) -> bool:
        return self._machine.options.on_kept is not None and is_kept(self._pod)

    async def _receive_posts(self, pid: int) -> None:
        """Take what the Pod posts to its localhost, if it is to be kept. Without it the Pod runs too."""
        port = self._pod.metadata.annotations.get(ANNOTATION_POSTS_PORT, "")
        if not self._is_kept or not self.has_own_network or not port.isdecimal():
            return
        receiver = PostReceiver(self.directory / POSTS)
        try:
            await receiver.open(self._machine.launcher, pid, int(port))
        except (OSError, OverflowError, Gone, Refused) as error:
            log.warning(
                "Pod %s: posts to port %s are not kept: %s", self._pod.metadata.key, port, error
            )
            return
        self._posts = receiver

    async def _stop_posts(self) -> None:
        receiver, self._posts = self._posts, None
        if receiver is not None:
            await receiver.close()

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
        if self._is_kept:
            write_record(self.directory, self._pod)

    # ── containers ─────────────────────────────────────────────────────────────────────
    def image_present(self, container: Container) -> str | None:
        """The image's ID if it need not be pulled, else None."""
        try:
            found = self._machine.images.present(container.image)
        except PullError:
            return None
        if found is None:
            return None
        self._environments[container.name] = found
        return found.image_id

    async def pull(self, container: Container) -> str:
        """The image's ID. Raises PullError."""
        found = await self._machine.images.ensure(container.image)
        self._environments[container.name] = found
        return found.image_id

    async def start(self, container: Container, attempt: int) -> None:
        """Start one attempt. `on_event` reports whether it started, and its end."""
        sources = await self._reader.sources(self._pod)
        gpus, uid = self._machine.gpus, self._pod.metadata.uid
        env = gpus.variables(uid, container.name, isolated=self._machine.isolated)
        env |= container_environment(
            self._pod, container, self._place(), sources, self._reader.services()
        )
        if not self._machine.isolated:
            env[POD_VARIABLE] = uid
            env[PLANE_VARIABLE] = str(self._machine.directory)
            env = self._address.scratch_variables() | env
        directory = attempt_directory(self.directory, container.name, attempt)
        await asyncio.to_thread(self._make_directories, container, attempt, env)
        limits = self._limits(container)
        launch = Launch(
            self._pod,
            container,
            attempt,
            env,
            self._environments[container.name],
            self._volumes.paths,
            AttemptPaths(self.directory, directory),
            self._machine.cgroups.create(uid, container.name, limits, self._pod_limits()),
            isolated=self._machine.isolated,
            userns=self._machine.userns,
            hidden=self._machine.hidden,
            accelerators=asdict(gpus.device_nodes(uid, container.name)),
        )
        spec = container_spec(launch)
        if (rewriter := self._address.rewriter()) is not None:
            spec["argv"] = [rewriter.rewrite(word) for word in spec["argv"]]
            spec["env"] = {name: rewriter.rewrite(value) for name, value in spec["env"].items()}
        await self.sandbox.start(spec)

    def _make_directories(self, container: Container, attempt: int, env: Mapping[str, str]) -> None:
        """Create the attempt's directory, and the directories that subPaths name."""
        directory = attempt_directory(self.directory, container.name, attempt)
        directory.mkdir(parents=True, exist_ok=True)
        with Directory.at(directory) as own:
            own.touch("termination-log")
            own.remove("scratch")  # left by a failed start of this attempt
        remove_old_attempts(self.directory, container.name, attempt)
        for mount in container.volume_mounts:
            volume = self._volumes.paths.get(mount.name)
            if volume is None:
                raise ConfigError(f'volume "{mount.name}" is not one of the Pod')
            if sub_path := sub_path_of(mount, env):
                make_sub_path(volume, sub_path)

    def resize(self, container: Container) -> None:
        """Apply changed limits to a running container."""
        uid = self._pod.metadata.uid
        limits = self._limits(container)
        self._machine.cgroups.update(uid, container.name, limits, self._pod_limits())

    def _limits(self, container: Container) -> Limits:
        limits = Limits.of(container.resources)
        if self._machine.options.limit_cpu:
            return limits
        return Limits(memory=limits.memory, cpu_weight_milli=limits.cpu_weight_milli)

    def _pod_limits(self) -> Limits:
        pod = self._pod
        sidecars = filter(pod.is_sidecar, pod.spec.init_containers)
        return pod_limits(one.resources for one in (*sidecars, *pod.spec.containers))

    async def signal(self, container: str, attempt: int, number: int) -> None:
        await self.sandbox.signal(f"{container}/{attempt}", number)

    async def run_handler(
        self,
        container: Container,
        attempt: int,
        handler: Handler,
        timeout: float,  # noqa: ASYNC109
    ) -> ProbeResult:
        """Run a probe or a hook against the container."""
        target = _Target(self, self._address, container, attempt)
        return await run_handler(handler, target, timeout)

    # ── removal ────────────────────────────────────────────────────────────────────────
    async def kill_sandbox(self) -> None:
        """End all processes of the Pod, if there are any."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            if not self._machine.isolated:
                await asyncio.to_thread(end_descendants, sandbox.pid)
            sandbox.kill()
            await sandbox.ended.wait()
        await self._stop_posts()
        await kill_remaining_processes(self._machine, self._pod.metadata.uid)

    def forget_sandbox(self) -> None:
        """The sandbox ended by itself."""
        self._sandbox = None

    @property
    def gpus(self) -> Mapping[str, tuple[GpuHealth, ...]]:
        """The GPUs that the Pod holds, by container."""
        return self._machine.gpus.health(self._pod.metadata.uid)

    def release_gpus(self) -> None:
        """Only when no process of the Pod is left."""
        self._machine.gpus.pool.release(self._pod.metadata.uid)

    def release_address(self) -> None:
        self._address.release(self._pod)

    async def remove(self) -> None:
        """Remove everything of the Pod from the machine."""
        self._volumes.remove_ephemeral_claims(self._pod)
        await self.kill_sandbox()
        self.release_address()
        await remove_cgroup(self._machine, self._pod.metadata.uid)
        self.release_gpus()
        await asyncio.to_thread(keep_and_remove, self._machine, self.directory)

    def detach(self) -> None:
        """The agent ends; the Pod keeps running."""
        self._address.close()
        if self._posts is not None:
            self._posts.abandon()
        if self._sandbox is not None:
            self._sandbox.detach()


@dataclass(frozen=True, slots=True)
class _Target:
    """A container, as probes see it."""

    runtime: PodRuntime
    pod_address: PodAddress
    container: Container
    attempt: int

    @property
    def address(self) -> str:
        return self.pod_address.value

    async def connect(self, host: str, port: int, context: ssl.SSLContext | None = None) -> Streams:
        port = self.pod_address.port(port) if host == self.address else port
        return await self.runtime.sockets.connect(host, port, context)

    async def execute(self, command: tuple[str, ...], fds: tuple[int, int, int]) -> Execution:
        rewriter = self.pod_address.rewriter()
        argv = [rewriter.rewrite(word) for word in command] if rewriter else list(command)
        return await self.runtime.sandbox.execute(
            f"{self.container.name}/{self.attempt}", {"argv": argv}, fds
        )
