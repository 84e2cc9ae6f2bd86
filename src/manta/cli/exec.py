"""`manta exec POD -- COMMAND`: run a command in a container, and exit with its code."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import PODS
from manta.api.usage import UsageError
from manta.cli.logs import default_container, pod_key
from manta.cli.output.help import examples
from manta.cli.output.terminal import feed_stdin, raw_terminal, window_sizes
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.kube.client import Client
from manta.kube.errors import ApiError, MantaError, NotFound
from manta.kube.streams import ExecSession, exec_stream
from manta.kube.transport import UpgradingTransport

FINISHED = ("Succeeded", "Failed")


class ExecError(MantaError):
    """The command could not be started."""


@dataclass(frozen=True, slots=True)
class ContainerRef:
    """The container to run a command in."""

    pod: Key
    container: str


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "exec",
        usage="manta exec [flags] POD [flags] -- COMMAND [ARGUMENT ...]",
        **examples(
            ("manta exec demo -- ray status", "on the head of RayCluster demo"),
            ("manta exec -it demo -- bash", "a shell"),
            ("manta exec svc/web -c main -- ls /data", "in another container"),
            ("cat x.py | manta exec -i demo -- python -", "with standard input"),
        ),
    )
    parser.add_argument(
        "pod", help="a Pod or a RayCluster (its head), or svc/NAME, cluster/NAME, rayservice/NAME"
    )
    parser.add_argument("stray", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("-c", "--container", default="", help="default: the Ray container")
    parser.add_argument("-i", "--stdin", action="store_true", help="forward standard input")
    parser.add_argument("-t", "--tty", action="store_true", help="with -i: allocate a terminal")
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    if args.stray:
        words = " ".join(args.stray)
        raise UsageError(f"put the command after --: manta exec {args.pod} -- {words}")
    if not args.command:
        raise UsageError(
            f"the command is missing; for example: manta exec {args.pod} -- ray status"
        )
    return asyncio.run(_exec(args))


async def _exec(args: argparse.Namespace) -> int:
    terminal = _wants_terminal(args)
    async with open_client(args) as client:
        target = await find_container(client, namespace_of(args), args.pod, args.container)
        transport = client.transport
        if not isinstance(transport, UpgradingTransport):
            raise UsageError("this connection cannot be upgraded to a stream")
        streaming = exec_stream(
            transport,
            target.pod,
            args.command,
            container=target.container,
            stdin=args.stdin,
            tty=terminal,
        )
        try:
            async with streaming as session:
                return await _stream(session, stdin=args.stdin, terminal=terminal)
        except ApiError as error:
            raise ExecError(f"pod/{target.pod.name}: {error.message}") from error


def _wants_terminal(args: argparse.Namespace) -> bool:
    """As in kubectl, `-t` needs `-i`, and standard input must be a terminal."""
    if not args.tty or not args.stdin:
        return False
    if not sys.stdin.isatty():
        print("manta: -t is ignored: standard input is not a terminal", file=sys.stderr)
        return False
    return True


async def find_container(
    client: Client, namespace: str, target: str, container: str
) -> ContainerRef:
    """The container of the target. Raises UsageError, ExecError or NotFound."""
    key = await pod_key(client, namespace, target)
    try:
        pod = await client.get(PODS, key)
    except NotFound:
        key = await _head_of(client, namespace, target)
        pod = await client.get(PODS, key)
    phase = (pod.get("status") or {}).get("phase", "")
    if phase in FINISHED:
        raise ExecError(f"pod/{key.name} has ended ({phase}): no command can run in it")
    if container and container not in (names := _containers(pod)):
        raise UsageError(f"-c {container}: pod/{key.name} has the containers {', '.join(names)}")
    return ContainerRef(key, container or default_container(pod))


async def _head_of(client: Client, namespace: str, target: str) -> Key:
    """The head of the RayCluster with this name."""
    missing = ExecError(
        f"no Pod {target.rpartition('/')[2]} in namespace {namespace}; `manta get pods` lists them"
    )
    if "/" in target:
        raise missing
    try:
        await client.get(RAY_CLUSTERS, Key(namespace, target))
    except NotFound:
        raise missing from None
    return await pod_key(client, namespace, f"cluster/{target}")


def _containers(pod: Mapping[str, Any]) -> list[str]:
    lists = ("containers", "initContainers", "ephemeralContainers")
    return [one["name"] for each in lists for one in pod["spec"].get(each) or ()]


async def _stream(session: ExecSession, *, stdin: bool, terminal: bool) -> int:
    with ExitStack() as local:
        if terminal:
            local.enter_context(raw_terminal())
            local.enter_context(window_sizes(session.resize))
        if stdin:
            feed_stdin(session.write, session.close_stdin)
        async for output in session.output():
            sink = sys.stdout if output.stream == "stdout" else sys.stderr
            sink.buffer.write(output.data)
            sink.flush()
    return session.exit_code if session.exit_code is not None else 1
