"""`manta up`: an API server, the operator and a node on this machine, and your manifests on it.

In the background by default. Idempotent: a plane that runs already is used as it is.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import subprocess
import sys
import time
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

from manta.api.ray.resources import RAY_RESOURCES
from manta.cli.apply import apply_document
from manta.cli.connection import add_directory_flag, open_plane
from manta.cli.egress_checks import egress_note
from manta.cli.examples import example
from manta.cli.follow import Followed, Follower
from manta.cli.kinds import Kinds
from manta.cli.manifests import Document, read_manifests
from manta.cli.plane_operator import check_flags, last_operator_lines, operator_health, operator_log
from manta.cli.planeprocess import last_log_lines, log_path, plane_processes, read_record, spawn
from manta.cli.progress import Progress, open_progress
from manta.cli.remains import clear_before_start
from manta.cli.usage import UsageError, examples
from manta.kube.client import Client
from manta.kube.errors import ApiError, Unreachable
from manta.localplane.privatedir import make_private_directory

RAY_KINDS = [{"apiVersion": one.api_version, "kind": one.kind} for one in RAY_RESOURCES]
START_PATIENCE = 60.0
MOST_EXITS, USAGE_EXIT = 3, 2
"""Ends of the operator in a row after which, and an exit code with which, no restart will help."""
LARGEST, SMALLEST = 8, 26
"""Prefixes of address ranges: Pods and Services need some room, and the machine too."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "up",
        help="start a control plane and a node on this machine",
        description="Start an API server, the operator and a node on this machine. A plane that runs "
        "already is used as it is.",
        **examples(
            ("manta up", "in the background"),
            ("manta up --quickstart", "with a small real Ray cluster"),
            ("manta up --with cluster.yaml", "with your manifests, until they are ready"),
            ("manta up --nodes 0 --fake-nodes 20", "a thousand Pods and no processes"),
            ("manta up --foreground", "in this terminal, until Ctrl-C"),
            ("manta up --dir ~/other", "a second plane beside the first"),
        ),
    )
    parser.add_argument("--foreground", action="store_true", help="stay in this terminal")
    parser.add_argument(
        "--port", type=int, default=0, help="port of the API server (default: a free one)"
    )
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="how many nodes to play")
    parser.add_argument("--cpus", type=float, metavar="N", help="CPUs of each node (default: all)")
    parser.add_argument("--memory", metavar="QUANTITY", help="memory of each node, such as 8Gi")
    parser.add_argument(
        "--fake-nodes", type=int, default=0, metavar="N", help="scripted nodes that run no process"
    )
    parser.add_argument(
        "--isolation",
        choices=("auto", "namespaces", "none"),
        default="auto",
        help="how Pods are kept apart; `none` is for one Ray cluster on a locked-down machine",
    )
    for flag, whose in (("--service-cidr", "Services"), ("--pod-cidr", "Pods")):
        parser.add_argument(
            flag,
            metavar="CIDR",
            help=f"addresses of {whose} (default: a range that nobody uses, and the same next time)",
        )
    parser.add_argument(
        "--feature-gates", default="", metavar="A=true,B=false", help="passed on to the operator"
    )
    parser.add_argument(
        "--with",
        dest="manifests",
        action="append",
        default=[],
        metavar="FILE",
        help="apply this manifest (a file, a directory, or - for standard input) and wait until its "
        "objects are ready; may be given more than once",
    )
    parser.add_argument(
        "--quickstart",
        dest="manifests",
        action="append_const",
        const=str(example("quickstart.yaml")),
        help="also start a small real Ray cluster, and wait until it is ready",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=900,
        metavar="SECONDS",
        help="how long to wait for the objects of --with (default: 900)",
    )
    parser.add_argument(
        "--restore",
        type=Path,
        metavar="FILE",
        help="begin with the state that `manta backup` wrote",
    )
    parser.add_argument(
        "--replace-state",
        action="store_true",
        help="with --restore: put the state that is there aside",
    )
    add_directory_flag(parser)


def run(args: argparse.Namespace) -> int:
    documents = read_manifests(args.manifests)
    _refuse_nonsense(args)
    args.dir = args.dir.resolve()
    if note := egress_note(args):
        print(f"manta: warning: {note}", file=sys.stderr)
    if args.foreground:
        from manta.cli.foreground import run_foreground

        _restore(args)
        return run_foreground(args, documents)
    with open_progress() as progress:
        _start(args, progress)
        print(f"export KUBECONFIG={args.dir / 'kubeconfig'}")
        try:
            return asyncio.run(complete(args, documents, progress))
        except KeyboardInterrupt:
            print("the plane and your objects stay; `manta down` ends them", file=sys.stderr)
            raise


