"""Runs the console for many people, each with their own rights: `manta console --login token|oidc|proxy`."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import os
from collections.abc import Callable
from typing import Self
from urllib.parse import SplitResult, urlsplit

from manta.api.usage import UsageError
from manta.cli.server.connection import cluster_of
from manta.cli.server.console_commands import commands
from manta.cli.server.console_logins import address_of, key_of, login_of
from manta.cli.server.console_origins import DASHBOARDS, Parts, put_together
from manta.cli.server.console_server import connected, ray_api
from manta.cli.server.kubectl_flags import timeout_of
from manta.cli.server.tls_files import keep_current, tls_context
from manta.console.fetch import Fetch, HttpFetch
from manta.console.history import History, token_needed
from manta.console.server import LIMITS
from manta.console.sessions import Session
from manta.console.visitors import Visitors
from manta.httpserver.address import listen_address
from manta.httpserver.server import HttpServer
from manta.kube.client import Client
from manta.kube.cluster import Cluster, User
from manta.kube.kubeconfig import impersonated_groups, impersonation
from manta.runtime.clock import SystemClock
from manta.runtime.process import loop_factory, stop_on_signals


def serve_shared(args: argparse.Namespace) -> int:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(args))
    return 0


async def _serve(args: argparse.Namespace) -> None:
    stopping = stop_on_signals()
    async with SharedConsole(args) as console:
        print(f"console of {console.server} at {console.url} (login: {args.login})", flush=True)
        await stopping.wait()


class SharedConsole:
    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._cluster = cluster_of(args)
        self._address = listen_address("--listen", args.listen, "0.0.0.0:8267")
        self._url = address_of(args.url, "--url")
        self._tls = tls_context(args.tls_cert, args.tls_key)
        self.server = self._cluster.server
        self.url = self._url.geturl()
        self.port = 0
        self._fetch = HttpFetch(os.environ)
        self._issuer_fetch = HttpFetch(os.environ, args.oidc_ca)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        args, clock = self._args, SystemClock()
        key = await asyncio.to_thread(key_of, args.cookie_key_file)
        self._login = login_of(args, key, self._url, self._issuer_fetch)
        namespaces = tuple((args.namespace or "").replace(",", " ").split())
        self._visitors = Visitors(connector(self._cluster, timeout_of(args)), clock, namespaces)
        self._api = ray_api(self._cluster, self._visitors, clock)
        handler, hosts = put_together(
            Parts(
                url=self._url,
                key=key,
                login=self._login,
                visitors=self._visitors,
                api=self._api,
                commands=commands(args),
                clock=clock,
                server=self.server,
                dashboards=dashboards_of(args.dashboards, self._url),
                writes=args.dashboard_writes,
                history=history_of(args.history, self._fetch),
            )
        )
        self._server = HttpServer(handler, hosts, LIMITS)
        host, port = self._address.host, self._address.port
        try:
            self.port = await self._server.start(host, port, self._tls)
        except OSError as error:
            raise UsageError(f"--listen {args.listen}: {error.strerror or error}") from error
        if self._tls is not None:
            renewing = keep_current(self._tls, args.tls_cert, args.tls_key)
            self._tasks.append(asyncio.create_task(renewing))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await self._server.stop(grace_seconds=0.2)
        await self._visitors.close()
        await self._api.close()
        await self._login.close()
        await self._fetch.close()
        await self._issuer_fetch.close()


def dashboards_of(text: str, url: SplitResult) -> SplitResult | None:
    """The address of dashboards; on this machine there is a default. Raises UsageError."""
    if text:
        found = address_of(text, "--dashboards")
        if _is_below(found.hostname or "", url.hostname or ""):
            raise UsageError(
                f"--dashboards {text}: a name below the console's could set cookies for it; use another one"
            )
        return found
    if url.hostname and url.hostname.endswith(".localhost"):
        return urlsplit(f"{url.scheme}://{DASHBOARDS}:{url.port or 80}")
    return None


def history_of(text: str, fetch: Fetch) -> History | None:
    """The history server of `--history`. Raises UsageError."""
    if not text:
        return None
    base = address_of(text, "--history").geturl().rstrip("/")
    return History(fetch, lambda token: (base, token_needed(token)))


def _is_below(name: str, other: str) -> bool:
    return f".{name}".endswith(f".{other}")


def connector(cluster: Cluster, seconds: float | None) -> Callable[[Session], Client]:
    """Clients with the token of a session, or that impersonate its user: never with the rights of this
    process alone. Raises ValueError."""

    def connect(session: Session) -> Client:
        if session.user:
            user = dataclasses.replace(
                cluster.user,
                headers=impersonation(session.user, ""),
                repeated=impersonated_groups(session.groups, {}),
            )
        elif session.token:
            user = User("your login", token=session.token)
        else:
            raise ValueError("a session without a token or a user has no rights")
        return connected(dataclasses.replace(cluster, user=user), seconds)

    return connect
