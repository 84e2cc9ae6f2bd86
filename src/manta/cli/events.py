"""`manta events [KIND/NAME]`: Events, oldest first."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from manta.api.meta import Key
from manta.api.resources import CORE_EVENTS
from manta.api.times import parse_time
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.output.tables import table
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.discovery import Kinds
from manta.client.object_state import one_line
from manta.client.watch import watch_objects
from manta.kube.client import Client
from manta.runtime.clock import SystemClock

Event = Mapping[str, Any]


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "events",
        **examples(
            ("manta events", "of this namespace"),
            ("manta events raycluster/demo", "of one object"),
            ("manta events -A -w --types Warning", "of all namespaces, and new ones"),
        ),
    )
    parser.add_argument(
        "object", nargs="?", default="", metavar="KIND/NAME", help="only Events of this object"
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true")
    parser.add_argument(
        "-w", "--watch", action="store_true", help="also show new Events, until Ctrl-C"
    )
    parser.add_argument("--types", default="", metavar="TYPE", help="Normal or Warning")
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    if args.object and "/" not in args.object:
        raise UsageError(
            f"{args.object}: the kind is missing; for example raycluster/{args.object}"
        )
    try:
        return asyncio.run(_events(args))
    except KeyboardInterrupt:
        return 0 if args.watch else 130


async def _events(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        kind, name = "", ""
        if args.object:
            word, _, name = args.object.partition("/")
            kind = (await Kinds.discover(client)).named(word).kind
        where = "" if args.all_namespaces else namespace_of(args)

        def shown(event: Event) -> bool:
            about = event.get("involvedObject") or {}
            same = not args.object or (about.get("kind"), about.get("name")) == (kind, name)
            return same and args.types.lower() in ("", str(event.get("type", "")).lower())

        found = [one for one in (await client.list(CORE_EVENTS, where)).items if shown(one)]
        print(event_table(in_order(found)) if found else "No events.", flush=True)
        if args.watch:
            async for change, event in watch_objects(client, CORE_EVENTS, Key(where, "")):
                if change in ("ADDED", "MODIFIED") and shown(event):
                    print("\n".join(event_table([event]).splitlines()[1:]), flush=True)
    return 0


async def events_of(
    client: Client, namespace: str, kind: str, meta: Mapping[str, Any]
) -> list[Event]:
    """Events of this object, not of an earlier one of the same name."""
    fields = f"involvedObject.kind={kind},involvedObject.name={meta['name']}"
    found = (await client.list(CORE_EVENTS, namespace, fields=fields)).items
    mine = [one for one in found if one["involvedObject"].get("uid") in (meta.get("uid"), None)]
    return in_order(mine)


def in_order(events: Sequence[Event]) -> list[Event]:
    return sorted(events, key=last_seen)


def last_seen(event: Event) -> datetime:
    """The time of an Event. Recorders write it to one of four fields."""
    series = event.get("series") or {}
    times = (
        event.get("lastTimestamp"),
        series.get("lastObservedTime"),
        event.get("eventTime"),
        event["metadata"].get("creationTimestamp"),
    )
    return parse_time(next(one for one in times if one))


def event_table(events: Sequence[Event], *, with_object: bool = True) -> str:
    now = SystemClock().now()
    rows = []
    for one in events:
        about = one.get("involvedObject") or {}
        target = f"{about.get('kind', '').lower()}/{about.get('name', '')}"
        count = (one.get("series") or {}).get("count") or one.get("count") or 1
        times = f" (x{count})" if count > 1 else ""
        row = [
            f"{age((now - last_seen(one)).total_seconds())}{times}",
            one.get("type", ""),
            one.get("reason", ""),
            *([target] if with_object else []),
            one_line(one.get("message") or one.get("note") or "", 300),
        ]
        rows.append(row)
    header = ["LAST SEEN", "TYPE", "REASON", *(["OBJECT"] if with_object else []), "MESSAGE"]
    return table(header, rows)


def age(seconds: float) -> str:
    """`45s`, `3m20s`, `5h`, `12d`, as kubectl shows it."""
    whole = max(int(seconds), 0)
    if whole < 120:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60}s" if whole < 600 else f"{whole // 60}m"
    return f"{whole // 3600}h" if whole < 48 * 3600 else f"{whole // 86400}d"