def _start(args: argparse.Namespace, progress: Progress) -> None:
    try:
        make_private_directory(args.dir)
        with (args.dir / "start.lock").open("w") as turn:
            fcntl.flock(turn, fcntl.LOCK_EX)  # one start at a time, whoever asks for it
            _restore(args)
            _start_in_background(args, progress)
    except OSError as error:
        raise UsageError(
            f"--dir {args.dir}: {error.strerror}; choose a directory of yours"
        ) from error


async def complete(args: argparse.Namespace, documents: list[Document], progress: Progress) -> int:
    """From an API server that answers to a plane with the user's objects on it."""
    progress.report("operator", "starting")
    await await_operator(args.dir)
    progress.report("operator", "ready", "ready")
    return await bring_up(args, documents, progress)


def _restore(args: argparse.Namespace) -> None:
    if args.restore is not None:
        from manta.cli.backup import restore

        restore(args)
    elif args.replace_state:
        raise UsageError("--replace-state: name the backup too: --restore FILE")


def _refuse_nonsense(args: argparse.Namespace) -> None:
    from manta.api.quantity import Quantity

    for flag, count in (("--nodes", args.nodes), ("--fake-nodes", args.fake_nodes)):
        if count < 0:
            raise UsageError(f"{flag} {count}: a number of nodes is 0 or more")
    if not 0 <= args.port <= 65535:
        raise UsageError(f"--port {args.port}: choose one between 1 and 65535, or 0 for a free one")
    if args.timeout <= 0:
        raise UsageError(f"--timeout {args.timeout:g}: give the manifests some seconds")
    if sys.platform != "linux" and args.nodes:
        raise UsageError(
            f"--nodes {args.nodes}: Pods as processes need Linux. Run manta inside a Linux virtual"
            " machine (on macOS for example: colima start, then colima ssh)"
        )
    if args.cpus is not None and args.cpus <= 0:
        raise UsageError(f"--cpus {args.cpus:g}: a node needs more than 0 CPUs")
    if args.memory is not None:
        try:
            Quantity.parse(args.memory)
        except ValueError as error:
            raise UsageError(f"--memory {args.memory}: {error}") from error
    for flag in ("service_cidr", "pod_cidr"):
        parse_range(f"--{flag.replace('_', '-')}", getattr(args, flag))
    _check_gates(args.feature_gates)


def _check_gates(gates: str) -> None:
    """The operator is a child whose refusal would only be in a log: refuse here, in its words."""
    for warning in check_flags(gates):
        print(f"manta: warning: {warning}", file=sys.stderr)


async def await_operator(directory: Path) -> None:
    """Until it is ready. UsageError with its last words when it ends instead, or takes too long."""
    deadline = time.monotonic() + START_PATIENCE
    while not (health := await asyncio.to_thread(operator_health, directory)).ready:
        hopeless = health.exits >= MOST_EXITS or health.last_exit == USAGE_EXIT
        if hopeless or time.monotonic() > deadline:
            raise UsageError(
                f"the operator of this plane does not run: {health.text}. {operator_log(directory)} "
                f"ends with:\n{last_operator_lines(directory)}\nThe plane itself stays; "
                f"`manta down --dir {directory}` stops it"
            )
        await asyncio.sleep(0.02)


def parse_range(flag: str, text: str | None) -> IPv4Network | None:
    """A range that is written as CIDR and large enough for a plane."""
    if text is None:
        return None
    try:
        network = IPv4Network(text)
    except ValueError as error:
        raise UsageError(f"{flag} {text}: {error}; write it as 10.96.0.0/16") from error
    if not SMALLEST >= network.prefixlen >= LARGEST:
        raise UsageError(f"{flag} {text}: choose a prefix between /{LARGEST} and /{SMALLEST}")
    return network


def _start_in_background(args: argparse.Namespace, progress: Progress) -> None:
    _await_other_start(args.dir)
    if record := read_record(args.dir):
        print(f"A plane runs already: {record.url} (pid {record.pid}, state in {args.dir})")
        if ignored := _flags_of_a_new_plane(args):
            print(f"It stays as it is: {ignored} would need `manta down` first")
        return
    clear_before_start(args.dir)
    (args.dir / "kubeconfig").unlink(missing_ok=True)
    began = time.monotonic()
    progress.report("API server", f"starting, state in {args.dir}")
    process = spawn(args.dir, _foreground_arguments(args))
    try:
        _await_kubeconfig(args.dir, process)
    except KeyboardInterrupt:
        process.terminate()
        print("interrupted; the plane that was starting is told to end", file=sys.stderr)
        raise
    progress.report("API server", f"ready after {time.monotonic() - began:.1f} s", "ready")


