"""Implements what the API server needs of a Pod: logs, exec, attach, and connections to its ports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from manta.api.times import parse_time
from manta.localplane.apiserver.streaming.connector import ContainerUnavailable, LogOptions
from manta.localplane.node.net.relay import Streams
from manta.localplane.node.pod.attempts import (
    attempt_directory,
    attempt_numbers,
    has_ended,
    read_termination,
)
from manta.localplane.node.pod.snapshot import ContainerFacts, ContainerState
from manta.localplane.node.pod.worker import PodWorker
from manta.localplane.node.sandbox.channel import Gone, Refused
from manta.localplane.node.sandbox.log_reader import (
    DirectoryWatch,
    Tail,
    chosen,
    follow,
    older_lines,
)
from manta.localplane.node.sandbox.sessions import (
    AttachSession,
    ExecSession,
    LineReader,
    PipeWriter,
    open_exec,
)
from manta.runtime.clock import Clock

_START_TIMEOUT_SECONDS = 10.0


class LocalConnector:
    """Implements `NodeConnector`. Its methods raise ContainerUnavailable."""

    def __init__(
        self,
        find: Callable[[str, str], PodWorker | None],
        ready: asyncio.Event,
        clock: Clock,
        gpus: Callable[[str], Awaitable[list[dict[str, Any]]]],
    ) -> None:
        """`gpus` says what the GPUs of a node do."""
        self._find = find
        self._ready = ready
        self._clock = clock
        self._gpus = gpus

    async def _worker(self, namespace: str, pod: str) -> PodWorker:
        """Waits a few seconds for a node agent that has just started."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_TIMEOUT_SECONDS):
                await self._ready.wait()
        worker = self._find(namespace, pod)
        if worker is None:
            raise ContainerUnavailable(
                f'pod "{pod}" in namespace "{namespace}" is not on this node'
            )
        return worker

    def _running(self, worker: PodWorker, container: str) -> ContainerFacts:
        facts = worker.facts.containers.get(container, ContainerFacts())
        if facts.state is not ContainerState.RUNNING:
            raise ContainerUnavailable(
                f'container "{container}" in pod "{worker.pod.metadata.name}" is not running'
            )
        return facts

    # ── logs ───────────────────────────────────────────────────────────────────────────
    async def logs(
        self, namespace: str, pod: str, container: str, options: LogOptions
    ) -> AsyncIterator[bytes]:
        worker = await self._worker(namespace, pod)
        directory = _log_directory(worker, container, previous=options.previous)
        return self._stream(directory, options)

    async def _stream(self, directory: Path, options: LogOptions) -> AsyncIterator[bytes]:
        left = options.limit_bytes
        async for text in self._texts(directory, options):
            if left is not None:
                text = text[:left]  # noqa: PLW2901 - cut at the limit
                left -= len(text)
            yield text
            if left == 0:
                return

    async def _texts(self, directory: Path, options: LogOptions) -> AsyncIterator[bytes]:
        path = directory / "log"
        stamps = options.timestamps
        with await self._opened(path) as tail:
            present = chain(older_lines(path), tail.read())
            lines = chosen(present, self._since(options), options.tail_lines)
            for chunk in _chunks(line.shown(timestamps=stamps) for line in lines):
                yield chunk
            if options.follow:
                async for line in follow(tail, lambda: has_ended(directory)):
                    yield line.shown(timestamps=stamps)

    @staticmethod
    async def _opened(path: Path) -> Tail:
        """Waits for the log of an attempt that is being started."""
        with DirectoryWatch(path.parent) as watch:
            while not (_is_there(path) or has_ended(path.parent)):
                await watch.change()
        return Tail.open(path)

    def _since(self, options: LogOptions) -> str:
        if options.since_seconds is not None:
            moment = self._clock.now() - timedelta(seconds=options.since_seconds)
        elif options.since_time:
            moment = parse_time(options.since_time)
        else:
            moment = datetime.fromtimestamp(0, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%f")

    # ── processes ──────────────────────────────────────────────────────────────────────
    async def exec(
        self,
        namespace: str,
        pod: str,
        container: str,
        command: Sequence[str],
        *,
        stdin: bool,
        tty: bool,
    ) -> ExecSession:
        """Start a process in a running container. Raises ContainerUnavailable."""
        worker = await self._worker(namespace, pod)
        target = f"{container}/{self._running(worker, container).attempt}"
        spec = {"argv": list(command), "tty": tty}
        try:
            return await open_exec(
                lambda fds: worker.runtime.sandbox.execute(target, spec, fds), stdin=stdin, tty=tty
            )
        except (Gone, Refused) as error:
            raise ContainerUnavailable(str(error)) from error

    async def attach(
        self, namespace: str, pod: str, container: str, *, stdin: bool, tty: bool
    ) -> AttachSession:
        """Connect to the process of a running container. Raises ContainerUnavailable."""
        worker = await self._worker(namespace, pod)
        attempt = self._running(worker, container).attempt
        directory = attempt_directory(worker.runtime.directory, container, attempt)
        tail = Tail(directory / "log", at_end=True)
        lines = follow(tail, lambda: has_ended(directory))
        writer = None
        if stdin:
            try:
                writer = PipeWriter(await worker.runtime.sandbox.stdin_of(f"{container}/{attempt}"))
            except (Gone, Refused) as error:
                raise ContainerUnavailable(str(error)) from error
        errors = None if tty else LineReader()
        return AttachSession(writer, LineReader(), errors, lines, lambda: _code(directory))

    # ── the node ───────────────────────────────────────────────────────────────────────
    async def node_document(self, node: str, path: str) -> Any:
        return await self._gpus(node) if path == "gpus" else None

    # ── ports ──────────────────────────────────────────────────────────────────────────
    async def dial(self, namespace: str, pod: str, port: int) -> Streams:
        """Connect to localhost inside the Pod, as a kubelet does, or else to the Pod's address.

        Raises ContainerUnavailable.
        """
        worker = await self._worker(namespace, pod)
        runtime = worker.runtime
        if not runtime.has_own_network:
            return await asyncio.open_connection("127.0.0.1", port)
        try:
            return await runtime.sockets.connect_inside(runtime.sandbox.pid, port)
        except (Gone, Refused) as error:
            name = worker.pod.metadata.name
            raise ContainerUnavailable(f'pod "{name}" is not running: {error}') from error
        except OSError:
            with suppress(OSError):
                return await runtime.sockets.connect(runtime.address, port)
            raise


def _chunks(texts: Iterable[bytes]) -> Iterator[bytes]:
    """Joins lines to larger pieces."""
    chunk = bytearray()
    for text in texts:
        chunk += text
        if len(chunk) > 65536:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)


