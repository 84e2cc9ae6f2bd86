"""Which API server a command talks to, and as whom.

In this order: `--kubeconfig`, the variable KUBECONFIG, the plane that `manta up` started (its
directory), `~/.kube/config`. The first that exists wins; what was chosen is said in every error.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from manta.cli.usage import UsageError
from manta.kube.client import Client

DEFAULT_DIRECTORY = "~/.manta"


def add_connection_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("connection")
    group.add_argument("--kubeconfig", type=Path, metavar="FILE", help="use this kubeconfig")
    group.add_argument("--context", metavar="NAME", help="use this context of the kubeconfig")
    add_directory_flag(group)


def add_namespace_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        help="default: that of the kubeconfig's context, as with kubectl",
    )


def namespace_of(args: argparse.Namespace) -> str:
    """Also where no server is known, and none is needed: a dry run."""
    if args.namespace:
        return str(args.namespace)
    from manta.kube.credentials import load

    try:
        paths = kubeconfig_paths(args)
    except UsageError:
        return "default"
    return load(paths, context=args.context, environment=os.environ).namespace


def add_directory_flag(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(os.environ.get("MANTA_DIR", DEFAULT_DIRECTORY)).expanduser(),
        metavar="DIR",
        help="state directory of the plane on this machine (default: $MANTA_DIR or ~/.manta)",
    )


def kubeconfig_paths(args: argparse.Namespace) -> list[Path]:
    if args.kubeconfig is not None:
        return [args.kubeconfig]
    if named := os.environ.get("KUBECONFIG"):
        return [Path(part) for part in named.split(os.pathsep) if part]
    for candidate in (args.dir / "kubeconfig", Path("~/.kube/config").expanduser()):
        if candidate.exists():
            return [candidate]
    raise UsageError(
        "no Kubernetes API server is known here: start one with `manta up`, "
        "or name a kubeconfig with --kubeconfig FILE or the variable KUBECONFIG"
    )


@asynccontextmanager
async def open_client(args: argparse.Namespace) -> AsyncIterator[Client]:
    from manta.kube.connect import connect
    from manta.kube.credentials import load

    paths = kubeconfig_paths(args)
    client = await connect(load(paths, context=args.context, environment=os.environ))
    try:
        yield client
    finally:
        await client.close()
