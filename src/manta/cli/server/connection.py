"""The API server and the credentials of a command, by kubectl's rules.

In this order: `--dir` (the plane on this machine) or `--kubeconfig`; the variable KUBECONFIG, whose
files are merged; `~/.kube/config`; the service account of this Pod. If none of these exists, the plane
in $MANTA_DIR or `~/.manta`, but not for `install` and `uninstall`. Errors name the server.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from manta.api.usage import UsageError
from manta.cli.server.kubectl_flags import add_kubectl_flags, kube_flag, overrides_of, timeout_of
from manta.client.connection import NoServerError, default_plane
from manta.kube.client import DEFAULT_TIMEOUT, Client
from manta.kube.cluster import Cluster

NO_SERVER = (
    "no Kubernetes API server is configured: set --kubeconfig FILE or the variable KUBECONFIG"
)


def add_connection_flags(
    parser: argparse.ArgumentParser, *, plane: bool = True, namespace: bool = False
) -> None:
    """`plane=False`: for commands that do not work on a plane of this machine."""
    if namespace:
        about = "default: the namespace of the kubeconfig's context"
        parser.add_argument("-n", "--namespace", metavar="NAME", help=about)
    group = parser.add_argument_group(
        "connection",
        "Default: the same cluster as kubectl. All connection flags of kubectl are accepted "
        "(--server, --token, --as, ...; see `kubectl options`).",
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
            "use the plane in this directory ($MANTA_DIR or ~/.manta is the default if there is no "
            "kubeconfig)",
        )
    add_kubectl_flags(parser, group)


class GivenDirectory(argparse.Action):
    """Records that the flag was given: it then overrides the environment."""

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
        default=default_plane(os.environ),
        metavar="DIR",
        help=about,
    )


def namespace_of(args: argparse.Namespace) -> str:
    """The namespace of the command; `default` if no API server is configured."""
    if args.namespace:
        return str(args.namespace)
    try:
        return cluster_of(args).namespace
    except NoServerError:
        return "default"


def cluster_of(args: argparse.Namespace) -> Cluster:
    """The API server of the flags and the environment. Raises NoServerError if there is none."""
    from manta.kube.overrides import overridden

    flags = overrides_of(args)
    try:
        return overridden(_configured(args), flags)
    except NoServerError:
        if not flags.server:
            raise
        return overridden(Cluster(server=flags.server), flags)


def _configured(args: argparse.Namespace) -> Cluster:
    from manta.client.connection import find_cluster

    directory: Path | None = getattr(args, "dir", None)
    given = getattr(args, "dir_given", False)
    try:
        return find_cluster(
            os.environ,
            kubeconfig=_of_directory(args) if given else args.kubeconfig,
            context=args.context,
            cluster=kube_flag(args, "cluster"),
            user=kube_flag(args, "user"),
            fallback=directory,
            on_home_config=lambda: _note_if_ambiguous(directory),
        )
    except NoServerError:
        more = "" if directory is None else ", or start a plane on this machine with `manta up`"
        raise NoServerError(f"{NO_SERVER}{more}") from None


def _of_directory(args: argparse.Namespace) -> Path:
    if args.kubeconfig is not None:
        raise UsageError(
            f"--dir {args.dir} and --kubeconfig {args.kubeconfig} name two API servers: "
            "use only one of them"
        )
    path: Path = args.dir / "kubeconfig"
    if not path.exists():
        raise UsageError(
            f"--dir {args.dir}: no plane runs there; start it with `manta up --dir {args.dir}`"
        )
    return path


def names_server(args: argparse.Namespace) -> bool:
    """Whether a flag names a kubeconfig, a part of one, or a server."""
    named = args.kubeconfig is not None or args.context is not None
    return named or any(kube_flag(args, name) for name in ("server", "cluster", "user"))


def plane_directories(args: argparse.Namespace) -> list[Path]:
    """Directories that may be planes, from the flags and the environment."""
    named = [Path(one).expanduser() for one in os.environ.get("KUBECONFIG", "").split(os.pathsep)]
    files = [args.kubeconfig] if args.kubeconfig is not None else named
    found = [*(path.parent for path in files if path.name), getattr(args, "dir", None)]
    return list(dict.fromkeys(path.resolve() for path in found if path is not None))


_NOTED: set[Path] = set()


def _note_if_ambiguous(directory: Path | None) -> None:
    """Tell users who have just started a plane that kubectl's rules choose another cluster."""
    if directory is None or directory in _NOTED or not (directory / "kubeconfig").exists():
        return
    _NOTED.add(directory)
    print(
        f"note: using the cluster of ~/.kube/config, as kubectl does; --dir {directory} selects the "
        "plane on this machine",
        file=sys.stderr,
    )


@asynccontextmanager
async def open_client(args: argparse.Namespace) -> AsyncIterator[Client]:
    async with _connected(cluster_of(args), timeout_of(args)) as client:
        yield client


@asynccontextmanager
async def open_plane(directory: Path) -> AsyncIterator[Client]:
    """A client of the plane in this directory, whatever the environment says."""
    from manta.kube.config import load

    async with _connected(load(directory / "kubeconfig", environment=os.environ)) as client:
        yield client


@asynccontextmanager
async def _connected(cluster: Cluster, seconds: float | None = None) -> AsyncIterator[Client]:
    from manta.cli.server.warnings import WarningPrinter
    from manta.kube.transport import HttpTransport

    client = Client(WarningPrinter(HttpTransport(cluster)), timeout=seconds or DEFAULT_TIMEOUT)
    try:
        yield client
    finally:
        await client.close()
