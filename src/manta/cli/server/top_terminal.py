"""Runs the terminal of `manta top`, with the watches of the kubeconfig's user."""

from __future__ import annotations

import argparse
import asyncio

from manta.cli.server.connection import cluster_of
from manta.cli.server.console_server import connected
from manta.cli.server.kubectl_flags import timeout_of
from manta.console.object_watch import ObjectWatch
from manta.console.rights import user_name
from manta.console.terminal.app import TopApp
from manta.console.terminal.source import VisitorSource
from manta.console.visitors import Visitor
from manta.runtime.clock import SystemClock
from manta.runtime.process import loop_factory


def show(args: argparse.Namespace) -> int:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_show(args))
    return 0


async def _show(args: argparse.Namespace) -> None:
    cluster, clock = cluster_of(args), SystemClock()
    given = tuple((args.namespace or "").replace(",", " ").split())
    client = connected(cluster, timeout_of(args))
    namespaces = given or (cluster.namespace,)
    try:
        user = await user_name(client)
    except BaseException:
        await client.close()
        raise
    watch = ObjectWatch(client, clock, namespaces, user=user)
    visitor = Visitor(client, watch, clock)
    try:
        await watch.start()
        await TopApp(VisitorSource(visitor, cluster.server)).run_async()
    finally:
        await visitor.close()
