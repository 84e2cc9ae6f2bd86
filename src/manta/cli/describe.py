"""`manta describe KIND NAME`: the state, fields, conditions and Events of an object."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from manta.api.documents.writer import to_yaml
from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import PODS
from manta.api.usage import UsageError
from manta.cli.events import event_table, events_of
from manta.cli.get import selections
from manta.cli.output.help import examples
from manta.cli.output.tables import table
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.discovery import Kinds
from manta.client.object_state import one_line, state_of

_KINDS_WITH_STATE = frozenset((PODS.kind, *(one.kind for one in RAY_RESOURCES)))


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "describe",
        **examples(
            ("manta describe raycluster demo", "why is it not ready?"),
            ("manta describe pod/demo-head -n team-a", "another namespace"),
        ),
    )
    parser.add_argument("kind", help="a kind, or KIND/NAME")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.set_defaults(selector="", all_namespaces=False)
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    return asyncio.run(_describe(args))


async def _describe(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        kinds = await Kinds.discover(client)
        selected = selections(args, kinds)
        if not all(one.key.name for one in selected):
            raise UsageError(f"the name is missing: manta describe {args.kind} NAME")
        for number, one in enumerate(selected):
            document = await client.get(one.resource, one.key)
            where = one.key.namespace or namespace_of(args)
            events = await events_of(client, where, one.resource.kind, document["metadata"])
            print("\n" * (number > 0) + "\n".join(described(one.resource.kind, document, events)))
    return 0


def described(
    kind: str, document: Mapping[str, Any], events: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """The lines of the description. Pure."""
    meta, status = document["metadata"], dict(document.get("status") or {})
    yield from _head(kind, meta)
    if kind in _KINDS_WITH_STATE:
        state = state_of(kind, document)
        yield f"State:       {state.word}{f' ({state.why})' if state.why else ''}"
    conditions = status.pop("conditions", None) or ()
    sections = {**{k: v for k, v in document.items() if k not in _META}, "status": status}
    for name, value in sections.items():
        if value:
            yield f"{name.capitalize()}:"
            yield from (f"  {line}" for line in to_yaml(value).splitlines())
    if conditions:
        yield "Conditions:"
        rows = [
            (c["type"], c["status"], c.get("reason", ""), one_line(c.get("message", "")))
            for c in conditions
        ]
        yield _indented(table(("TYPE", "STATUS", "REASON", "MESSAGE"), rows))
    yield f"Events:{'' if events else '      none'}"
    if events:
        yield _indented(event_table(events, with_object=False))


_META = ("apiVersion", "kind", "metadata", "status")


def _head(kind: str, meta: Mapping[str, Any]) -> Iterator[str]:
    yield f"Name:        {meta['name']}"
    if meta.get("namespace"):
        yield f"Namespace:   {meta['namespace']}"
    yield f"Kind:        {kind}"
    yield f"Created:     {meta.get('creationTimestamp', '')}"
    if meta.get("deletionTimestamp"):
        waits = ", ".join(meta.get("finalizers") or ()) or "its Pods"
        yield f"Deleted:     {meta['deletionTimestamp']}, waits for {waits}"
    for title, field in (("Labels:", "labels"), ("Annotations:", "annotations")):
        shown = [f"{k}={one_line(v)}" for k, v in (meta.get(field) or {}).items()]
        for number, text in enumerate(shown):
            yield f"{title if number == 0 else '':<12} {text}"
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            yield f"Controlled by {owner['kind']}/{owner['name']}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
