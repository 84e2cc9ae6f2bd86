"""`manta exec POD -- COMMAND`: run a command beside a Pod's own, with its exit code."""

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
from manta.cli.connection import (
    add_connection_flags,
    add_namespace_flag,
    namespace_of,
    open_client,
)
from manta.cli.logs import default_container, pod_key
from manta.cli.terminal import feed_stdin, raw_terminal, window_sizes
from manta.cli.usage import UsageError, examples
from manta.kube.client import Client
from manta.kube.errors import ApiError, MantaError, NotFound
from manta.kube.streams import ExecSession, exec_stream
from manta.kube.transport import UpgradingTransport

FINISHED = ("Succeeded", "Failed")


class ExecError(MantaError):
    """The command could not be started; the text says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """The container in which a command is to run."""

    pod: Key
    container: str


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "exec",
        help="run a command in a container",
        usage="manta exec [flags] POD [flags] -- COMMAND [ARGUMENT ...]",
        **examples(
            ("manta exec demo -- ray status", "on the head of RayCluster demo; its exit code"),
            ("manta exec -it demo -- bash", "a shell"),
            ("manta exec svc/web -c main -- ls /data", "in another container"),
            ("cat x.py | manta exec -i demo -- python -", "with standard input"),
        ),
    )
    parser.add_argument(
        "pod", help="a Pod or a RayCluster (its head), or svc/NAME, cluster/NAME, rayservice/NAME"
    )
    parser.add_argument("stray", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("-c", "--container", default="", help="default: the one that runs Ray")
    add_namespace_flag(parser)
    parser.add_argument("-i", "--stdin", action="store_true", help="pass standard input on")
    parser.add_argument("-t", "--tty", action="store_true", help="with -i: give it a terminal")
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    if args.stray:
        words = " ".join(args.stray)
        raise UsageError(f"write the command after --: manta exec {args.pod} -- {words}")
    if not args.command:
        raise UsageError(f"which command? for example: manta exec {args.pod} -- ray status")
    return asyncio.run(_exec(args))


async def _exec(args: argparse.Namespace) -> int:
    terminal = _wants_terminal(args)
    async with open_client(args) as client:
        place = await find_place(client, namespace_of(args), args.pod, args.container)
        transport = client.transport
        if not isinstance(transport, UpgradingTransport):
            raise UsageError("this connection cannot be upgraded to a stream")
        streaming = exec_stream(
            transport,
            place.pod,
            args.command,
            container=place.container,
            stdin=args.stdin,
            tty=terminal,
        )
        try:
            async with streaming as session:
                return await _converse(session, stdin=args.stdin, terminal=terminal)
        except ApiError as error:
            raise ExecError(f"pod/{place.pod.name}: {error.message}") from error


def _wants_terminal(args: argparse.Namespace) -> bool:
    """As kubectl does: `-t` needs `-i`, and a terminal here."""
    if not args.tty or not args.stdin:
        return False
    if not sys.stdin.isatty():
        print("manta: no terminal for -t: standard input is not one", file=sys.stderr)
        return False
    return True


async def find_place(client: Client, namespace: str, target: str, container: str) -> Place:
    """The container that is meant, checked before anything is asked of a node."""
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
    return Place(key, container or default_container(pod))


async def _head_of(client: Client, namespace: str, target: str) -> Key:
    """A plain name that is no Pod's may be a RayCluster's: then its head is meant."""
    nothing = ExecError(
        f"there is no Pod {target.rpartition('/')[2]} in namespace {namespace}; "
        "`manta get pods` lists them"
    )
    if "/" in target:
        raise nothing
    try:
        await client.get(RAY_CLUSTERS, Key(namespace, target))
    except NotFound:
        raise nothing from None
    return await pod_key(client, namespace, f"cluster/{target}")


def _containers(pod: Mapping[str, Any]) -> list[str]:
    lists = ("containers", "initContainers", "ephemeralContainers")
    return [one["name"] for each in lists for one in pod["spec"].get(each) or ()]


async def _converse(session: ExecSession, *, stdin: bool, terminal: bool) -> int:
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
