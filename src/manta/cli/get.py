"""`manta get KIND [NAME]`: what the server holds, in the server's own columns."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

import msgspec

from manta.api.documents.writer import to_yaml
from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import Resource
from manta.cli.connection import (
    add_connection_flags,
    add_namespace_flag,
    namespace_of,
    open_client,
)
from manta.cli.follow import judge
from manta.cli.kinds import Kinds
from manta.cli.render import server_table, table
from manta.cli.usage import UsageError
from manta.kube.client import Client

AS_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("get", help="list objects")
    parser.add_argument(
        "kind",
        nargs="?",
        help="kind, plural or short name, or KIND/NAME; `clusters`, `jobs` and `services` are Ray's: say "
        "`jobs.batch` and `svc` for Kubernetes' own",
    )
    parser.add_argument("name", nargs="?")
    add_namespace_flag(parser)
    parser.add_argument("-A", "--all-namespaces", action="store_true")
    parser.add_argument("-l", "--selector", default="", metavar="LABELS")
    parser.add_argument("-o", "--output", choices=("wide", "yaml", "json", "name"), default="")
    parser.add_argument("--kinds", action="store_true", help="list the kinds that the server knows")
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    if not args.kind and not args.kinds:
        raise UsageError(
            "which kind? for example: manta get clusters, manta get pods -A, manta get --kinds"
        )
    return asyncio.run(_get(args))


async def _get(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        kinds = await Kinds.discover(client)
        if args.kinds:
            rows = [(kind.plural, kind.api_version, kind.namespaced, kind.kind) for kind in kinds]
            print(table(("NAME", "APIVERSION", "NAMESPACED", "KIND"), sorted(rows)))
            return 0
        word, _, inline = args.kind.partition("/")
        resource = kinds.named(word)
        name = args.name or inline
        namespace = "" if args.all_namespaces or not resource.namespaced else namespace_of(args)
        if args.output in ("yaml", "json", "name"):
            print(await _objects(client, resource, Key(namespace, name), args))
        else:
            print(await _table(client, resource, Key(namespace, name), args))
    return 0


async def _table(client: Client, resource: Resource, key: Key, args: argparse.Namespace) -> str:
    query = (("labelSelector", args.selector),) if args.selector else ()
    response = await client.send(
        "GET", resource.path(key.namespace, key.name), query=query, headers={"Accept": AS_TABLE}
    )
    document = msgspec.json.decode(response.body)
    if not document.get("rows"):
        where = f"in namespace {key.namespace}" if key.namespace else "anywhere"
        return f"No {resource.plural} {where}."
    return server_table(
        document,
        wide=args.output == "wide",
        namespaces=args.all_namespaces,
        more=("WAITS FOR", await _reasons(client, resource, key, args))
        if _is_ray(resource)
        else None,
    )


def _is_ray(resource: Resource) -> bool:
    return resource.group == RAY_CLUSTERS.group


async def _reasons(
    client: Client, resource: Resource, key: Key, args: argparse.Namespace
) -> dict[tuple[str, str], str]:
    """What each object waits for, by namespace and name; nothing for those that are ready."""
    if key.name:
        found = [await client.get(resource, key, into=dict)]
    else:
        listed = await client.list(resource, key.namespace, into=dict, labels=args.selector)
        found = listed.items
    return {
        (one["metadata"].get("namespace", ""), one["metadata"]["name"]): waits_for(resource, one)
        for one in found
    }


def waits_for(resource: Resource, document: dict[str, Any]) -> str:
    """In one line; empty when it waits for nothing. A service that serves may be upgraded as well."""
    verdict = judge(resource.kind, document)
    why = "" if verdict.ready else verdict.why
    for condition in (document.get("status") or {}).get("conditions") or ():
        if condition["type"] == "UpgradeInProgress" and condition["status"] == "True":
            why = f"upgrade: {condition.get('message', '')}"
    return " ".join(why.split())


async def _objects(client: Client, resource: Resource, key: Key, args: argparse.Namespace) -> str:
    found: Any
    if key.name:
        found = await client.get(resource, key, into=dict)
        items = [found]
    else:
        listing = await client.list(resource, key.namespace, into=dict, labels=args.selector)
        items = listing.items
        found = {"apiVersion": "v1", "kind": "List", "items": items}
    if args.output == "name":
        return "\n".join(f"{resource.plural}/{item['metadata']['name']}" for item in items)
    if args.output == "json":
        return json.dumps(found, indent=2)
    return to_yaml(found).rstrip()
