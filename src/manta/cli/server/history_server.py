"""Runs the history server of `manta history serve`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from manta.api.addresses import is_local_host
from manta.api.usage import UsageError
from manta.cli.plane.history_server import write_server_record
from manta.cli.server.connection import cluster_of, open_client
from manta.cli.server.history import open_catalog
from manta.cli.server.history_index import in_child
from manta.cli.server.live_clusters import check_dashboards, live_of_callers, live_of_owner
from manta.cli.server.tls_files import tls_context
from manta.history.serve.access import Access, KubernetesAccess, OwnerAccess
from manta.history.serve.frontend import find_frontends
from manta.history.serve.overview import PREFIX
from manta.history.serve.server import LIMITS, HistoryHandler
from manta.httpserver.address import Address, listen_address
from manta.httpserver.server import HttpServer
from manta.runtime.process import loop_factory, stop_on_signals

if TYPE_CHECKING:
    from manta.history.catalog import Catalog


def serve(args: argparse.Namespace) -> int:
    address = listen_address("--address", args.address, "127.0.0.1:8266")
    context = tls_context(args.tls_cert, args.tls_key)
    check_dashboards(args.dashboards)
    with open_catalog(args) as catalog, asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve(args, address, context, catalog))
    return 0


async def _serve(
    args: argparse.Namespace, address: Address, context: ssl.SSLContext | None, catalog: Catalog
) -> None:
    stopping = stop_on_signals()
    images = sorted((Path.home() / ".cache" / "manta" / "images").glob("*"))
    frontends = await asyncio.to_thread(find_frontends, [*args.frontend, *images])
    async with contextlib.AsyncExitStack() as stack:
        own = OwnerAccess(lambda: announce(" (the link before it was used)"))
        access: Access = own
        if args.kubernetes or not is_local_host(address.host or ""):
            client = await stack.enter_async_context(open_client(args))
            access = KubernetesAccess(client, args.gone_namespaces_group)
            live = live_of_callers(cluster_of(args), args.dashboards)
        else:
            live = live_of_owner(args)
        handler = HistoryHandler(
            catalog, access, frontends,
            secure=context is not None, make_index=in_child(catalog), live=live,
        )  # fmt: skip
        hosts = frozenset({"localhost"}) if is_local_host(address.host or "") else frozenset()
        server = HttpServer(handler, hosts, LIMITS)
        try:
            port = await server.start(address.host, address.port, context)
        except OSError as error:
            raise UsageError(f"--address {args.address}: {error.strerror or error}") from error
        scheme = "http" if context is None else "https"
        base = f"{scheme}://{address.host or 'localhost'}:{port}{PREFIX}"

        def announce(why: str = "") -> None:
            """With a link that can be used once; a server of a plane records its secret instead."""
            link = "" if access is not own or args.record else f"login?token={own.create_link()}"
            if link or not why:
                print(f"history of {catalog.store.url} at {base}{link}{why}", flush=True)

        if args.record is not None:
            write_server_record(args.record, port, own.token)
        announce()
        if not frontends:
            print("no frontend of Ray was found: only the API is served", flush=True)
        await stopping.wait()
        await server.stop()
        await handler.close()
