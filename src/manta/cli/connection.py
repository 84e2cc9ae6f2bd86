"""Which API server a command talks to, and as whom: by kubectl's rules.

In this order: `--dir` (the plane on this machine) or `--kubeconfig`; the variable KUBECONFIG, a
list of files that are merged; `~/.kube/config`; the service account of the Pod that we run in.
Only where none of these exists is the plane in $MANTA_DIR or `~/.manta` used, and never by
`install` and `uninstall`. The server that was chosen is named in every error.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manta.cli.usage import UsageError
from manta.kube.client import Client

if TYPE_CHECKING:
    from manta.kube.cluster import Cluster

DEFAULT_DIRECTORY = "~/.manta"
NO_SERVER = (
    "no Kubernetes API server is known here: name a kubeconfig with --kubeconfig FILE or the "
    "variable KUBECONFIG"
)


class NoServerError(UsageError):
    """Neither a flag, nor the environment, nor a file names an API server."""


def add_connection_flags(parser: argparse.ArgumentParser, *, plane: bool = True) -> None:
    """`plane=False`: for commands that are not for the plane on this machine."""
    group = parser.add_argument_group(
        "connection", "Without any of these: the cluster that kubectl would talk to."
    )
    group.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="use this kubeconfig (default: $KUBECONFIG, else ~/.kube/config)",
    )
    group.add_argument("--context", metavar="NAME", help="use this context of the kubeconfig")
    if plane:
        add_directory_flag(
            group,
            "use the plane in this directory; also the default (of $MANTA_DIR or ~/.manta) where "
            "there is no kubeconfig at all",
        )


def add_namespace_flag(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        help="default: that of the kubeconfig's context, as with kubectl",
    )


class GivenDirectory(argparse.Action):
    """Remembers that the flag was given: then it wins over the environment."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        namespace.dir = values
        namespace.dir_given = True


def add_directory_flag(
    parser: argparse.ArgumentParser | argparse._ArgumentGroup,
    about: str = "state directory of the plane on this machine (default: $MANTA_DIR or ~/.manta)",
) -> None:
    parser.add_argument(
        "--dir",
        type=lambda text: Path(text).expanduser(),
        action=GivenDirectory,
        default=Path(os.environ.get("MANTA_DIR") or DEFAULT_DIRECTORY).expanduser(),
        metavar="DIR",
        help=about,
    )


def namespace_of(args: argparse.Namespace) -> str:
    """Also where no server is known, and none is needed: a dry run."""
    if args.namespace:
        return str(args.namespace)
    try:
        return cluster_of(args).namespace
    except NoServerError:
        return "default"


def cluster_of(args: argparse.Namespace) -> Cluster:
    """The API server that the flags and the environment name. Raises `NoServerError` when none is."""
    from manta.kube.credentials import SERVICE_ACCOUNT, in_cluster, load

    def loaded(path: Path | None) -> Cluster:
        return load(path, context=args.context, environment=os.environ)

    if getattr(args, "dir_given", False):
        return loaded(_of_directory(args))
    if args.kubeconfig is not None:
        return loaded(args.kubeconfig)
    if os.environ.get("KUBECONFIG"):
        return loaded(None)
    directory: Path | None = getattr(args, "dir", None)
    if (Path.home() / ".kube" / "config").exists():
        _say_if_ambiguous(directory)
        return loaded(None)
    if os.environ.get("KUBERNETES_SERVICE_HOST") and (SERVICE_ACCOUNT / "token").exists():
        return in_cluster(os.environ)
    if directory is None:
        raise NoServerError(NO_SERVER)
    if (directory / "kubeconfig").exists():
        return loaded(directory / "kubeconfig")
    raise NoServerError(f"{NO_SERVER}, or start a plane on this machine with `manta up`")


def _of_directory(args: argparse.Namespace) -> Path:
    if args.kubeconfig is not None:
        raise UsageError(
            f"--dir {args.dir} and --kubeconfig {args.kubeconfig} name two API servers: "
            "leave out one of them"
        )
    path: Path = args.dir / "kubeconfig"
    if not path.exists():
        raise UsageError(
            f"--dir {args.dir}: no plane runs there; start one with `manta up --dir {args.dir}`"
        )
    return path


def plane_directories(args: argparse.Namespace) -> list[Path]:
    """Directories of planes that the flags and the environment may name."""
    named = [Path(one).expanduser() for one in os.environ.get("KUBECONFIG", "").split(os.pathsep)]
    files = [args.kubeconfig] if args.kubeconfig is not None else named
    found = [*(path.parent for path in files if path.name), getattr(args, "dir", None)]
    return list(dict.fromkeys(path.resolve() for path in found if path is not None))


_SAID: set[Path] = set()


def _say_if_ambiguous(directory: Path | None) -> None:
    """kubectl's rules may surprise those who have just started a plane."""
    if directory is None or directory in _SAID or not (directory / "kubeconfig").exists():
        return
    _SAID.add(directory)
    print(
        f"note: this is for the cluster of ~/.kube/config, as with kubectl; --dir {directory} "
        "means the plane that runs on this machine",
        file=sys.stderr,
    )


@asynccontextmanager
async def open_client(args: argparse.Namespace) -> AsyncIterator[Client]:
    async with _connected(cluster_of(args)) as client:
        yield client


@asynccontextmanager
async def open_plane(directory: Path) -> AsyncIterator[Client]:
    """The plane of this directory, whatever the environment says."""
    from manta.kube.credentials import load

    async with _connected(load(directory / "kubeconfig", environment=os.environ)) as client:
        yield client


@asynccontextmanager
async def _connected(cluster: Cluster) -> AsyncIterator[Client]:
    from manta.cli.server_warnings import WarningPrinter
    from manta.kube.transport import HttpTransport

    client = Client(WarningPrinter(HttpTransport(cluster)))
    try:
        yield client
    finally:
        await client.close()
