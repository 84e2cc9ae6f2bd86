"""The embedded control plane: store, API server and built-in controllers in one process.

    async with Plane(PlaneOptions(dir=Path("plane"))) as plane:
        await plane.client.list(PODS)

`DIR/kubeconfig` exists while the API server is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from ipaddress import IPv4Network
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from manta.httpserver.limits import Limits
from manta.httpserver.messages import User
from manta.httpserver.server import HttpServer
from manta.kube.client import Client
from manta.localplane.apiserver.admission_context import SERVICE_NETWORK
from manta.localplane.apiserver.app import App
from manta.localplane.apiserver.auth.authenticator import ADMIN
from manta.localplane.apiserver.bootstrap import bootstrap
from manta.localplane.apiserver.expiry import expire_events
from manta.localplane.apiserver.streaming.connector import NodeConnector
from manta.localplane.certificates import STANDARD_NAMES, Authority
from manta.localplane.inprocess import InProcessTransport
from manta.localplane.kubeconfig import write_kubeconfig
from manta.localplane.private_files import make_private_directory
from manta.localplane.store.journal import SqliteJournal, load
from manta.localplane.store.store import Store, StoreFailed
from manta.runtime.clock import Clock, SystemClock

MEMORY_ONLY = "memory-only"
"""A marker file: the plane of these keys stored no objects."""


@dataclass(frozen=True, slots=True)
class PlaneOptions:
    dir: Path
    port: int = 0
    """0: a free port; the same one at the next start if it is still free."""
    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    """More names and addresses of the API server."""
    memory: bool = False
    """Store only certificates on disk, no objects."""
    durable: bool = False
    """Sync every write, so that acknowledged ones survive a power loss."""
    services: IPv4Network = SERVICE_NETWORK
    """Addresses of Services. Services with addresses of another range get new ones."""
    limits: Limits = field(default_factory=Limits)
    """The limits of the HTTP server."""
    fake_nodes: int = 0
    controllers: bool = True
    clock: Clock = field(default_factory=SystemClock)


class PlaneBusy(Exception):  # noqa: N818
    """Another process runs a plane in this directory."""


class Plane:
    def __init__(self, options: PlaneOptions) -> None:
        self.options = options
        self.port = 0
        self.app: App = None  # type: ignore[assignment]  # set on entering
        self.client: Client = None  # type: ignore[assignment]
        self.authority: Authority = None  # type: ignore[assignment]
        self.failed: asyncio.Future[BaseException | None] = None  # type: ignore[assignment]
        """Done when the controllers have stopped unexpectedly, with the reason."""
        self._stack = AsyncExitStack()

    @property
    def kubeconfig(self) -> Path:
        return self.options.dir / "kubeconfig"

    @property
    def url(self) -> str:
        return f"https://{self.options.host}:{self.port}"

    @property
    def connector(self) -> NodeConnector | None:
        return self.app.connector

    @connector.setter
    def connector(self, connector: NodeConnector | None) -> None:
        """Set by the node agent, for logs, exec and port-forward."""
        self.app.connector = connector

    def client_as(self, user: User) -> Client:
        """Return a client in this process that acts as `user`, with their permissions."""
        return Client(InProcessTransport(self.app, user))

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        options = self.options
        self.failed = asyncio.get_running_loop().create_future()
        make_private_directory(options.dir)
        self._stack.enter_context(contextlib.closing(_lock(options.dir)))
        self.kubeconfig.unlink(missing_ok=True)
        store = (
            await self._open_store()
        )  # before the keys: keys without a store mean that the store was lost
        self._stack.push_async_callback(store.close)
        self.authority = Authority(options.dir / "pki", options.clock.now())
        token = _admin_token(options.dir / "pki" / "admin.token")
        self.app = App(
            store,
            clock=options.clock.now,
            static_tokens={token: ADMIN},
            token_key=self.authority.token_key(),
            demand_accounts=options.controllers,
            services=options.services,
        )
        self.client = Client(InProcessTransport(self.app))
        await self._listen()
        bootstrap(self.app, self.port)
        if options.controllers:
            await self._start_controllers()
        await store.wait_durable(store.revision)
        if store.failure is not None:
            raise StoreFailed(f"the store cannot write: {store.failure}")
        write_kubeconfig(
            self.kubeconfig, url=self.url, authority=self.authority.certificate, token=token
        )
        self._stack.callback(self.kubeconfig.unlink, missing_ok=True)
        self._stack.push_async_callback(
            _end, asyncio.create_task(store.compress_loaded(), name="compression")
        )

    async def _open_store(self) -> Store:
        store = Store(elapsed=self.options.clock.monotonic)
        path = self.options.dir / "store.db"
        memory_only = self.options.dir / MEMORY_ONLY
        if self.options.memory:
            if not path.exists():
                memory_only.touch(mode=0o600)
        else:
            keys = self.options.dir / "pki" / "ca.key"
            load(
                path,
                store,
                durable=self.options.durable,
                keys=() if memory_only.exists() else (keys,),
            )
            memory_only.unlink(missing_ok=True)
            journal = SqliteJournal(path, store, durable=self.options.durable)
            journal.start()
            store.attach(journal)
        return store

    async def _listen(self) -> None:
        options = self.options
        names = (options.host, str(options.services[1]), *options.names)
        context = self.authority.server_context(names)
        server = HttpServer(self.app, frozenset((*STANDARD_NAMES, *names)), options.limits)
        remembered = options.dir / "port"
        last = int(remembered.read_text()) if remembered.exists() else 0
        try:
            self.port = await server.start(options.host, options.port or last, context)
        except OSError:
            if options.port or not last:
                raise
            self.port = await server.start(options.host, 0, context)
        remembered.write_text(str(self.port))
        self._stack.push_async_callback(server.stop)
        self._stack.callback(self.app.store.close_watches)

    async def _start_controllers(self) -> None:
        """Start the built-in controllers in this process; they use the API like any client."""
        from manta.localplane.controllers import ControllerOptions, run_builtin_controllers
        from manta.localplane.fakenodes.options import FakeNodeOptions

        options = self.options
        fake = FakeNodeOptions(count=options.fake_nodes) if options.fake_nodes else None
        wanted = ControllerOptions(
            root_ca=self.authority.certificate,
            fake_nodes=fake,
            registry=self.app.telemetry.registry,
        )
        task = asyncio.create_task(
            run_builtin_controllers(self.client, options.clock, wanted), name="controllers"
        )
        self._stack.push_async_callback(_end, task)
        expiring = asyncio.create_task(expire_events(self.app.core), name="event expiry")
        self._stack.push_async_callback(_end, expiring)
        task.add_done_callback(self._controllers_ended)

    def _controllers_ended(self, task: asyncio.Task[None]) -> None:
        """Complete `failed`; the process must end then, because nothing else stops."""
        if not task.cancelled() and not self.failed.done():
            self.failed.set_result(task.exception())


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@contextlib.contextmanager
def held_lock(directory: Path) -> Iterator[None]:
    """Lock a directory against planes. Raises PlaneBusy if one runs there."""
    with contextlib.closing(_lock(directory)):
        yield


def _lock(directory: Path) -> IO[str]:
    """Return the lock file of a directory, locked until it is closed. Raises PlaneBusy."""
    file = (directory / "lock").open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise PlaneBusy(f"a plane runs already in {directory}") from None
    file.write(str(os.getpid()))
    file.flush()
    return file


def _admin_token(path: Path) -> str:
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32))
    return path.read_text()