def _flags_of_a_new_plane(args: argparse.Namespace) -> str:
    """Flags of this call that a running plane cannot follow."""
    plain = {"nodes": 1, "fake_nodes": 0, "port": 0, "isolation": "auto", "feature_gates": ""}
    names = (*plain, "cpus", "memory", "service_cidr", "pod_cidr")
    given = [name for name in names if getattr(args, name) != plain.get(name)]
    return ", ".join(f"--{name.replace('_', '-')}" for name in given)


def _await_other_start(directory: Path) -> None:
    """A plane of this directory starts although its `manta up` was killed: let it finish."""
    deadline = time.monotonic() + START_PATIENCE
    while (
        read_record(directory) is None
        and log_path(directory).exists()
        and plane_processes(directory)
        and time.monotonic() < deadline
    ):
        time.sleep(0.05)


def _foreground_arguments(args: argparse.Namespace) -> list[str]:
    arguments = ["--nodes", str(args.nodes), "--fake-nodes", str(args.fake_nodes)]
    arguments += ["--port", str(args.port), "--isolation", args.isolation]
    arguments += ["--feature-gates", args.feature_gates]
    if args.cpus is not None:
        arguments += ["--cpus", str(args.cpus)]
    for flag in ("memory", "service_cidr", "pod_cidr"):
        if (value := getattr(args, flag)) is not None:
            arguments += [f"--{flag.replace('_', '-')}", value]
    return arguments


def _await_kubeconfig(directory: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_PATIENCE
    while time.monotonic() < deadline:
        if (directory / "kubeconfig").exists() and read_record(directory):
            return
        if process.poll() is not None:
            raise UsageError(
                f"the plane ended at once (exit code {process.returncode}); "
                f"{log_path(directory)} says:\n{last_log_lines(directory)}"
            )
        time.sleep(0.02)
    raise UsageError(
        f"the plane was not ready within {START_PATIENCE:.0f} s; "
        f"{log_path(directory)} says:\n{last_log_lines(directory)}"
    )


async def bring_up(args: argparse.Namespace, documents: list[Document], progress: Progress) -> int:
    """Apply the manifests and follow them to Ready; 0 when all of them got there. Without any, the
    plane is at least one to which the caller's next command may apply some."""
    async with open_plane(args.dir) as client:
        kinds = await _until_kinds_known(client, documents or RAY_KINDS)
        if not documents:
            return 0
        followed = []
        for document in documents:
            print(await apply_document(client, kinds, document), file=sys.stderr)
            followed.append(_followed(kinds, document))
        began = time.monotonic()
        ready = await Follower(client, progress).until_ready(followed, args.timeout)
        progress.finish()
        if ready:
            print(f"ready after {time.monotonic() - began:.1f} s")
            await _print_addresses(client, followed, args.dir)
    return 0 if ready else 1


async def _until_kinds_known(client: Client, documents: list[Document]) -> Kinds:
    """CRDs of a fresh plane are installed while we look: give them some seconds."""
    for attempt in range(100):
        kinds = await Kinds.discover(client)
        try:
            for document in documents:
                kinds.of(document["apiVersion"], document["kind"])
        except UsageError:
            if attempt == 99:
                raise
            await asyncio.sleep(0.1)
        else:
            return kinds
    raise AssertionError("unreachable")


def _followed(kinds: Kinds, document: Document) -> Followed:
    from manta.api.meta import Key

    resource = kinds.of(document["apiVersion"], document["kind"])
    metadata = document["metadata"]
    namespace = metadata.get("namespace", "default") if resource.namespaced else ""
    return Followed(resource, Key(namespace, metadata["name"]))


async def _print_addresses(client: Client, followed: list[Followed], directory: Path) -> None:
    """Where to point a browser, or the command that opens one."""
    from manta.cli.dashboard import hint

    for item in followed:
        if item.resource.kind not in ("RayCluster", "RayService", "RayJob"):
            continue
        try:
            words = await hint(client, item.resource, item.key, directory)
        except (ApiError, Unreachable) as error:
            words = str(error)
        if words:
            print(f"{item}: {words}")
