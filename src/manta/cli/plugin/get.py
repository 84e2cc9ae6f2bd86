"""`kubectl ray get cluster|workergroup|node|token|rayjob|rayservice|raycronjob`."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from manta.api.meta import Key
from manta.api.ray.names import LABEL_CLUSTER, LABEL_IS_RAY_NODE
from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.resources import PODS, Resource
from manta.cli.get import add_get_flags, formatted, qualified, waits_for
from manta.cli.output.help import examples
from manta.cli.output.tables import aligned
from manta.cli.plugin import get_tables as tables
from manta.cli.server.connection import namespace_of, open_client
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.runtime.clock import SystemClock

Document = dict[str, Any]
OTHER_KINDS = ("rayjob", "rayservice", "raycronjob", "raycluster")


class NotFoundError(MantaError):
    """No object has this name."""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "get",
        **examples(
            ("kubectl ray get cluster", "the RayClusters of this namespace"),
            ("kubectl ray get workergroup -c demo", "the worker groups of one cluster"),
            ("kubectl ray get node -A -o wide", "the Ray Pods of all namespaces"),
            ("kubectl ray get token demo", "the authentication token of a cluster"),
            ("kubectl ray get rayservice -w", "RayServices, and each change"),
        ),
    )
    kinds = parser.add_subparsers(dest="what", metavar="KIND")
    cluster = _kind(kinds, "cluster", "RayClusters", aliases=["clusters"])
    cluster.add_argument("name", nargs="?", default="", metavar="NAME", help="one RayCluster")
    for what, about in (("workergroup", "worker groups"), ("node", "Ray Pods")):
        part = _kind(kinds, what, about, aliases=[f"{what}s"])
        part.add_argument("name", nargs="?", default="", metavar="NAME", help="only this one")
        part.add_argument(
            "-c", "--ray-cluster", default="", metavar="NAME", help="of this RayCluster"
        )
    _add_token(kinds)
    for kind in OTHER_KINDS:
        other = _kind(kinds, kind, f"{kind}s, with the columns of the API server", [f"{kind}s"])
        other.add_argument("names", nargs="*", metavar="NAME", help="only these")
        other.set_defaults(kind=f"{kind}s", kinds=False)


def _kind(
    kinds: Any, what: str, about: str, aliases: Sequence[str] = ()
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = kinds.add_parser(
        what, aliases=aliases, help=about, allow_abbrev=False, description=f"Show {about}."
    )
    parser.set_defaults(what=what)
    add_get_flags(parser)
    return parser


def _add_token(kinds: Any) -> None:
    from manta.cli.server.connection import add_connection_flags

    parser = kinds.add_parser(
        "token",
        help="the authentication token of a RayCluster",
        description="Print the authentication token of a RayCluster, without a line end.",
        allow_abbrev=False,
    )
    parser.set_defaults(what="token", watch=False)
    parser.add_argument("name", metavar="CLUSTER", help="the RayCluster")
    add_connection_flags(parser, namespace=True)


def run(args: argparse.Namespace) -> int:
    try:
        if args.what in OTHER_KINDS:
            from manta.cli import get

            return get.run(args)
        return asyncio.run(_get(args))
    except KeyboardInterrupt:
        return 0 if args.watch else 130


async def _get(args: argparse.Namespace) -> int:
    async with open_client(args) as client:
        if args.what == "token":
            from manta.client.auth_token import token_of

            print(await token_of(client, Key(namespace_of(args), args.name)), end="")
            return 0
        shown = _Shown(args, "" if args.all_namespaces else namespace_of(args))
        found = await shown.find(client)
        shown.print(found)
        if args.watch:
            await shown.watch(client, found)
    return 0


@dataclass(frozen=True, slots=True)
class _Found:
    """The objects, and what stands in the table for each."""

    objects: list[Document]
    rows: list[tables.Row]


class _Shown:
    """Clusters, worker groups or nodes, as the flags ask for them."""

    def __init__(self, args: argparse.Namespace, namespace: str) -> None:
        self._args = args
        self._namespace = namespace
        self._widths: list[int] = []
        self._printed: set[tuple[str, ...]] = set()

    # ── reads ────────────────────────────────────────────────────────────────────────────
    async def find(self, client: Client) -> _Found:
        """Raises NotFoundError for a name that does not exist."""
        args = self._args
        match args.what:
            case "cluster":
                found = self._clusters(await self._list(client, RAY_CLUSTERS, args.name))
            case "workergroup":
                found = await self._groups(client)
            case _:
                found = await self._nodes(client)
        if args.name and not found.objects:
            raise NotFoundError(self._missing())
        return found

    async def _list(
        self, client: Client, resource: Resource, name: str, labels: str = ""
    ) -> list[Document]:
        fields = f"metadata.name={name}" if name else ""
        wanted = ",".join(one for one in (labels, self._args.selector) if one)
        listed = await client.list(resource, self._namespace, labels=wanted, fields=fields)
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        return [{**kind, **item} for item in listed.items]

    def _clusters(self, clusters: list[Document]) -> _Found:
        now = SystemClock().now()
        rows = [tables.cluster_row(one, now) for one in clusters]
        if self._args.output == "wide":
            rows = [
                [*row, waits_for(RAY_CLUSTERS, one)]
                for row, one in zip(rows, clusters, strict=True)
            ]
        return _Found(clusters, rows)

    async def _groups(self, client: Client) -> _Found:
        args = self._args
        clusters = await self._list(client, RAY_CLUSTERS, args.ray_cluster)
        labels = f"{LABEL_IS_RAY_NODE}=yes"
        labels += f",{LABEL_CLUSTER}={args.ray_cluster}" if args.ray_cluster else ""
        pods = (await client.list(PODS, self._namespace, labels=labels)).items
        by_namespace: dict[str, list[Document]] = {}
        for pod in pods:
            by_namespace.setdefault(pod["metadata"].get("namespace", ""), []).append(pod)
        groups = [
            group
            for one in clusters
            for group in tables.groups_of(
                one, by_namespace.get(one["metadata"].get("namespace", ""), [])
            )
            if not args.name or group.name == args.name
        ]
        rows = [tables.group_row(group) for group in groups]
        rows = self._with_namespaces(rows, [group.namespace for group in groups])
        return _Found([_as_document(group) for group in groups], rows)

    async def _nodes(self, client: Client) -> _Found:
        args, now = self._args, SystemClock().now()
        labels = f"{LABEL_IS_RAY_NODE}=yes"
        labels += f",{LABEL_CLUSTER}={args.ray_cluster}" if args.ray_cluster else ""
        pods = await self._list(client, PODS, args.name, labels)
        rows = [tables.node_row(pod, now) for pod in pods]
        if args.output == "wide":
            rows = [[*row, *_where(pod)] for row, pod in zip(rows, pods, strict=True)]
        where = [pod["metadata"].get("namespace", "") for pod in pods]
        return _Found(pods, self._with_namespaces(rows, where))

    def _with_namespaces(self, rows: list[tables.Row], where: list[str]) -> list[tables.Row]:
        if not self._args.all_namespaces:
            return rows
        return [[namespace, *row] for namespace, row in zip(where, rows, strict=True)]

    def _missing(self) -> str:
        args = self._args
        what = {"cluster": "cluster", "workergroup": "worker group", "node": "node"}[args.what]
        where = f"in namespace {self._namespace}" if self._namespace else "in any namespace"
        text = f"Ray {what} {args.name} not found {where}"
        if args.what == "cluster":
            return text
        return f"{text} in {f'Ray cluster {args.ray_cluster}' if args.ray_cluster else 'any Ray cluster'}"

    # ── output ───────────────────────────────────────────────────────────────────────────
    def print(self, found: _Found) -> None:
        args = self._args
        if args.output in ("", "wide"):
            self._print_table(found)
        elif args.output == "name":
            print("\n".join(_name(one, args.what) for one in found.objects))
        else:
            alone = args.name and not args.all_namespaces and len(found.objects) == 1
            listing = {"apiVersion": "v1", "kind": "List", "items": found.objects}
            end = "" if args.output.startswith("jsonpath") else "\n"
            print(formatted(found.objects[0] if alone else listing, args.output), end=end)
        sys.stdout.flush()

    def _print_table(self, found: _Found) -> None:
        if not found.rows:
            where = f"{self._namespace} namespace" if self._namespace else "any namespace"
            print(f"No resources found in {where}.", file=sys.stderr)
            return
        lines, self._widths = aligned([self._header(), *found.rows])
        self._printed = {tuple(row) for row in found.rows}
        print("\n".join(lines))

    def _header(self) -> list[str]:
        args, wide = self._args, self._args.output == "wide"
        first = ["NAMESPACE"] if args.all_namespaces else []
        match args.what:
            case "cluster":
                return [*tables.CLUSTERS, *(["WAITS FOR"] if wide else [])]
            case "workergroup":
                return [*first, *tables.GROUPS]
            case _:
                return [*first, *tables.NODES, *(["IP", "NODE"] if wide else [])]

    # ── changes ──────────────────────────────────────────────────────────────────────────
    async def watch(self, client: Client, found: _Found) -> None:
        """Print what differs after each change, until Ctrl-C."""
        before = found.objects
        async for _ in self._changes(client):
            now = await self._find_again(client)
            if self._args.output in ("", "wide"):
                self._print_new_rows(now)
            else:
                changed = [one for one in now.objects if one not in before]
                if changed:
                    self.print(_Found(changed, []))
            before = now.objects

    async def _find_again(self, client: Client) -> _Found:
        try:
            return await self.find(client)
        except NotFoundError:
            return _Found([], [])

    async def _changes(self, client: Client) -> AsyncIterator[None]:
        from manta.client.watch import watch_objects

        resource = PODS if self._args.what == "node" else RAY_CLUSTERS
        async for kind, _ in watch_objects(client, resource, Key(self._namespace, "")):
            if kind != "INITIAL":
                yield

    def _print_new_rows(self, found: _Found) -> None:
        """Rows that changed in more than their age."""
        new = [row for row in found.rows if not self._is_known(row)]
        if new:
            heads = [] if self._widths else [self._header()]
            lines, self._widths = aligned([*heads, *new], self._widths)
            print("\n".join(lines), flush=True)
        self._printed = {tuple(row) for row in found.rows}

    def _is_known(self, row: tables.Row) -> bool:
        if self._args.what == "workergroup":
            return tuple(row) in self._printed
        at = self._header().index("AGE")
        bare = (*row[:at], *row[at + 1 :])
        return any((*old[:at], *old[at + 1 :]) == bare for old in self._printed)


def _where(pod: Document) -> list[str]:
    return [
        (pod.get("status") or {}).get("podIP") or "<none>",
        pod["spec"].get("nodeName") or "<none>",
    ]


def _as_document(group: tables.Group) -> Document:
    """A worker group is no API object: its part of the RayCluster's spec, and where it is from."""
    return {
        "kind": "WorkerGroup",
        "metadata": {"name": group.name, "namespace": group.namespace},
        "cluster": group.cluster,
        "readyReplicas": group.ready,
        "spec": dict(group.spec),
    }


def _name(document: Document, what: str) -> str:
    name = document["metadata"]["name"]
    if what == "workergroup":
        return f"workergroup/{document['cluster']}/{name}"
    return f"{qualified(RAY_CLUSTERS if what == 'cluster' else PODS)}/{name}"
