"""`manta apiserver`: the embedded API server and its built-in controllers, in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

from manta.cli.output.help import examples
from manta.runtime.process import loop_factory, stop_on_signals


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "apiserver",
        **examples(
            (
                "manta apiserver --dir /tmp/plane",
                "in the foreground; its kubeconfig is in the directory",
            ),
            ("manta apiserver --dir /tmp/plane --fake-nodes 3", "with nodes that simulate Pods"),
        ),
    )
    parser.add_argument(
        "--dir", type=Path, required=True, help="directory of the state and the kubeconfig"
    )
    parser.add_argument("--port", type=int, default=0, help="port (default: a free one)")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        help="additional name of the server in its certificate",
    )
    parser.add_argument("--memory", action="store_true", help="store objects in memory only")
    parser.add_argument(
        "--durable", action="store_true", help="acknowledged writes survive a power loss"
    )
    parser.add_argument(
        "--fake-nodes", type=int, default=0, metavar="N", help="nodes that simulate Pods"
    )
    parser.add_argument("--no-controllers", action="store_true", help="run no built-in controllers")


def run(args: argparse.Namespace) -> int:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(args))


async def _serve(args: argparse.Namespace) -> int:
    from manta.localplane.plane import Plane, PlaneBusy, PlaneOptions
    from manta.localplane.store.database import JournalError
    from manta.localplane.store.store import StoreFailed

    stopping = stop_on_signals()
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
                print(f"manta apiserver: the controllers stopped: {plane.failed.result()}")
                return 1
    except (PlaneBusy, OSError, StoreFailed, JournalError) as error:
        print(f"manta apiserver: {error}", file=sys.stderr)
        return 1
    return 0
