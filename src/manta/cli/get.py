"""`manta get KIND[,KIND] [NAME...]`: list objects, with the columns of the API server."""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import dataclass
from typing import Any

import msgspec

from manta.api.documents.writer import to_yaml
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import Resource
from manta.api.usage import UsageError
from manta.cli.output import jsonpath
from manta.cli.output.help import examples
from manta.cli.output.tables import server_table, table
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.cli.server.discovery import Kinds
from manta.client.object_state import one_line
from manta.client.readiness import judge
from manta.client.watch import watch_objects
from manta.kube.client import Client

AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
FORMATS = ("wide", "yaml", "json", "name")
JSONPATH = "jsonpath="


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "get",
        description="Show objects. Kinds have the same names as in kubectl; `clusters` is short for "
        "rayclusters.",
        **examples(
            ("manta get clusters", "the RayClusters of this namespace, and what they wait for"),
            ("manta get pods,svc -A", "two kinds, in all namespaces"),
            ("manta get rayjob train -o yaml", "one object as YAML"),
            ("manta get pods -l ray.io/cluster=demo -w", "and each change, until Ctrl-C"),
            ("manta get pods -o jsonpath='{.items[*].status.podIP}'", "some fields only"),
            ("manta get --kinds", "the kinds of the API server"),
        ),
    )
    parser.add_argument(
        "kind", nargs="?", help="kinds, such as pods,svc (plural, singular or short), or KIND/NAME"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="names, or more KIND/NAME")
    parser.add_argument("--kinds", action="store_true", help="list the kinds of the API server")
    add_get_flags(parser)


def add_get_flags(parser: argparse.ArgumentParser) -> None:
    """Which objects to show, and how."""
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="in all namespaces")
    parser.add_argument("-l", "--selector", default="", metavar="LABELS", help="such as a=b,c!=d")
    parser.add_argument(
        "-w", "--watch", action="store_true", help="also show each change, until Ctrl-C"
    )
    parser.add_argument(
        "-o",
        "--output",
        type=_format,
        default="",
        metavar="FORMAT",
        help="wide, yaml, json, name, or jsonpath=TEMPLATE",
    )
    add_connection_flags(parser, namespace=True)


def _format(text: str) -> str:
    if text in ("", *FORMATS) or text.startswith(JSONPATH):
        return text
    raise argparse.ArgumentTypeError(
        f"{text!r} is none of {', '.join(FORMATS)}, {JSONPATH}TEMPLATE"
    )


def run(args: argparse.Namespace) -> int:
    if not args.kind and not args.kinds:
        raise UsageError(
            "the kind is missing; for example: manta get clusters, manta get pods -A, manta get --kinds"
        )
    try:
        return asyncio.run(_get(args))
    except KeyboardInterrupt:
        return 0 if args.watch else 130


@dataclass(frozen=True, slots=True)
class Selection:
    """One object, or all of a kind if the key has no name."""

    resource: Resource
    key: Key


