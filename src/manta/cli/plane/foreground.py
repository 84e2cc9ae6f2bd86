"""The process of a plane: API server and nodes in this process, the operator in a child process."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from manta import __version__
from manta.api.usage import UsageError
from manta.cli.output.progress import open_progress
from manta.cli.plane import console
from manta.cli.plane.bring_up import complete
from manta.cli.plane.gpus import gpu_options
from manta.cli.plane.history import HistoryImporter
from manta.cli.plane.operator import operate, operator_flags, operator_log
from manta.cli.plane.process import FAILURE_PREFIX, write_record
from manta.cli.plane.ranges import parse_range
from manta.cli.server.manifests import Document
from manta.client.waking import Waker
from manta.install.plane import mark_plane
from manta.kube.errors import MantaError
from manta.localplane.node.host.plane_id import NODE_DIRECTORY
from manta.localplane.node.net.address_ranges import RangeRequest, Ranges, claim_ranges
from manta.localplane.node.net.command_rewriter import ProgramTable
from manta.localplane.node.pod.lost_pods import mark_lost_pods
from manta.localplane.node.sandbox.launcher import NoNamespaces
from manta.localplane.plane import Plane, PlaneBusy, PlaneOptions
from manta.localplane.private_files import make_private_directory
from manta.localplane.store.database import JournalError
from manta.localplane.store.store import StoreFailed
from manta.runtime.clock import SystemClock
from manta.runtime.process import loop_factory, stop_on_signals, until_first_ends

RAY_PROGRAMS = ProgramTable(
    port_flags=("--metrics-export-port", "--dashboard-agent-listen-port"),
    extra_flags={
        "ray start": ("--node-ip-address={address}", "--min-worker-port=0", "--max-worker-port=0")
    },
    scratch_variables=("RAY_TMPDIR",),
)


if TYPE_CHECKING:
    from manta.localplane.node.agent import NodeOptions


def run_foreground(args: argparse.Namespace, documents: list[Document]) -> int:
    code = 1
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            code = runner.run(_serve(args, documents))
    except* (OSError, PlaneBusy, NoNamespaces, StoreFailed, JournalError) as group:
        for words in dict.fromkeys(str(error) for error in _leaves(group)):
            with contextlib.suppress(OSError):  # the disk may be full
                print(f"{FAILURE_PREFIX} {words}", file=sys.stderr, flush=True)
    return code


def _leaves(group: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _serve(args: argparse.Namespace, documents: list[Document]) -> int:
    make_private_directory(args.dir)
    stopping = stop_on_signals()
    ranges = _ranges(args)
    options = PlaneOptions(
        dir=args.dir, port=args.port, fake_nodes=args.fake_nodes, services=ranges.services
    )
    async with Plane(options) as plane:
        if args.nodes:
            # Before clients can find the plane: they must not read outdated Pod statuses.
            await mark_lost_pods(plane.client, args.dir / NODE_DIRECTORY, SystemClock().now())
        plane.app.wake = Waker(plane.client)
        await mark_plane(plane.client, args.dir)
        listener = console.listener_of(args.dir, wanted=args.console)
        write_record(args.dir, plane.url, __version__)
        print(f"API server ready at {plane.url}", flush=True)
        print(f"export KUBECONFIG={plane.kubeconfig}", flush=True)
        print(f"state in {args.dir}, log of the operator in {operator_log(args.dir)}", flush=True)
        await _run_components(plane, args, documents, stopping, ranges, listener)
    return 0


def _ranges(args: argparse.Namespace) -> Ranges:
    """The address ranges of this plane. Only planes of root share a network with the machine."""
    requested = RangeRequest(
        parse_range("--service-cidr", args.service_cidr), parse_range("--pod-cidr", args.pod_cidr)
    )
    shared = bool(args.nodes) and args.isolation != "none" and os.geteuid() == 0
    return claim_ranges(args.dir / NODE_DIRECTORY, requested, shared=shared)


async def _run_components(
    plane: Plane,
    args: argparse.Namespace,
    documents: list[Document],
    stopping: asyncio.Event,
    ranges: Ranges,
    listener: socket.socket | None,
) -> None:
    """Run the operator, the nodes and the manifests, until a signal arrives or one of them ends."""
    flags = operator_flags(
        args.feature_gates, history=bool(args.history), idle_suspend=args.idle_suspend
    )
    running = operate(plane.client, args.dir, flags)
    tasks = [asyncio.create_task(running, name="operator")]
    history = HistoryImporter(args.dir, args.history) if args.history else None
    if history is not None:
        from manta.cli.plane.history_answers import AnswerPoller
        from manta.cli.plane.history_server import serve_history

        tasks.append(asyncio.create_task(history.run(), name="history"))
        poller = AnswerPoller(plane.client, args.dir)
        tasks.append(asyncio.create_task(poller.run(), name="dashboards"))
        serving = serve_history(args.dir, args.history)
        tasks.append(asyncio.create_task(serving, name="history server"))
        # No link: the output of a plane in the background is a log file.
        print("`manta history open` prints a link to Ray's dashboard of what is gone", flush=True)
    if listener is not None:
        visits = console.serve_console(args.dir, listener)
        tasks.append(asyncio.create_task(visits, name="console"))
    if args.nodes:
        on_kept = history.notify if history is not None else None
        nodes = _run_nodes(plane, args, ranges, on_kept)
        tasks.append(asyncio.create_task(nodes, name="nodes"))
    tasks.append(asyncio.create_task(_apply_and_wait(args, documents), name="manifests"))
    tasks.append(asyncio.create_task(_wait_for(stopping), name="signal"))
    await until_first_ends(tasks)


async def _wait_for(stopping: asyncio.Event) -> None:
    await stopping.wait()


async def _apply_and_wait(args: argparse.Namespace, documents: list[Document]) -> None:
    """Apply the manifests. After a failure the plane keeps running, so that the user can debug it."""
    try:
        with open_progress() as progress:
            await complete(args, documents, progress)
        if sys.stderr.isatty():  # else it is a log file, in which a link does not belong
            console.print_console_link(args.dir, opening=args.open)
    except (UsageError, MantaError) as error:
        print(f"manta: {error}", file=sys.stderr, flush=True)
    print("Ctrl-C or `manta down` stops the plane", flush=True)
    await asyncio.Event().wait()


async def _run_nodes(
    plane: Plane, args: argparse.Namespace, ranges: Ranges, on_kept: Callable[[], None] | None
) -> None:
    from manta.localplane.node.agent import NodeAgent

    options = replace(node_options(plane, args, ranges), on_kept=on_kept)
    agent = NodeAgent(plane.client, SystemClock(), options)
    plane.connector = agent.connector
    await agent.run()


def node_options(plane: Plane, args: argparse.Namespace, ranges: Ranges) -> NodeOptions:
    from manta.api.quantity import Quantity
    from manta.localplane.node.agent import NodeOptions

    return NodeOptions(
        dir=args.dir / NODE_DIRECTORY,
        plane=args.dir,
        nodes=args.nodes,
        cpus=args.cpus,
        memory=None if args.memory is None else Quantity.parse(args.memory).value(),
        gpus=gpu_options(args),
        isolation="none" if args.isolation == "none" else "namespaces",
        ranges=ranges,
        programs=RAY_PROGRAMS,
        api_server=(plane.options.host, plane.port),
        wake=plane.app.wake,
    )
