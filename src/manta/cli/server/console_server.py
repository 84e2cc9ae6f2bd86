"""Runs the console of `manta console`."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import socket
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from manta.api.usage import UsageError
from manta.cli.console import DEFAULT_PORT, key_path
from manta.cli.plane.console import bound
from manta.cli.server.connection import cluster_of
from manta.cli.server.console_commands import commands
from manta.cli.server.console_link import HOST, links_of, new_link, open_in_browser
from manta.cli.server.console_origins import DASHBOARDS, Parts, put_together
from manta.cli.server.console_plane import plane_history, plane_metrics
from manta.cli.server.kubectl_flags import timeout_of
from manta.console.api.callers import Callers
from manta.console.api.handler import RayApi
from manta.console.fetch import HttpFetch
from manta.console.login.link import LinkLogin
from manta.console.server import LIMITS
from manta.console.sessions import KEY_BYTES, Session
from manta.console.visitors import Visitors
from manta.httpserver.server import HttpServer
from manta.kube.client import DEFAULT_TIMEOUT, Client
from manta.kube.cluster import Cluster, User
from manta.kube.errors import MantaError
from manta.kube.transport import HttpTransport
from manta.localplane.private_files import make_private_directory, write_private_file
from manta.runtime.clock import Clock, SystemClock
from manta.runtime.process import loop_factory, stop_on_signals


def serve(args: argparse.Namespace) -> int:
    """Serve until the process is stopped. Raises UsageError."""
    if not 0 <= args.port <= 65535:
        raise UsageError(f"--port {args.port}: must be between 1 and 65535, or 0 for a free port")
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(args))
    return 0


async def _serve(args: argparse.Namespace) -> None:
    stopping = stop_on_signals()
    async with LocalConsole(args) as console:
        if args.listener is None:  # else `manta up` prints the link: this output is a log file
            await asyncio.to_thread(_show, args, console)
        await stopping.wait()


def _show(args: argparse.Namespace, console: LocalConsole) -> None:
    link = new_link(args.dir, console.port)
    print(f"console of {console.server}: {link}   (Ctrl-C to stop)", flush=True)
    if args.open and not open_in_browser(args.dir, link):
        print("manta: warning: --open: no browser could be started here", file=sys.stderr)


class LocalConsole:
    """The console of this machine's user, on 127.0.0.1."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._cluster = cluster_of(args)
        self.server = self._cluster.server
        self.port = 0
        self._fetch = HttpFetch({})

    async def __aenter__(self) -> Self:
        args, clock = self._args, SystemClock()
        given = tuple((args.namespace or "").replace(",", " ").split())
        namespaces = given or (self._cluster.namespace,)
        self._visitors = Visitors(
            lambda _session: connected(self._cluster, timeout_of(args)), clock, namespaces
        )
        key = await asyncio.to_thread(cookie_key, args.dir)
        listener = listening(args.port) if args.listener is None else given_listener(args.listener)
        self.port = listener.getsockname()[1]
        login = LinkLogin(links_of(args.dir))
        self._api = ray_api(self._cluster, self._visitors, clock)
        handler, hosts = put_together(
            Parts(
                url=urlsplit(f"http://{HOST}:{self.port}"),
                key=key,
                login=login,
                visitors=self._visitors,
                api=self._api,
                commands=commands(args),
                clock=clock,
                server=self.server,
                dashboards=urlsplit(f"http://{DASHBOARDS}:{self.port}"),
                writes=args.dashboard_writes,
                metrics=plane_metrics(args, self._fetch),
                history=plane_history(args, self._fetch),
            )
        )
        self._server = HttpServer(handler, hosts | {"localhost"}, LIMITS)
        await self._server.start_on(listener)
        self._listing = asyncio.create_task(self._list_before_the_first_visit())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listing.cancel()
        await asyncio.gather(self._listing, return_exceptions=True)
        await self._server.stop(grace_seconds=0.2)
        await self._visitors.close()
        await self._api.close()
        await self._fetch.close()

    async def _list_before_the_first_visit(self) -> None:
        """Whoever opens the link is this user: thousands of objects are there by then. What fails here fails
        again at the visit, where somebody reads it."""
        with suppress(MantaError, UsageError):
            await self._visitors.of(Session(expires=0.0))


def listening(wanted: int) -> socket.socket:
    """A socket on the wanted port, else on the default one if it is free, else on any. Raises UsageError."""
    if wanted:
        try:
            return bound(wanted)
        except OSError as error:
            raise UsageError(f"--port {wanted}: {error.strerror or error}") from error
    with suppress(OSError):
        return bound(DEFAULT_PORT)
    return bound(0)


def given_listener(descriptor: int) -> socket.socket:
    """The socket that `manta up` listens on. Raises UsageError if it is none."""
    try:
        return socket.socket(fileno=descriptor)
    except OSError as error:
        raise UsageError(f"--listener {descriptor}: {error.strerror}") from error


def ray_api(cluster: Cluster, visitors: Visitors, clock: Clock) -> RayApi:
    """Its requests bring their own token: the transport has none."""
    direct = HttpTransport(replace(cluster, user=User("the bearer token of the request")))
    return RayApi(Callers(direct, visitors, clock))


def connected(cluster: Cluster, seconds: float | None = None) -> Client:
    return Client(HttpTransport(cluster), timeout=seconds or DEFAULT_TIMEOUT)


def cookie_key(directory: Path) -> bytes:
    """The key of an earlier start, or a new one. Raises UsageError if it cannot be kept."""
    path = key_path(directory)
    try:
        kept = bytes.fromhex(path.read_text())
        if len(kept) == KEY_BYTES:
            return kept
    except (FileNotFoundError, ValueError):
        pass
    key = secrets.token_bytes(KEY_BYTES)
    try:
        make_private_directory(directory)
        write_private_file(path, key.hex())
    except OSError as error:
        raise UsageError(
            f"--dir {directory}: {error.strerror}; choose another directory"
        ) from error
    return key