async def _get(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        kinds = await Kinds.discover(client)
        if args.kinds:
            rows = [(kind.plural, kind.api_version, kind.namespaced, kind.kind) for kind in kinds]
            print(table(("NAME", "APIVERSION", "NAMESPACED", "KIND"), sorted(rows)))
            return 0
        chosen = selections(args, kinds)
        if args.watch:
            return await _watch(client, chosen, args)
        if args.output not in ("", "wide"):
            end = (
                "" if args.output.startswith(JSONPATH) else "\n"
            )  # a template writes its own line ends
            print(await _objects(client, chosen, args), end=end)
        else:
            several = len({one.resource for one in chosen}) > 1
            found = [await _table(client, one, args, prefixed=several) for one in chosen]
            print("\n\n".join(found))
    return 0


def selections(args: argparse.Namespace, kinds: Kinds) -> list[Selection]:
    """Parse `pods,svc`, `pod a b` or `pod/a svc/b` as kubectl does. Raises UsageError."""
    words = [args.kind, *args.names]
    if any("/" in word for word in words):
        if not all("/" in word for word in words):
            raise UsageError(f"use either KIND NAME... or KIND/NAME...: {' '.join(words)}")
        pairs = [word.split("/", 1) for word in words]
    else:
        plural = args.kind.split(",")
        if len(plural) > 1 and args.names:
            raise UsageError("with several kinds, write names as KIND/NAME")
        pairs = [[kind, name] for kind in plural for name in (args.names or [""])]
    named = any(name for _, name in pairs)
    if named and args.selector:
        raise UsageError("use either a name or -l")
    if named and args.all_namespaces:
        raise UsageError("a name needs one namespace: use -n NAMESPACE instead of -A")
    return [_selection(kinds.named(kind), name, args) for kind, name in pairs]


def _selection(resource: Resource, name: str, args: argparse.Namespace) -> Selection:
    namespace = "" if args.all_namespaces or not resource.namespaced else namespace_of(args)
    return Selection(resource, Key(namespace, name))


# ── tables ───────────────────────────────────────────────────────────────────────────────


async def _table(
    client: Client, one: Selection, args: argparse.Namespace, *, prefixed: bool = False
) -> str:
    resource, key = one.resource, one.key
    query = (("labelSelector", args.selector),) if args.selector else ()
    response = await client.send(
        "GET", resource.path(key.namespace, key.name), query=query, headers={"Accept": AS_TABLE}
    )
    document = msgspec.json.decode(response.body)
    if not document.get("rows"):
        where = f"in namespace {key.namespace}" if key.namespace else "anywhere"
        return f"No {resource.plural} {where}."
    if prefixed:
        for row in document["rows"]:
            row["cells"][0] = f"{resource.kind.lower()}/{row['cells'][0]}"
    return server_table(
        document,
        wide=args.output == "wide",
        namespaces=args.all_namespaces,
        more=("WAITS FOR", await _reasons(client, one, args)) if _is_ray(resource) else None,
    )


def _is_ray(resource: Resource) -> bool:
    return resource.group == RAY_CLUSTERS.group


async def _reasons(
    client: Client, one: Selection, args: argparse.Namespace
) -> dict[tuple[str, str], str]:
    """What each object waits for, by namespace and name; empty if it is ready."""
    return {
        (item["metadata"].get("namespace", ""), item["metadata"]["name"]): waits_for(
            one.resource, item
        )
        for item in await _items(client, one, args)
    }


def waits_for(resource: Resource, document: dict[str, Any]) -> str:
    """What the object waits for, in one line; also the upgrade of a ready RayService."""
    verdict = judge(resource.kind, document)
    why = "" if verdict.ready else verdict.why
    for condition in (document.get("status") or {}).get("conditions") or ():
        if condition["type"] == "UpgradeInProgress" and condition["status"] == "True":
            why = f"upgrade: {condition.get('message', '')}"
    return one_line(why)


# ── objects ──────────────────────────────────────────────────────────────────────────────


async def _items(client: Client, one: Selection, args: argparse.Namespace) -> list[dict[str, Any]]:
    if one.key.name:
        return [await client.get(one.resource, one.key)]
    listed = await client.list(one.resource, one.key.namespace, labels=args.selector)
    kind = {"apiVersion": one.resource.api_version, "kind": one.resource.kind}
    return [{**kind, **item} for item in listed.items]


async def _objects(client: Client, chosen: list[Selection], args: argparse.Namespace) -> str:
    items: list[dict[str, Any]] = []
    names: list[str] = []
    for one in chosen:
        found = await _items(client, one, args)
        items += found
        names += [f"{qualified(one.resource)}/{item['metadata']['name']}" for item in found]
    if args.output == "name":
        return "\n".join(names)
    single = len(chosen) == 1 and chosen[0].key.name
    return formatted(
        items[0] if single else {"apiVersion": "v1", "kind": "List", "items": items}, args.output
    )


def qualified(resource: Resource) -> str:
    """The kind as kubectl prints it: `pod`, `raycluster.ray.io`."""
    kind = resource.kind.lower()
    return f"{kind}.{resource.group}" if resource.group else kind


def formatted(document: dict[str, Any], output: str) -> str:
    if output == "json":
        return json.dumps(document, indent=2)
    if output.startswith(JSONPATH):
        return jsonpath.render(output.removeprefix(JSONPATH), document)
    return to_yaml(document).rstrip()


# ── changes ──────────────────────────────────────────────────────────────────────────────


async def _watch(client: Client, chosen: list[Selection], args: argparse.Namespace) -> int:
    if len(chosen) > 1:
        raise UsageError("-w needs exactly one kind or one object")
    [one] = chosen
    if args.output not in ("", "wide"):
        async for _, document in watch_objects(client, one.resource, one.key, args.selector):
            name = f"{qualified(one.resource)}/{document['metadata']['name']}"
            print(name if args.output == "name" else formatted(document, args.output), flush=True)
        return 0
    print(await _table(client, one, args), flush=True)
    async for kind, document in watch_objects(client, one.resource, one.key, args.selector):
        if kind == "INITIAL":
            continue
        key = Key(document["metadata"].get("namespace", ""), document["metadata"]["name"])
        if kind == "DELETED":
            print(f"{key.name} deleted", flush=True)
            continue
        lines = (await _row(client, Selection(one.resource, key), args)).splitlines()
        print("\n".join(lines[1:]), flush=True)
    return 0


async def _row(client: Client, one: Selection, args: argparse.Namespace) -> str:
    from manta.kube.errors import NotFound

    try:
        return await _table(client, one, args)
    except NotFound:  # deleted since
        return ""
