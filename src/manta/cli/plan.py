"""`manta plan NAME` or `-f FILE`: what the operator would do to an object now, and why.

The API server validates manifests in a strict dry run, and so do the operator's rules; the objects of
the plan are checked too (`operator/plan_check.py`). Without a server, the command uses one inside this
process.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from manta.api.meta import Key
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.output.plan_report import as_document, describe
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.manifests import Document, add_filename_flag, read_manifests
from manta.cli.server.operator_settings import add_settings_flags, find_origins, origin_for
from manta.client.connection import NoServerError
from manta.kube.client import Client
from manta.operator.deployed_options import Origin, Unread
from manta.operator.options import is_given, options_from
from manta.operator.plan_check import checked_preview
from manta.reconcile.preview import Preview
from manta.rules.settings import Settings
from manta.runtime.clock import Clock

Previewer = Callable[
    [Client, Settings, Clock, Key, Mapping[str, Any] | None], Awaitable[Preview | None]
]
"""The preview of the live object with this key, or of the manifest applied to it. None: it does not
exist, or another operator manages it. Writes nothing."""


KINDS = ("RayCluster", "RayService", "RayJob", "RayCronJob")
"""Each has `preview`, a Previewer, in `manta.controllers.<kind>.preview`."""
DEFAULT_KIND = "RayCluster"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "plan",
        description="Validate Ray objects as the API server and the operator do, and show what the "
        "operator would do. Nothing is written. Exit code 2: an object is invalid.",
        allow_abbrev=False,
        **examples(
            ("manta plan -f cluster.yaml", "preview of applying this file"),
            ("manta plan rayjob/train", "preview of an existing object"),
            ("manta plan -f - --offline -o json", "check standard input without a cluster"),
            ("manta plan -f x.yaml --feature-gates RayClusterMTLS=true", "with other settings"),
        ),
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a RayCluster on the server, or KIND/NAME"
    )
    add_filename_flag(parser, "validate and plan these objects", default=[])
    parser.add_argument("-o", "--output", choices=("json",), default="", help="json: for programs")
    parser.add_argument(
        "--offline",
        action="store_true",
        help="use no server: check files as new objects on an empty cluster (default without a "
        "kubeconfig)",
    )
    add_connection_flags(parser, namespace=True)
    add_settings_flags(parser)


def run(args: argparse.Namespace) -> int:
    if not args.names and not args.filename:
        raise UsageError("name an object or a file: manta plan NAME, or manta plan -f FILE")
    written = read_manifests(args.filename)
    documents = [one for one in written if one["kind"] in KINDS]
    if args.filename and not documents:
        raise UsageError(f"no {' or '.join(KINDS)} in {', '.join(args.filename)}")
    namespace = namespace_of(args)
    wanted = [*_named(args.names, namespace), *_written(documents, namespace)]
    accounts = [one for one in written if one["kind"] == "ServiceAccount"]
    return asyncio.run(
        show(args, wanted, frozenset(key for _, key, _ in _written(accounts, namespace)))
    )


Wanted = tuple[str, Key, Document | None]


def _named(words: list[str], namespace: str) -> Iterator[Wanted]:
    for word in words:
        kind, _, name = word.rpartition("/")
        yield _kind(kind), Key(namespace, name), None


def previewer_of(kind: str) -> Previewer:
    module = importlib.import_module(f"manta.controllers.{kind.lower()}.preview")
    previewer: Previewer = module.preview
    return previewer


def _kind(word: str) -> str:
    """`rayservice`, `RayServices` and `rayservices.ray.io` are all the kind RayService."""
    if not word:
        return DEFAULT_KIND
    plain = word.lower().removesuffix(".ray.io").removesuffix("s")
    for kind in KINDS:
        if kind.lower() == plain:
            return kind
    raise UsageError(f'cannot plan "{word}"; known kinds: {", ".join(KINDS)}')


def _written(documents: list[Document], namespace: str) -> Iterator[Wanted]:
    for document in documents:
        meta = document["metadata"]
        yield document["kind"], Key(meta.get("namespace", namespace), meta["name"]), document


async def show(
    args: argparse.Namespace, wanted: list[Wanted], accounts: frozenset[Key] = frozenset()
) -> int:
    """0: all are valid; 1: a named object does not exist; 2: one is invalid. `accounts` are ServiceAccounts of
    the same files."""
    async with _server(args, wanted) as (client, offline):
        previews = await _previews(args, wanted, accounts, client, offline=offline)
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
    args: argparse.Namespace,
    wanted: list[Wanted],
    accounts: frozenset[Key],
    client: Client,
    *,
    offline: bool,
) -> list[tuple[Wanted, Preview | None, str]]:
    from manta.operator.platform import detect, settings_on
    from manta.runtime.clock import SystemClock

    origins = _given(args) if offline else await find_origins(args, client)
    platform, found, printed = await detect(client), [], ""
    for kind, key, manifest in wanted:
        origin = origin_for(origins, key.namespace)
        settings = settings_on(platform, origin.options.settings)
        if origin.what != printed:
            printed = origin.what
            print(f"Settings: {printed}.", file=sys.stderr)

        async def preview(
            kind: str, key: Key, manifest: Mapping[str, Any] | None, settings: Settings = settings
        ) -> Preview | None:
            return await previewer_of(kind)(client, settings, SystemClock(), key, manifest)

        preview_found = await checked_preview(client, preview, kind, key, manifest, accounts)
        found.append(((kind, key, manifest), preview_found, origin.what))
    return found


def _given(args: argparse.Namespace) -> list[Origin | Unread]:
    why = "from the flags" if is_given(args) else "the defaults, as no API server is used"
    return [Origin(why, options_from(args, os.environ))]


@asynccontextmanager
async def _server(
    args: argparse.Namespace, wanted: list[Wanted]
) -> AsyncIterator[tuple[Client, bool]]:
    """A client of the API server; without one, or with --offline, of an empty one in this process."""
    from manta.cli.server.offline import offline_client

    reason = "--offline"
    async with AsyncExitStack() as stack:
        client, offline = None, True
        if not args.offline:
            try:
                client, offline = await stack.enter_async_context(open_client(args)), False
            except NoServerError:
                reason = "no API server is configured"
        if client is None:
            if args.names:
                raise UsageError(f"{reason}: only files can be planned: manta plan -f FILE")
            print(f"Checked as new objects, without a cluster: {reason}.", file=sys.stderr)
            namespaces = {key.namespace for _, key, _ in wanted}
            client = await stack.enter_async_context(offline_client(namespaces))
        yield client, offline
