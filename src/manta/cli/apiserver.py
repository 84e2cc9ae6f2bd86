"""`manta apiserver`: the API server and the built-in controllers alone, in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import Any

from manta.cli.usage import examples


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "apiserver",
        help="run only the embedded API server and its controllers",
        **examples(
            (
                "manta apiserver --dir /tmp/plane",
                "in the foreground; its kubeconfig is in the directory",
            ),
            (
                "manta apiserver --dir /tmp/plane --fake-nodes 3",
                "with nodes on which Pods only seem to run",
            ),
        ),
    )
    parser.add_argument("--dir", type=Path, required=True, help="where state and kubeconfig lie")
    parser.add_argument("--port", type=int, default=0, help="port (default: a free one)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--name", action="append", default=[], help="another name under which it is reached"
    )
    parser.add_argument("--memory", action="store_true", help="keep no objects on disk")
    parser.add_argument(
        "--durable", action="store_true", help="acknowledged writes survive a power loss"
    )
    parser.add_argument(
        "--fake-nodes", type=int, default=0, metavar="N", help="scripted nodes that run no process"
    )
    parser.add_argument(
        "--no-controllers", action="store_true", help="the API server alone, without controllers"
    )


def run(args: argparse.Namespace) -> int:
    with contextlib.suppress(ImportError):
        import uvloop

        return int(uvloop.run(_serve(args)))
    return asyncio.run(_serve(args))


async def _serve(args: argparse.Namespace) -> int:
    from manta.localplane.plane import Plane, PlaneBusy, PlaneOptions
    from manta.localplane.store.database import JournalError
    from manta.localplane.store.store import StoreFailed

    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    options = PlaneOptions(
        dir=args.dir.resolve(),
        port=args.port,
        host=args.host,
        names=tuple(args.name),
        memory=args.memory,
        durable=args.durable,
        fake_nodes=args.fake_nodes,
        controllers=not args.no_controllers,
    )
    try:
        async with Plane(options) as plane:
            print(f"serving {plane.url}; kubeconfig: {plane.kubeconfig}", flush=True)
            plane.failed.add_done_callback(lambda _: stopping.set())
            await stopping.wait()
            if plane.failed.done():
                print(f"manta apiserver: the controllers ended: {plane.failed.result()}")
                return 1
    except (PlaneBusy, OSError, StoreFailed, JournalError) as error:
        print(f"manta apiserver: {error}", file=sys.stderr)
        return 1
    return 0
