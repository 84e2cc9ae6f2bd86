"""`manta exec POD -- COMMAND`: run a command beside a Pod's own, with its exit code."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import Any

from manta.cli.connection import (
    add_connection_flags,
    add_namespace_flag,
    namespace_of,
    open_client,
)
from manta.cli.logs import pod_key
from manta.cli.usage import UsageError, examples
from manta.kube.streams import ExecSession, exec_stream
from manta.kube.transport import UpgradingTransport


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "exec",
        help="run a command in a container",
        **examples(
            ("manta exec cluster/demo -- ray status", "a command, with its exit code"),
            ("cat x.py | manta exec -i cluster/demo -- python -", "with standard input"),
        ),
    )
    parser.add_argument("pod", help="a Pod, or svc/NAME, cluster/NAME, rayservice/NAME")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="after --: the command")
    parser.add_argument("-c", "--container", default="")
    add_namespace_flag(parser)
    parser.add_argument("-i", "--stdin", action="store_true", help="pass standard input on")
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("which command? for example: manta exec POD -- ray status")
    return asyncio.run(_exec(args, command))


async def _exec(args: argparse.Namespace, command: list[str]) -> int:
    async with open_client(args) as client:
        key = await pod_key(client, namespace_of(args), args.pod)
        transport = client.transport
        if not isinstance(transport, UpgradingTransport):
            raise UsageError("this connection cannot be upgraded to a stream")
        session_of = exec_stream(
            transport, key, command, container=args.container, stdin=args.stdin
        )
        async with session_of as session:
            feeding = asyncio.create_task(_feed(session)) if args.stdin else None
            async for output in session.output():
                sink = sys.stdout if output.stream == "stdout" else sys.stderr
                sink.buffer.write(output.data)
                sink.flush()
            if feeding:
                feeding.cancel()
    return session.exit_code if session.exit_code is not None else 1


async def _feed(session: ExecSession) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.run_in_executor(None, os.read, sys.stdin.fileno(), 65536):
        await session.write(data)
    await session.close_stdin()
