"""`manta plan NAME` or `-f FILE`: what the operator would do to an object now, and why.

A kind has a plan when its controller can foresee one: it is a row of `PREVIEWERS`. Manifests are
validated as the server does it (a strict dry run) and by the operator's rules; the objects that the
plan makes are tried too (`cli/plan_check.py`). Without a server, one inside this process is used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from manta.api.meta import Key
from manta.cli.connection import (
    NoServerError,
    add_connection_flags,
    add_namespace_flag,
    namespace_of,
    open_client,
)
from manta.cli.deployed_settings import Origin, Unread
from manta.cli.manifests import Document, read_manifests
from manta.cli.operator_options import options_from
from manta.cli.plan_check import checked_preview
from manta.cli.plan_report import as_document, describe
from manta.cli.plan_settings import add_settings_flags, find_origins, origin_for, was_told
from manta.cli.usage import UsageError, examples
from manta.kube.client import Client
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


def _raycronjob() -> Previewer:
    from manta.controllers.raycronjob.preview import preview

    return preview


# Each row imports its controller only when it is asked for.
PREVIEWERS: dict[str, Callable[[], Previewer]] = {
    "RayCluster": _raycluster,
    "RayService": _rayservice,
    "RayJob": _rayjob,
    "RayCronJob": _raycronjob,
}
UNNAMED_KIND = "RayCluster"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "plan",
        help="show what the operator would do",
        description="Validate Ray objects as the API server and the operator do, and show what the "
        "operator would do about them. Nothing is written. Exit code 2: one is invalid.",
        allow_abbrev=False,
        **examples(
            ("manta plan -f cluster.yaml", "what applying this file would do"),
            ("manta plan rayjob/train", "what happens to an object that is there"),
            ("manta plan -f - --offline -o json", "check standard input without any cluster"),
            ("manta plan -f x.yaml --feature-gates RayClusterMTLS=true", "with other settings"),
        ),
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a RayCluster on the server, or KIND/NAME"
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="FILE",
        help="manifests to validate and plan: a file, a directory, or - for standard input",
    )
    parser.add_argument("-o", "--output", choices=("json",), default="", help="json: for programs")
    parser.add_argument(
        "--offline",
        action="store_true",
        help="ask no server: check files as new objects on an empty cluster (the default where no "
        "server is known)",
    )
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
    """0: all are valid; 1: one that was named is not there; 2: one is invalid."""
    async with _server(args, wanted) as (client, offline):
        previews = await _previews(args, wanted, client, offline=offline)
    if args.output == "json":
        items = [as_document(kind, key, found, why) for (kind, key, _), found, why in previews]
        print(json.dumps({"items": items}, indent=2))
    else:
        for (kind, key, _), found, _ in previews:
            print("\n".join(describe(kind, key, found)))
    if any(found is not None and found.violations for _, found, _ in previews):
        return 2
    missing = any(found is None and manifest is None for (_, _, manifest), found, _ in previews)
    return 1 if missing else 0


async def _previews(
    args: argparse.Namespace, wanted: list[Wanted], client: Client, *, offline: bool
) -> list[tuple[Wanted, Preview | None, str]]:
    from manta.cli.operator_platform import recognise, settings_on
    from manta.runtime.clock import SystemClock

    origins = _told(args) if offline else await find_origins(args, client)
    platform, found, said = await recognise(client), [], ""
    for kind, key, manifest in wanted:
        origin = origin_for(origins, key.namespace)
        settings = settings_on(platform, origin.options.settings)
        if origin.what != said:
            said = origin.what
            print(f"Settings: {said}.", file=sys.stderr)

        async def preview(
            kind: str, key: Key, manifest: Mapping[str, Any] | None, settings: Settings = settings
        ) -> Preview | None:
            return await PREVIEWERS[kind]()(client, settings, SystemClock(), key, manifest)

        seen = await checked_preview(client, preview, kind, key, manifest)
        found.append(((kind, key, manifest), seen, origin.what))
    return found


def _told(args: argparse.Namespace) -> list[Origin | Unread]:
    why = "those that were given" if was_told(args) else "the defaults, as no server was asked"
    return [Origin(why, options_from(args, os.environ))]


@asynccontextmanager
async def _server(
    args: argparse.Namespace, wanted: list[Wanted]
) -> AsyncIterator[tuple[Client, bool]]:
    """The server that is meant; where none is known, or wanted, an empty one inside this process."""
    from manta.cli.offline import offline_client

    reason = "--offline"
    async with AsyncExitStack() as stack:
        client, offline = None, True
        if not args.offline:
            try:
                client, offline = await stack.enter_async_context(open_client(args)), False
            except NoServerError:
                reason = "no API server is known here"
        if client is None:
            if args.names:
                raise UsageError(f"{reason}: then a plan is made of files only, manta plan -f FILE")
            print(f"Checked without a cluster, as new objects: {reason}.", file=sys.stderr)
            namespaces = {key.namespace for _, key, _ in wanted}
            client = await stack.enter_async_context(offline_client(namespaces))
        yield client, offline
