"""`manta up`: an API server, the operator and a node on this machine, and manifests on them.

In the background by default. Idempotent: a running plane is used as it is.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from manta.api.usage import UsageError
from manta.cli.checks.egress import egress_note
from manta.cli.output.help import examples
from manta.cli.output.progress import Progress, open_progress
from manta.cli.plane.bring_up import START_SECONDS, complete
from manta.cli.plane.cleanup import remove_before_start
from manta.cli.plane.examples import example
from manta.cli.plane.gpus import gpu_options
from manta.cli.plane.operator import check_flags
from manta.cli.plane.process import last_lines, log_path, plane_processes, read_record, spawn
from manta.cli.plane.ranges import parse_range
from manta.cli.server.connection import add_directory_flag
from manta.cli.server.manifests import read_manifests
from manta.localplane.private_files import make_private_directory


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "up",
        description="Start an API server, the operator and a node on this machine. A running plane is "
        "used as it is.",
        **examples(
            ("manta up", "in the background"),
            ("manta up --quickstart", "with a small real Ray cluster"),
            ("manta up --open", "and show the console in the browser"),
            ("manta up --with cluster.yaml", "apply manifests, and wait until they are ready"),
            ("manta up --nodes 0 --fake-nodes 20", "simulate a thousand Pods"),
            ("manta up --fake-gpus 2", "Pods get GPUs on a machine without any"),
            ("manta up --foreground", "in this terminal, until Ctrl-C"),
            ("manta up --dir ~/other", "a second plane beside the first"),
        ),
    )
    parser.add_argument("--foreground", action="store_true", help="run in this terminal")
    parser.add_argument(
        "--port", type=int, default=0, help="port of the API server (default: a free one)"
    )
    _add_node_flags(parser)
    parser.add_argument(
        "--feature-gates",
        default="",
        metavar="A=true,B=false",
        help="feature gates of the operator",
    )
    parser.add_argument(
        "--idle-suspend",
        default="",
        metavar="DURATION",
        help="suspend Ray clusters that nobody uses for so long: 8h, or 30m@NAMESPACE,2h@LABEL=VALUE,8h "
        "(default: none; see docs/guide/idle.md)",
    )
    parser.add_argument(
        "--open", action="store_true", help="open the console in the browser (see `manta console`)"
    )
    parser.add_argument(
        "--no-console", dest="console", action="store_false", help="serve no console"
    )
    parser.add_argument(
        "--history",
        nargs="?",
        const="here",
        default="",
        metavar="URL",
        help="keep logs and tasks of clusters that are gone, in the state directory or in this store "
        "(see `manta history`)",
    )
    _add_state_flags(parser)


def _add_node_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nodes", type=int, default=1, metavar="N", help="number of nodes")
    parser.add_argument("--cpus", type=float, metavar="N", help="CPUs of each node (default: all)")
    parser.add_argument("--memory", metavar="QUANTITY", help="memory of each node, such as 8Gi")
    parser.add_argument(
        "--gpus",
        default="auto",
        metavar="N|auto|none",
        help="GPUs of this machine that the nodes offer together (default: auto, all that are found)",
    )
    parser.add_argument(
        "--fake-gpus",
        type=int,
        default=0,
        metavar="N",
        help="pretend to have N GPUs instead, for tests without hardware",
    )
    parser.add_argument(
        "--fake-nodes", type=int, default=0, metavar="N", help="nodes that simulate Pods"
    )
    parser.add_argument(
        "--isolation",
        choices=("auto", "namespaces", "none"),
        default="auto",
        help="how Pods are isolated; `none` is for one Ray cluster on a locked-down machine",
    )
    for flag, whose in (("--service-cidr", "Services"), ("--pod-cidr", "Pods")):
        parser.add_argument(
            flag,
            metavar="CIDR",
            help=f"addresses of {whose} (default: an unused range, kept for the next start)",
        )


def _add_state_flags(parser: argparse.ArgumentParser) -> None:
    """The objects and the state that the plane starts with."""
    parser.add_argument(
        "--with",
        dest="manifests",
        action="append",
        default=[],
        metavar="FILE",
        help="apply this manifest (a file, a directory, or - for standard input) and wait until its "
        "objects are ready; may be repeated",
    )
    parser.add_argument(
        "--quickstart",
        dest="manifests",
        action="append_const",
        const=str(example("quickstart.yaml")),
        help="start a small real Ray cluster, and wait until it is ready",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=900,
        metavar="SECONDS",
        help="time to wait for the objects of --with (default: 900)",
    )
    parser.add_argument(
        "--restore",
        type=Path,
        metavar="FILE",
        help="start with the state of this file of `manta backup`",
    )
    parser.add_argument(
        "--replace-state", action="store_true", help="with --restore: move the existing state aside"
    )
    add_directory_flag(parser)


def run(args: argparse.Namespace) -> int:
    documents = read_manifests(args.manifests)
    _check_arguments(args)
    args.dir = args.dir.resolve()
    if note := egress_note(args):
        print(f"manta: warning: {note}", file=sys.stderr)
    if args.foreground:
        from manta.cli.plane.foreground import run_foreground

        _restore(args)
        return run_foreground(args, documents)
    with open_progress() as progress:
        _start(args, progress)
        print(f"export KUBECONFIG={args.dir / 'kubeconfig'}")
        try:
            code = asyncio.run(complete(args, documents, progress))
            _print_links(args)
            return code  # noqa: TRY300 - also printed for objects that are not ready
        except KeyboardInterrupt:
            print("the plane keeps running; `manta down` stops it", file=sys.stderr)
            raise


def _start(args: argparse.Namespace, progress: Progress) -> None:
    try:
        make_private_directory(args.dir)
        with (args.dir / "start.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one start at a time
            _restore(args)
            _start_in_background(args, progress)
    except OSError as error:
        raise UsageError(f"--dir {args.dir}: {error.strerror}; choose another directory") from error


def _restore(args: argparse.Namespace) -> None:
    if args.restore is not None:
        from manta.cli.backup import restore

        restore(args)
    elif args.replace_state:
        raise UsageError("--replace-state needs --restore FILE")


def _check_arguments(args: argparse.Namespace) -> None:
    from manta.api.quantity import Quantity

    for flag in ("nodes", "fake_nodes", "fake_gpus"):
        count, name = getattr(args, flag), f"--{flag.replace('_', '-')}"
        if count < 0:
            raise UsageError(f"{name} {count}: must be 0 or more")
    gpu_options(args)
    if not 0 <= args.port <= 65535:
        raise UsageError(f"--port {args.port}: must be between 1 and 65535, or 0 for a free port")
    if args.timeout <= 0:
        raise UsageError(f"--timeout {args.timeout:g}: must be more than 0 seconds")
    if sys.platform != "linux" and args.nodes:
        raise UsageError(
            f"--nodes {args.nodes}: Pods as processes need Linux. Run manta inside a Linux virtual"
            " machine (on macOS for example: colima start, then colima ssh)"
        )
    if args.cpus is not None and args.cpus <= 0:
        raise UsageError(f"--cpus {args.cpus:g}: must be more than 0")
    if args.memory is not None:
        try:
            Quantity.parse(args.memory)
        except ValueError as error:
            raise UsageError(f"--memory {args.memory}: {error}") from error
    for flag in ("service_cidr", "pod_cidr"):
        parse_range(f"--{flag.replace('_', '-')}", getattr(args, flag))
    _check_console(args)
    _check_history(args)
    _check_operator_flags(args)


def _check_console(args: argparse.Namespace) -> None:
    if args.open and not args.console:
        raise UsageError("--open needs the console: leave out --no-console")


def _check_history(args: argparse.Namespace) -> None:
    """Replace `here` by a URL, and check it: the plane would only log an error."""
    if not args.history:
        return
    from manta.cli.plane.history import default_url
    from manta.history.store import check_store

    if args.history == "here":
        args.history = default_url(args.dir)
    check_store(args.history)


def _print_links(args: argparse.Namespace) -> None:
    from manta.cli.plane.console import print_console_link

    print_console_link(args.dir, opening=args.open)
    _print_history_link(args)


def _print_history_link(args: argparse.Namespace) -> None:
    """To standard error, as everything that is not for programs. A plane that runs without history has none."""
    if not args.history:
        return
    from manta.cli.plane.history import recorded_url
    from manta.cli.plane.history_server import await_link

    if not recorded_url(args.dir):
        return
    try:
        print(f"history at {await_link(args.dir)}", file=sys.stderr)
    except UsageError as error:  # the plane runs all the same
        print(f"manta: warning: {error}", file=sys.stderr)


def _check_operator_flags(args: argparse.Namespace) -> None:
    """Check them here, since the operator would only log its error."""
    for warning in check_flags(args.feature_gates, args.idle_suspend):
        print(f"manta: warning: {warning}", file=sys.stderr)


def _start_in_background(args: argparse.Namespace, progress: Progress) -> None:
    _await_other_start(args.dir)
    if record := read_record(args.dir):
        print(f"A plane is already running: {record.url} (pid {record.pid}, state in {args.dir})")
        if ignored := _flags_for_new_planes(args):
            print(f"Ignored for a running plane: {ignored}. Run `manta down` first")
        return
    remove_before_start(args.dir)
    (args.dir / "kubeconfig").unlink(missing_ok=True)
    began = time.monotonic()
    progress.report("API server", f"starting, state in {args.dir}")
    process = spawn(args.dir, _foreground_arguments(args))
    try:
        _await_kubeconfig(args.dir, process)
    except KeyboardInterrupt:
        process.terminate()
        print("interrupted; stopping the plane", file=sys.stderr)
        raise
    progress.report("API server", f"ready after {time.monotonic() - began:.1f} s", "ready")


def _flags_for_new_planes(args: argparse.Namespace) -> str:
    """Flags of this command that do not affect a running plane."""
    defaults = {
        "nodes": 1,
        "fake_nodes": 0,
        "gpus": "auto",
        "fake_gpus": 0,
        "port": 0,
        "isolation": "auto",
        "feature_gates": "",
        "idle_suspend": "",
        "history": "",
        "console": True,
    }
    names = (*defaults, "cpus", "memory", "service_cidr", "pod_cidr")
    given = [name for name in names if getattr(args, name) != defaults.get(name)]
    flags = ("no-console" if name == "console" else name for name in given)
    return ", ".join(f"--{flag.replace('_', '-')}" for flag in flags)


def _await_other_start(directory: Path) -> None:
    """Wait for a plane that is still starting although its `manta up` was killed."""
    deadline = time.monotonic() + START_SECONDS
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
    arguments += ["--feature-gates", args.feature_gates, "--idle-suspend", args.idle_suspend]
    arguments += ["--gpus", args.gpus, "--fake-gpus", str(args.fake_gpus)]
    if args.history:
        arguments += ["--history", args.history]
    if not args.console:
        arguments += ["--no-console"]
    if args.cpus is not None:
        arguments += ["--cpus", str(args.cpus)]
    for flag in ("memory", "service_cidr", "pod_cidr"):
        if (value := getattr(args, flag)) is not None:
            arguments += [f"--{flag.replace('_', '-')}", value]
    return arguments


def _await_kubeconfig(directory: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if (directory / "kubeconfig").exists() and read_record(directory):
            return
        if process.poll() is not None:
            raise UsageError(
                f"the plane failed to start (exit code {process.returncode}); "
                f"{log_path(directory)} ends with:\n{last_lines(log_path(directory))}"
            )
        time.sleep(0.02)
    raise UsageError(
        f"the plane was not ready within {START_SECONDS:.0f} s; "
        f"{log_path(directory)} ends with:\n{last_lines(log_path(directory))}"
    )
