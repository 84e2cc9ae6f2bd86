"""The process behind `manta up`: plane and nodes in this process, the operator in a child.

The operator is a process of its own: it can be killed, measured and restarted like the real thing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from manta import __version__
from manta.cli.installation import mark_plane
from manta.cli.manifests import Document
from manta.cli.plane_operator import operate, operator_log
from manta.cli.planeprocess import LAST_WORDS, write_record
from manta.cli.progress import open_progress
from manta.cli.together import until_first_ends
from manta.cli.usage import UsageError
from manta.kube.errors import MantaError
from manta.localplane.node.doubts import doubt_lost_pods
from manta.localplane.node.planeid import NODE_DIRECTORY
from manta.localplane.node.processes import NoNamespaces
from manta.localplane.node.ranges import Ranges, Wish, claim_ranges
from manta.localplane.plane import Plane, PlaneBusy, PlaneOptions
from manta.localplane.privatedir import make_private_directory
from manta.localplane.store.database import JournalError
from manta.localplane.store.store import StoreFailed
from manta.runtime.clock import SystemClock

if TYPE_CHECKING:
    from manta.localplane.node.agent import NodeOptions


def run_foreground(args: argparse.Namespace, documents: list[Document]) -> int:
    code = 1
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = runner.run(_serve(args, documents))
    except* (OSError, PlaneBusy, NoNamespaces, StoreFailed, JournalError) as group:
        for words in dict.fromkeys(str(error) for error in _leaves(group)):
            with contextlib.suppress(OSError):  # a full disk has no room for our words either
                print(f"{LAST_WORDS} {words}", file=sys.stderr, flush=True)
    return code


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _leaves(group: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _serve(args: argparse.Namespace, documents: list[Document]) -> int:
    make_private_directory(args.dir)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    ranges = _ranges(args)
    options = PlaneOptions(
        dir=args.dir, port=args.port, fake_nodes=args.fake_nodes, services=ranges.services
    )
    async with Plane(options) as plane:
        if args.nodes:
            # Before anybody is told that the plane is there: nobody may read stale news.
            await doubt_lost_pods(plane.client, args.dir / NODE_DIRECTORY, SystemClock().now())
        await mark_plane(plane.client, args.dir)
        write_record(args.dir, plane.url, __version__)
        print(f"API server ready at {plane.url}", flush=True)
        print(f"export KUBECONFIG={plane.kubeconfig}", flush=True)
        print(f"state in {args.dir}, log of the operator in {operator_log(args.dir)}", flush=True)
        await _run_beside(plane, args, documents, stopping, ranges)
    return 0


def _ranges(args: argparse.Namespace) -> Ranges:
    """Addresses of this plane. Only root's planes share a network with the machine."""
    from manta.cli.up import parse_range

    wish = Wish(
        parse_range("--service-cidr", args.service_cidr), parse_range("--pod-cidr", args.pod_cidr)
    )
    shared = bool(args.nodes) and args.isolation != "none" and os.geteuid() == 0
    return claim_ranges(args.dir / NODE_DIRECTORY, wish, shared=shared)


async def _run_beside(
    plane: Plane,
    args: argparse.Namespace,
    documents: list[Document],
    stopping: asyncio.Event,
    ranges: Ranges,
) -> None:
    """Everything beside the API server; the first of it that ends, ends the rest."""
    tasks = [
        asyncio.create_task(operate(plane.client, args.dir, args.feature_gates), name="operator")
    ]
    if args.nodes:
        tasks.append(asyncio.create_task(_run_nodes(plane, args, ranges), name="nodes"))
    tasks.append(asyncio.create_task(_bring_up_and_rest(args, documents), name="manifests"))
    tasks.append(asyncio.create_task(_ended(stopping), name="signal"))
    await until_first_ends(tasks)


async def _ended(stopping: asyncio.Event) -> None:
    await stopping.wait()


async def _bring_up_and_rest(args: argparse.Namespace, documents: list[Document]) -> None:
    """A failure is said, and the plane stays: whoever watches it here can look for the cause."""
    from manta.cli.up import complete

    try:
        with open_progress() as progress:
            await complete(args, documents, progress)
    except (UsageError, MantaError) as error:
        print(f"manta: {error}", file=sys.stderr, flush=True)
    print("Ctrl-C or `manta down` stops the plane", flush=True)
    await asyncio.Event().wait()


async def _run_nodes(plane: Plane, args: argparse.Namespace, ranges: Ranges) -> None:
    from manta.localplane.node.agent import NodeAgent

    agent = NodeAgent(plane.client, SystemClock(), node_options(plane, args, ranges))
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
        isolation="none" if args.isolation == "none" else "namespaces",
        ranges=ranges,
        api_server=(plane.options.host, plane.port),
    )
