"""The process behind `manta up`: plane and nodes in this process, the operator in a child.

The operator runs under its own ServiceAccount with the permissions that it has on any cluster, so
that a missing one shows here and not in production. It is a process of its own: it can be killed,
measured and restarted like the real thing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from manta import __version__
from manta.api.ray.names import OPERATOR_ENV_INIT_CONTAINER
from manta.cli.installation import OPERATOR, install, operator_token
from manta.cli.manifests import Document
from manta.cli.planeprocess import LAST_WORDS, log_path, write_record
from manta.cli.together import until_first_ends
from manta.kube.client import Client
from manta.localplane.node.doubts import doubt_lost_pods
from manta.localplane.node.libc import end_with_parent
from manta.localplane.node.processes import NoNamespaces
from manta.localplane.node.ranges import Ranges, Wish, claim_ranges
from manta.localplane.plane import Plane, PlaneBusy, PlaneOptions
from manta.localplane.store.store import StoreFailed
from manta.runtime.clock import SystemClock

TOKEN_LIFE = 3600
GATES = "GCSFaultToleranceEmbeddedStorage=true"
"""On here although off by default: this plane has what it needs, a directory for every claim."""
RESTART_PAUSE = 1.0
OPERATOR_ENVIRONMENT = {OPERATOR_ENV_INIT_CONTAINER: "false"}
"""What this plane's operator is told unless the user says otherwise. A worker waits for its head by
itself: the init container that asks beforehand would only ask more slowly, and use a core for it."""


def run_foreground(args: argparse.Namespace, documents: list[Document]) -> int:
    code = 1
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = runner.run(_serve(args, documents))
    except* (OSError, PlaneBusy, NoNamespaces, StoreFailed) as group:
        for words in dict.fromkeys(str(error) for error in _leaves(group)):
            with contextlib.suppress(OSError):  # a full disk has no room for our words either
                print(f"{LAST_WORDS} {words}", file=sys.stderr, flush=True)
    return code


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _leaves(group: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


async def _serve(args: argparse.Namespace, documents: list[Document]) -> int:
    args.dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    ranges = _ranges(args)
    options = PlaneOptions(
        dir=args.dir, port=args.port, fake_nodes=args.fake_nodes, services=ranges.services
    )
    async with Plane(options) as plane:
        if args.nodes:
            # Before anybody is told that the plane is there: nobody may read stale news.
            await doubt_lost_pods(plane.client, args.dir / "node", SystemClock().now())
        write_record(args.dir, plane.url, __version__)
        await _run_beside(plane, args, documents, stopping, ranges)
    return 0


def _ranges(args: argparse.Namespace) -> Ranges:
    """Addresses of this plane. Only root's planes share a network with the machine."""
    from manta.cli.up import parse_range

    wish = Wish(
        parse_range("--service-cidr", args.service_cidr), parse_range("--pod-cidr", args.pod_cidr)
    )
    shared = bool(args.nodes) and args.isolation != "none" and os.geteuid() == 0
    return claim_ranges(args.dir / "node", wish, shared=shared)


async def _run_beside(
    plane: Plane,
    args: argparse.Namespace,
    documents: list[Document],
    stopping: asyncio.Event,
    ranges: Ranges,
) -> None:
    """Everything beside the API server; the first of it that ends, ends the rest."""
    tasks = [
        asyncio.create_task(_operate(plane.client, args.dir, args.feature_gates), name="operator")
    ]
    if args.nodes:
        tasks.append(asyncio.create_task(_run_nodes(plane, args, ranges), name="nodes"))
    if documents:
        from manta.cli.up import bring_up

        args.kubeconfig = args.dir / "kubeconfig"
        tasks.append(asyncio.create_task(_bring_up_and_rest(bring_up, args, documents)))
    tasks.append(asyncio.create_task(_ended(stopping), name="signal"))
    await until_first_ends(tasks)


async def _ended(stopping: asyncio.Event) -> None:
    await stopping.wait()


async def _bring_up_and_rest(bring_up: Any, args: argparse.Namespace, documents: Any) -> None:
    await bring_up(args, documents)
    await asyncio.Event().wait()


async def _run_nodes(plane: Plane, args: argparse.Namespace, ranges: Ranges) -> None:
    from manta.api.quantity import Quantity
    from manta.localplane.node.agent import NodeAgent, NodeOptions

    options = NodeOptions(
        dir=args.dir / "node",
        nodes=args.nodes,
        cpus=args.cpus,
        memory=None if args.memory is None else Quantity.parse(args.memory).value(),
        isolation="none" if args.isolation == "none" else "namespaces",
        ranges=ranges,
        api_server=(plane.options.host, plane.port),
    )
    agent = NodeAgent(plane.client, SystemClock(), options)
    plane.connector = agent.connector
    await agent.run()


async def _operate(client: Client, directory: Path, gates: str) -> None:
    """Install what the operator needs, then keep one running."""
    await install(client)
    token_file = directory / "operator.token"
    kubeconfig = _operator_kubeconfig(directory, token_file)
    _write_privately(token_file, await operator_token(client, TOKEN_LIFE))
    refresher = asyncio.create_task(_keep_token_fresh(client, token_file))
    try:
        while True:
            code = await _run_operator(kubeconfig, directory, gates)
            print(f"the operator ended with exit code {code}; starting it again", file=sys.stderr)
            await asyncio.sleep(RESTART_PAUSE)
    finally:
        refresher.cancel()
        await asyncio.gather(refresher, return_exceptions=True)


async def _keep_token_fresh(client: Client, token_file: Path) -> None:
    while True:
        await asyncio.sleep(TOKEN_LIFE / 2)
        _write_privately(token_file, await operator_token(client, TOKEN_LIFE))


def _write_privately(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(text)
    fresh.replace(path)


def _operator_kubeconfig(directory: Path, token_file: Path) -> Path:
    """The admin's kubeconfig with the operator's own credentials in place of the admin's."""
    import yaml

    document = yaml.safe_load((directory / "kubeconfig").read_text())
    document["users"] = [{"name": OPERATOR, "user": {"tokenFile": str(token_file)}}]
    for context in document["contexts"]:
        context["context"]["user"] = OPERATOR
    path = directory / "operator.kubeconfig"
    _write_privately(path, yaml.safe_dump(document))
    return path


async def _run_operator(kubeconfig: Path, directory: Path, gates: str) -> int:
    log = log_path(directory).with_name("operator.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "manta.cli.main", "operator", "--kubeconfig", str(kubeconfig)]
    # Pods live on a bridge that the API server's proxy reaches in every isolation mode.
    command += ["--feature-gates", ",".join(filter(None, (GATES, gates)))]
    command += ["--use-kubernetes-proxy", "--enable-leader-election=false"]
    command += ["--metrics-addr", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"]
    with log.open("ab") as sink:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env={**OPERATOR_ENVIRONMENT, **os.environ},
            preexec_fn=end_with_parent,  # a plane that is killed takes its operator along
        )
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await process.wait()
            if process.returncode is None:
                process.kill()
                await process.wait()
