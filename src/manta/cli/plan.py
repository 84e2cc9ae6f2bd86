"""`manta plan NAME` or `-f FILE`: what the operator would do to a RayCluster now, and why."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from typing import Any

from manta.api.meta import Key
from manta.cli.connection import add_connection_flags, open_client
from manta.cli.manifests import Document, read_manifests
from manta.cli.usage import UsageError
from manta.controllers.raycluster.preview import Preview
from manta.reconcile.actions import Action, Call
from manta.rules.settings import Settings

KIND = "RayCluster"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("plan", help="show what the operator would do")
    parser.add_argument("names", nargs="*", metavar="NAME", help="RayClusters on the server")
    parser.add_argument("-f", "--filename", action="append", default=[], metavar="FILE")
    parser.add_argument("-n", "--namespace", default="default")
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    if not args.names and not args.filename:
        raise UsageError("of what? manta plan NAME, or manta plan -f FILE")
    documents = [one for one in read_manifests(args.filename) if one["kind"] == KIND]
    if args.filename and not documents:
        raise UsageError(f"no {KIND} in {', '.join(args.filename)}")
    return asyncio.run(_plan(args, documents))


async def _plan(args: argparse.Namespace, documents: list[Document]) -> int:
    from manta.controllers.raycluster.preview import preview
    from manta.runtime.clock import SystemClock

    wanted: list[tuple[Key, Document | None]] = [
        (Key(args.namespace, name.rpartition("/")[2]), None) for name in args.names
    ]
    for document in documents:
        meta = document["metadata"]
        wanted.append((Key(meta.get("namespace", args.namespace), meta["name"]), document))
    async with open_client(args) as client:
        for key, manifest in wanted:
            found = await preview(client, Settings(), SystemClock(), key, manifest)
            print("\n".join(describe(key, found)))
    return 0


def describe(key: Key, found: Preview | None) -> Iterator[str]:
    """The plan in words, one line for each action."""
    if found is None:
        yield f"{KIND} {key}: not there, or another operator looks after it"
        return
    yield f"{KIND} {key}: {found.effect}"
    for violation in found.violations:
        yield f"  invalid  {violation}"
    for number, stage in enumerate(found.plan.stages, 1):
        for action in stage.actions:
            yield f"  {number}. {_action(action)}"
    if found.only_new_pods:
        yield "  note: Pods that run keep their template; only new ones get the changed one"
        yield "        (upgradeStrategy.type: Recreate would replace them)"
    for note in found.plan.notes:
        yield f"  note: {note}"
    if found.plan.wait and not found.violations:
        yield f"  then waits: {found.plan.wait.why}"


def _action(action: Action) -> str:
    verb = type(action).__name__.lower()
    kind = action.verb if isinstance(action, Call) else action.resource.kind
    why = action.why or _spaced(action.cause)
    return f"{verb} {kind} {action.key}: {why}"


def _spaced(cause: str) -> str:
    """`NoHead` as `no head`."""
    return "".join(f" {char.lower()}" if char.isupper() else char for char in cause).strip()
