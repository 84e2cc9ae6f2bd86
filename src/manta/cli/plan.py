"""`manta plan NAME` or `-f FILE`: what the operator would do to an object now, and why.

A kind has a plan when its controller can foresee one: it is a row of `PREVIEWERS`. What a controller
answers (`reconcile.preview.Preview`) is printed here, in the same words for every kind.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from manta.api.meta import Key
from manta.cli.connection import (
    add_connection_flags,
    add_namespace_flag,
    namespace_of,
    open_client,
)
from manta.cli.manifests import Document, read_manifests
from manta.cli.plan_settings import add_settings_flags, find_origins, origin_for
from manta.cli.usage import UsageError
from manta.kube.client import Client
from manta.reconcile.actions import Action, Call
from manta.reconcile.preview import Preview
from manta.rules.settings import Settings
from manta.runtime.clock import Clock

Previewer = Callable[
    [Client, Settings, Clock, Key, Mapping[str, Any] | None], Awaitable[Preview | None]
]
"""Of the live object under this key, or of the manifest laid over it. None: there is none, or
another operator looks after it. Writes nothing."""


def _raycluster() -> Previewer:
    from manta.controllers.raycluster.preview import preview

    return preview


def _rayservice() -> Previewer:
    from manta.controllers.rayservice.preview import preview

    return preview


def _rayjob() -> Previewer:
    from manta.controllers.rayjob.preview import preview

    return preview


# Each row imports its controller only when it is asked for.
PREVIEWERS: dict[str, Callable[[], Previewer]] = {
    "RayCluster": _raycluster,
    "RayService": _rayservice,
    "RayJob": _rayjob,
}
UNNAMED_KIND = "RayCluster"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "plan", help="show what the operator would do", allow_abbrev=False
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a RayCluster on the server, or KIND/NAME"
    )
    parser.add_argument("-f", "--filename", action="append", default=[], metavar="FILE")
    add_namespace_flag(parser)
    add_connection_flags(parser)
    add_settings_flags(parser)


def run(args: argparse.Namespace) -> int:
    if not args.names and not args.filename:
        raise UsageError("of what? manta plan NAME, or manta plan -f FILE")
    documents = [one for one in read_manifests(args.filename) if one["kind"] in PREVIEWERS]
    if args.filename and not documents:
        raise UsageError(f"no {' or '.join(PREVIEWERS)} in {', '.join(args.filename)}")
    namespace = namespace_of(args)
    wanted = [*_named(args.names, namespace), *_written(documents, namespace)]
    return asyncio.run(show(args, wanted))


Wanted = tuple[str, Key, Document | None]


def _named(words: list[str], namespace: str) -> Iterator[Wanted]:
    for word in words:
        kind, _, name = word.rpartition("/")
        yield _kind(kind), Key(namespace, name), None


def _kind(word: str) -> str:
    """`rayservice`, `RayServices` and `rayservices.ray.io` are all the kind RayService."""
    if not word:
        return UNNAMED_KIND
    plain = word.lower().removesuffix(".ray.io").removesuffix("s")
    for kind in PREVIEWERS:
        if kind.lower() == plain:
            return kind
    raise UsageError(f'no plan for "{word}": it is made for {", ".join(PREVIEWERS)}')


def _written(documents: list[Document], namespace: str) -> Iterator[Wanted]:
    for document in documents:
        meta = document["metadata"]
        yield document["kind"], Key(meta.get("namespace", namespace), meta["name"]), document


async def show(args: argparse.Namespace, wanted: list[Wanted]) -> int:
    from manta.cli.operator_platform import recognise, settings_on
    from manta.runtime.clock import SystemClock

    async with open_client(args) as client:
        origins, platform = await find_origins(args, client), await recognise(client)
        for kind, key, manifest in wanted:
            preview, origin = PREVIEWERS[kind](), origin_for(origins, key.namespace)
            settings = settings_on(platform, origin.options.settings)
            print(f"Settings: {origin.what}.", file=sys.stderr)
            found = await preview(client, settings, SystemClock(), key, manifest)
            print("\n".join(describe(kind, key, found)))
    return 0


def describe(kind: str, key: Key, found: Preview | None) -> Iterator[str]:
    """The plan in words, one line for each action."""
    if found is None:
        yield f"{kind} {key}: not there, or another operator looks after it"
        return
    yield f"{kind} {key}: {found.effect}"
    for change in found.changes:
        yield f"  edit     {change}"
    for violation in found.violations:
        yield f"  invalid  {violation}"
    for number, stage in enumerate(found.plan.stages, 1):
        for action in stage.actions:
            yield f"  {number}. {_action(action)}"
    for remark in (*found.remarks, *found.plan.notes):
        yield f"  note: {remark}"
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