def _is_there(path: Path) -> bool:
    return path.exists()


def _log_directory(worker: PodWorker, container: str, *, previous: bool) -> Path:
    pod = worker.runtime.directory
    facts = worker.facts.containers.get(container, ContainerFacts())
    # An attempt whose start failed has a directory but never a log.
    known = [number for number in attempt_numbers(pod, container) if number <= facts.attempt]
    if previous:
        known = known[:-1]
        if not known:
            name = worker.pod.metadata.name
            raise ContainerUnavailable(
                f'previous terminated container "{container}" in pod "{name}" not found'
            )
    if not known:
        name = worker.pod.metadata.name
        reason = _waiting_reason(worker, container)
        raise ContainerUnavailable(
            f'container "{container}" in pod "{name}" is waiting to start: {reason}'
        )
    return attempt_directory(pod, container, known[-1])


def _waiting_reason(worker: PodWorker, container: str) -> str:
    facts = worker.facts.containers.get(container, ContainerFacts())
    if facts.image.failure is not None:
        return "trying and failing to pull image"
    if facts.start.failure is not None:
        return facts.start.failure.reason
    return "PodInitializing" if worker.pod.spec.init_containers else "ContainerCreating"


def _code(directory: Path) -> int:
    ended = read_termination(directory)
    return ended.code if ended else 0
