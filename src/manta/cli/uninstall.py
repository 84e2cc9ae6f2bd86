"""`manta uninstall`: the operator goes; the user's Ray objects and the CRDs stay unless told otherwise.

With `--crds` they go first, while the operator is still there to give back what they hold.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable
from typing import Any

from manta.api.crds import CRD_NAMES
from manta.api.meta import Key, Object
from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from manta.cli.connection import add_connection_flags, open_client
from manta.cli.installation import refuse_plane
from manta.cli.leftovers import Found, Installed, everything, homes, installed, of_namespace
from manta.cli.usage import UsageError, examples
from manta.kube.client import Client
from manta.kube.errors import NotFound

SHOWN = 10


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "uninstall",
        help="remove the operator; Ray objects and CRDs stay",
        description="Remove what `manta install` made. Ray clusters go on running, and nobody"
        " looks after them until an operator is there again.",
        **examples(
            ("manta uninstall --dry-run", "say what would go"),
            ("manta uninstall", "remove the operator; clusters go on running"),
            ("manta uninstall --crds --force", "also the CRDs, and all Ray objects with them"),
        ),
    )
    parser.add_argument(
        "-n", "--namespace", default="", help="of the operator; needed only where there are several"
    )
    parser.add_argument(
        "--crds", action="store_true", help="also the CRDs; refused while Ray objects exist"
    )
    parser.add_argument(
        "--force", action="store_true", help="with --crds: and all Ray objects with them"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would go")
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS", help="for --crds")
    add_connection_flags(parser, plane=False)


def run(args: argparse.Namespace) -> int:
    if args.force and not args.crds:
        raise UsageError("--force is about --crds: without it, Ray objects are left alone anyway")
    return asyncio.run(_uninstall(args))


async def _uninstall(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        await refuse_plane(client, "uninstall")
        ours = chosen(await installed(client), args.namespace)
        users = await _ray_objects(client)
        if args.crds:
            if users and not args.force:
                raise UsageError(_refusal(users))
            await _remove_crds(client, args)
        for resource, key in ours:
            await remove(client, resource, key, dry_run=args.dry_run)
        if not ours:
            print("nothing that `manta install` made is here")
        if users and not args.crds:
            print(f"left alone: {_told(users)}. Nobody looks after them now; install again, or")
            print("delete them while an operator runs: their finalizers wait for one")
    return 0


def chosen(found: Installed, namespace: str) -> list[Found]:
    """All that is there; where several operators share a cluster, those of the namespace that is named."""
    if namespace:
        return of_namespace(found, namespace)
    if len(several := homes(found)) > 1:
        raise UsageError(
            f"operators are installed in {', '.join(several)}: say which with -n NAMESPACE"
        )
    return everything(found)


async def _ray_objects(client: Client) -> list[Found]:
    found: list[Found] = []
    for resource in RAY_RESOURCES:
        found += await _listed(client, resource)
    return found


async def _listed(client: Client, resource: Resource) -> list[Found]:
    try:
        listing = await client.list(resource, into=Object)
    except NotFound:  # its CRD is not installed
        return []
    return [(resource, one.metadata.key) for one in listing.items]


def _refusal(users: list[Found]) -> str:
    return (
        f"--crds would delete {_told(users)}, and stop all that runs on them. Delete them first, "
        "or say --force"
    )


def _told(users: list[Found]) -> str:
    """`2 RayClusters, 1 RayJob (a/one, a/two, b/job)`."""
    kinds = [resource.kind for resource, _ in users]
    counts = (
        f"{kinds.count(kind)} {kind}{'s' if kinds.count(kind) > 1 else ''}"
        for kind in dict.fromkeys(kinds)
    )
    names = [str(key) for _, key in users[:SHOWN]] + (["..."] if len(users) > SHOWN else [])
    return f"{', '.join(counts)} ({', '.join(names)})"


async def _remove_crds(client: Client, args: argparse.Namespace) -> None:
    """Custom resources go with their CRD; the operator is still there to let them go."""
    crds = [(CUSTOM_RESOURCE_DEFINITIONS, Key("", name)) for name in CRD_NAMES]
    for resource, key in crds:
        await remove(client, resource, key, dry_run=args.dry_run)
    if args.dry_run:
        return
    try:
        async with asyncio.timeout(args.timeout):
            await _until_gone(client, crds)
    except TimeoutError:
        users = await _ray_objects(client)
        why = f"{_told(users)} do not go" if users else "the server does not let them go"
        raise UsageError(
            f"the CRDs were not gone within {args.timeout:.0f} s: {why}. The operator was left "
            "where it is; its log says what it waits for"
        ) from None


async def _until_gone(client: Client, crds: Iterable[Found]) -> None:
    for resource, key in crds:
        while True:
            try:
                await client.get(resource, key, into=Object)
            except NotFound:
                break
            await asyncio.sleep(0.2)


async def remove(client: Client, resource: Resource, key: Key, *, dry_run: bool) -> None:
    if dry_run:
        print(f"{resource.kind.lower()}/{key.name} would be deleted")
        return
    present = await client.delete(resource, key)
    if present:
        print(f"{resource.kind.lower()}/{key.name} deleted")
