"""`manta activator`: wakes Ray clusters that sleep when somebody connects to their head Service.

For Kubernetes, as an option of the chart. `manta up` wakes clusters itself.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from manta.api.addresses import parse_address
from manta.api.ray.names import ENV_POD_IP
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.kube.cluster import Cluster
from manta.kube.errors import CredentialsError
from manta.runtime.process import stop_on_signals, until_first_ends


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "activator",
        description="Wake Ray clusters that sleep when somebody connects to their head Service.",
        **examples(
            ("manta activator", "in a Pod, as the chart starts it"),
            ("manta activator --kubeconfig FILE --address 10.0.0.5", "elsewhere in the network"),
        ),
    )
    parser.add_argument("--kubeconfig", type=Path, metavar="FILE", help="use this kubeconfig")
    parser.add_argument("--context", metavar="NAME", help="use this context of the kubeconfig")
    parser.add_argument(
        "--address",
        default=os.environ.get(ENV_POD_IP, ""),
        help=f"address of this process for other Pods; default: the variable {ENV_POD_IP}",
    )
    parser.add_argument(
        "--owner",
        default="",
        metavar="CLUSTERROLE",
        help="what a process that is killed leaves behind is deleted with this ClusterRole; the chart names its own",
    )


def run(args: argparse.Namespace) -> int:
    from manta.kube.config import discover
    from manta.runtime import logging as logs

    if parse_address(args.address) is None:
        raise UsageError(f"--address {args.address!r}: give the IP address of this Pod")
    try:
        cluster = discover(args.kubeconfig, args.context, environment=os.environ)
        logs.configure("json")
        return asyncio.run(_serve(args.address, args.owner, cluster))
    except (CredentialsError, OSError) as error:
        print(f"manta activator: {error}", file=sys.stderr)
        return 1


async def _serve(address: str, owner: str, cluster: Cluster) -> int:
    from manta.cli.server.activator import Activator
    from manta.kube.connect import connect

    stopping = stop_on_signals()
    client = await connect(cluster)
    try:
        work = Activator(client, address, address, owner).run()
        activator = asyncio.create_task(work, name="activator")
        signal = asyncio.create_task(stopping.wait(), name="signal")
        await until_first_ends([activator, signal])
    finally:
        await client.close()
    return 0
