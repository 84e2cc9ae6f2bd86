"""`manta uninstall`: remove the operator; Ray objects and CRDs stay by default.

With `--crds` they are deleted first, while the operator still runs and can remove finalizers.
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
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags, open_client
from manta.install.installed import (
    Found,
    Installed,
    everything,
    installed,
    namespaces_of,
    of_namespace,
)
from manta.install.plane import refuse_plane
from manta.kube.client import Client
from manta.kube.errors import NotFound

MAX_NAMES = 10


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "uninstall",
        description="Remove the objects of `manta install`. Ray clusters keep running, but no operator"
        " manages them.",
        **examples(
            ("manta uninstall --dry-run", "print what would be deleted"),
            ("manta uninstall", "remove the operator; clusters keep running"),
            ("manta uninstall --crds --force", "also the CRDs and all Ray objects"),
        ),
    )
    parser.add_argument(
        "-n",
        "--namespace",
        default="",
        help="namespace of the operator; needed only if there are several",
    )
    parser.add_argument(
        "--crds", action="store_true", help="also remove the CRDs; refused while Ray objects exist"
    )
    parser.add_argument(
        "--force", action="store_true", help="with --crds: also delete all Ray objects"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would be deleted")
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS", help="of --crds")
    add_connection_flags(parser, plane=False)


def run(args: argparse.Namespace) -> int:
    if args.force and not args.crds:
        raise UsageError("--force needs --crds")
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
            print("found no objects of `manta install`")
        if users and not args.crds:
            print(
                f"not deleted: {_summary(users)}. No operator manages them now. Install it again,"
            )
            print("or delete them while an operator runs: their finalizers need one")
    return 0


def chosen(found: Installed, namespace: str) -> list[Found]:
    """The objects to delete. Raises UsageError if there are several operators and no namespace."""
    if namespace:
        return of_namespace(found, namespace)
    if len(several := namespaces_of(found)) > 1:
        raise UsageError(
            f"operators are installed in {', '.join(several)}: select one with -n NAMESPACE"
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
        f"--crds would delete {_summary(users)}, and stop everything that runs on them. Delete "
        "them first, or use --force"
    )


def _summary(users: list[Found]) -> str:
    """`2 RayClusters, 1 RayJob (a/one, a/two, b/job)`."""
    kinds = [resource.kind for resource, _ in users]
    counts = (
        f"{kinds.count(kind)} {kind}{'s' if kinds.count(kind) > 1 else ''}"
        for kind in dict.fromkeys(kinds)
    )
    names = [str(key) for _, key in users[:MAX_NAMES]] + (["..."] if len(users) > MAX_NAMES else [])
    return f"{', '.join(counts)} ({', '.join(names)})"


async def _remove_crds(client: Client, args: argparse.Namespace) -> None:
    """Delete the CRDs, and with them all Ray objects. Raises UsageError after the timeout."""
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
        why = f"{_summary(users)} still exist" if users else "the API server has not deleted them"
        raise UsageError(
            f"the CRDs still exist after {args.timeout:.0f} s: {why}. The operator was not removed; "
            "its log shows what it waits for"
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
