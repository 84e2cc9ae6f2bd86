"""`manta collect`: the sidecar of a Ray Pod that ships its logs and events to the history store."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from manta.api.ray import names
from manta.api.usage import UsageError
from manta.cli.output.help import examples

if TYPE_CHECKING:
    from manta.history.ship import Identity

log = logging.getLogger(__name__)
_RETRY_SECONDS: Final = 30.0


def add_parser(subparsers: Any) -> None:
    environment = os.environ
    parser = subparsers.add_parser(
        "collect",
        description="Ship the logs and events of one Ray Pod to the history store. The operator adds this "
        "as a sidecar (--history-store); its flags default to the variables that the operator sets.",
        **examples(
            ("manta collect --store s3://bucket/ray", "in a Pod of the operator"),
            (
                "manta collect --store file:///history --namespace default --cluster demo --pod demo-head",
                "anywhere else",
            ),
        ),
    )
    parser.add_argument(
        "--store", default=environment.get(names.ENV_HISTORY_STORE, ""), metavar="URL"
    )
    for flag, variable, about in (
        ("--namespace", names.ENV_CLUSTER_NAMESPACE, "namespace of the cluster"),
        ("--cluster", names.ENV_CLUSTER_NAME, "name of the RayCluster"),
        ("--owner-kind", names.ENV_OWNER_KIND, "RayJob or RayService, if one owns the cluster"),
        ("--owner-name", names.ENV_OWNER_NAME, "its name"),
        ("--role", names.ENV_RAY_ROLE, "Head or Worker"),
        ("--pod", names.ENV_POD_NAME, "name of the Pod"),
        ("--ray-version", names.ENV_RAY_VERSION, "version of Ray in the Pod"),
        (
            "--dashboard",
            names.ENV_DASHBOARD_ADDRESS,
            "URL of Ray's dashboard, whose answers are kept too; empty: none",
        ),
    ):
        parser.add_argument(flag, default=environment.get(variable, ""), metavar="TEXT", help=about)
    parser.add_argument("--root", type=Path, default=Path(names.MOUNT_LOGS), metavar="DIR")
    parser.add_argument(
        "--spool",
        type=Path,
        metavar="DIR",
        help="events that wait for the store (default: .manta-history below --root)",
    )
    parser.add_argument("--port", type=int, default=names.PORT_COLLECTOR_EVENTS, metavar="PORT")
    parser.add_argument("--interval", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--spool-mib", type=int, default=200, metavar="MIB", help="disk for events")
    parser.add_argument(
        "--budget", type=float, default=25.0, metavar="SECONDS", help="after SIGTERM"
    )
    parser.add_argument(
        "--never-exit",
        action="store_true",
        help="after an error, also in the flags, say why and try again: a Ray Pod must not fail with its sidecar",
    )


def run(args: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from manta.runtime.process import stop_on_signals

    stopping = stop_on_signals()
    while True:
        try:
            await _collect(args, stopping)
        except Exception as error:
            if not args.never_exit:
                raise
            log.warning("nothing is collected, trying again in %.0f s: %s", _RETRY_SECONDS, error)
        else:
            return 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_RETRY_SECONDS):
                await stopping.wait()
                return 0


async def _collect(args: argparse.Namespace, stopping: asyncio.Event) -> None:
    from manta.history.collector import LIMITS, Collector, CollectorOptions
    from manta.history.dashboard_fetch import dashboard_fetcher
    from manta.history.store import open_store
    from manta.httpserver.server import HttpServer

    who = _identity(args)
    store = open_store(args.store, os.environ)
    options = CollectorOptions(
        args.root,
        args.spool or args.root / ".manta-history",
        interval=args.interval,
        spool_bytes=args.spool_mib * 1024 * 1024,
        budget=args.budget,
    )
    try:
        fetch = dashboard_fetcher(args.dashboard, os.environ) if args.dashboard else None
    except ValueError as error:
        raise UsageError(f"--dashboard: {error}") from error
    collector = Collector(store, who, options, fetch)
    server = HttpServer(collector, limits=LIMITS)
    try:
        port = await server.start("127.0.0.1", args.port)
    except OSError as error:
        raise UsageError(f"--port {args.port}: {error.strerror or error}") from error
    try:
        print(f"collecting {args.root} to {store.url}; events on 127.0.0.1:{port}", flush=True)
        await collector.run(stopping)
    finally:
        await server.stop(0.5)
    totals = collector.totals
    print(
        f"shipped {totals.objects} objects, {totals.bytes} bytes; dropped {totals.dropped};"
        f" {totals.skipped} files could not be read",
        flush=True,
    )


def _identity(args: argparse.Namespace) -> Identity:
    """Whose Pod it is. Raises UsageError, which names the invalid flag."""
    from manta.history.layout import InvalidName, check_dns_name
    from manta.history.ship import Identity

    if not args.store:
        raise UsageError(f"--store URL, or the variable {names.ENV_HISTORY_STORE}, must be set")
    if not 0 <= args.port < 65536:
        raise UsageError(f"--port {args.port}: must be 0 to 65535")
    for flag in ("interval", "budget", "spool_mib"):
        if not getattr(args, flag) > 0:  # nor is `nan`
            raise UsageError(
                f"--{flag.replace('_', '-')} {getattr(args, flag)}: must be more than 0"
            )
    kind = (args.owner_kind or "RayCluster").lower()
    name = args.owner_name or args.cluster
    who = Identity(
        args.namespace, kind, name, args.cluster, args.pod, args.role.lower(), args.ray_version
    )
    try:
        who.session("session_x")
        check_dns_name("Pod", args.pod)
    except InvalidName as error:
        flags = "--namespace, --owner-kind, --owner-name, --cluster or --pod"
        raise UsageError(f"{error} ({flags})") from error
    return who
