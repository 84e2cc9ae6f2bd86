"""`manta install`: the operator into a Kubernetes cluster, as the chart does it, without Helm.

By server-side apply, so that it can be repeated, and upgrades. It ends when the operator is available;
what it waits for is said all the time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from typing import Any

from manta.api.meta import Key
from manta.api.resources import DEPLOYMENTS, NAMESPACES, VALIDATING_WEBHOOK_CONFIGURATIONS
from manta.cli.connection import add_connection_flags, open_client
from manta.cli.follow import Followed, Follower
from manta.cli.installation import key_of, refuse_plane, resource_of
from manta.cli.operator_objects import (
    IMAGE,
    MANAGER,
    NAME,
    NAMESPACE,
    Installation,
    all_objects,
    needed_features,
)
from manta.cli.progress import open_progress
from manta.cli.usage import UsageError, examples
from manta.cli.webhook_objects import WEBHOOK
from manta.kube.client import Client, Written
from manta.kube.errors import AlreadyExists, NotFound

FIELD_MANAGER = "manta-install"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "install",
        help="install the operator into a Kubernetes cluster",
        description="Install or upgrade the operator. For more settings than these there is the"
        " Helm chart; both make the same objects.",
        **examples(
            (
                "manta install --image registry.example/manta:0.1.0",
                "into the cluster that kubectl talks to",
            ),
            ("manta install --image IMAGE --watch-namespaces a,b", "without a ClusterRole"),
            ("manta install --image IMAGE --print > operator.yaml", "for GitOps; asks no server"),
        ),
    )
    parser.add_argument("-n", "--namespace", default=NAMESPACE, help="of the operator")
    parser.add_argument(
        "--watch-namespaces",
        default="",
        metavar="A,B",
        help="look after these only, with a Role in each and no ClusterRole",
    )
    parser.add_argument(
        "--image",
        default="",
        help="the operator's image: build and push it first (no release is published yet)",
    )
    parser.add_argument("--replicas", type=int, default=1, metavar="N")
    parser.add_argument("--feature-gates", default="", metavar="A=true,B=false")
    parser.add_argument(
        "--use-kubernetes-proxy", action="store_true", help="reach Ray by the API server"
    )
    parser.add_argument(
        "--webhook", action="store_true", help="refuse invalid Ray objects when they are written"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="let the server check, change nothing"
    )
    parser.add_argument("--print", action="store_true", help="print the objects, ask no server")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until it is available")
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS")
    add_connection_flags(parser, plane=False)


def run(args: argparse.Namespace) -> int:
    if args.replicas < 1:
        raise UsageError("--replicas counts operators: 1 or more")
    if not args.image:
        raise UsageError(
            "--image is missing: no image is published yet. Build and push one with `docker build -t "
            "REGISTRY/manta:TAG .` and `docker push`, then say --image REGISTRY/manta:TAG"
        )
    if args.print:
        print(as_text(all_objects(installation_of(args))), end="")
        return 0
    return asyncio.run(_install(args))


def installation_of(args: argparse.Namespace, *, openshift: bool = False) -> Installation:
    from manta.cli.operator_options import GATES, parse_feature_gates

    gates = parse_feature_gates(args.feature_gates)
    on = [name for name, gate in GATES.items() if getattr(gates, gate)]
    return Installation(
        namespace=args.namespace,
        watch=tuple(filter(None, (one.strip() for one in args.watch_namespaces.split(",")))),
        image=args.image or IMAGE,
        replicas=args.replicas,
        features=needed_features(on, proxy=args.use_kubernetes_proxy, openshift=openshift),
        gates=args.feature_gates,
        proxy=args.use_kubernetes_proxy,
        webhook=args.webhook,
    )


def as_text(documents: list[dict[str, Any]]) -> str:
    from manta.api.documents.writer import to_yaml

    return "".join(f"---\n{to_yaml(one)}" for one in documents)


async def _install(args: argparse.Namespace) -> int:
    from manta.cli.operator_platform import recognise

    async with open_client(args) as client:
        await refuse_plane(client, "install")
        platform = await recognise(client)
        installation = installation_of(args, openshift=platform.openshift)
        if installation.webhook:
            await _refuse_without_webhooks(client)
            await _refuse_beside_another_webhook(client, installation.namespace)
        await _refuse_helms(client, installation.namespace)
        await _refuse_beside_kuberay(client, installation.watch)
        wished = all_objects(installation)
        for document in wished:
            print(await apply_object(client, document, dry_run=args.dry_run))
        await _remove_superseded(client, installation, wished, dry_run=args.dry_run)
        if args.dry_run or args.no_wait:
            return 0
        ready = await _until_available(client, installation, args.timeout)
    return 0 if ready else 1


async def _refuse_without_webhooks(client: Client) -> None:
    try:
        await client.list(VALIDATING_WEBHOOK_CONFIGURATIONS, into=Written)
    except NotFound:
        raise UsageError("--webhook: this API server asks no webhooks") from None


async def _refuse_beside_another_webhook(client: Client, namespace: str) -> None:
    """A cluster has one: a second would take the place of the first, and nobody would notice."""
    try:
        found = await client.get(VALIDATING_WEBHOOK_CONFIGURATIONS, Key("", WEBHOOK))
    except NotFound:
        return
    asked = [hook["clientConfig"].get("service", {}) for hook in found.get("webhooks") or ()]
    if others := sorted({one.get("namespace", "") for one in asked} - {namespace, ""}):
        raise UsageError(
            f"--webhook: the webhook in {', '.join(others)} is asked already, and there can be one; "
            "it can serve all namespaces, or remove it with `manta uninstall -n` first"
        )


async def _refuse_helms(client: Client, namespace: str) -> None:
    """Two tools that both believe an object to be theirs undo each other's work."""
    try:
        found = await client.get(DEPLOYMENTS, Key(namespace, NAME))
    except NotFound:
        return
    manager = found["metadata"].get("labels", {}).get(MANAGER)
    if manager == "Helm":
        raise UsageError(
            f"the operator in {namespace} was installed by Helm: upgrade it with `helm upgrade`, "
            "or remove it first with `helm uninstall` (your clusters stay)"
        )


async def _refuse_beside_kuberay(client: Client, namespaces: tuple[str, ...]) -> None:
    from manta.cli.migrate import find_rivals, refusal
    from manta.runtime.clock import SystemClock

    found = await find_rivals(client, SystemClock().now())
    if rivals := [one for one in found if one.meets(namespaces)]:
        raise UsageError(refusal(rivals, namespaces))


async def _remove_superseded(
    client: Client, installation: Installation, wished: list[dict[str, Any]], *, dry_run: bool
) -> None:
    """Of an installation with other wishes: a ClusterRole that is not needed any more, a webhook."""
    from manta.cli.leftovers import installed, superseded
    from manta.cli.uninstall import remove

    documents = [(resource_of(one), one) for one in wished]
    for resource, key in superseded(await installed(client), installation.namespace, documents):
        await remove(client, resource, key, dry_run=dry_run)


async def apply_object(client: Client, document: dict[str, Any], *, dry_run: bool) -> str:
    """Apply one object; answers with what happened, as kubectl words it."""
    resource, key = resource_of(document), key_of(document)
    if resource is NAMESPACES:
        return await _create_namespace(client, document, dry_run=dry_run)
    before = await _version(client, document)
    try:
        written = await client.patch(
            resource,
            key,
            document,
            kind="apply",
            field_manager=FIELD_MANAGER,
            force=True,  # also what KubeRay or an earlier version of ours has set
            dry_run=dry_run,
        )
    except NotFound:
        if not dry_run:
            raise
        return (
            f"{resource.kind.lower()}/{key.name} created (unchecked: no namespace {key.namespace})"
        )
    verb = "created" if before is None else "configured"
    if before == written.metadata.resource_version:
        verb = "unchanged"
    return f"{resource.kind.lower()}/{key.name} {verb}{' (dry run)' if dry_run else ''}"


async def _create_namespace(client: Client, document: dict[str, Any], *, dry_run: bool) -> str:
    """One that is there already is somebody's: our labels would forbid Pods that run in it."""
    name = f"namespace/{document['metadata']['name']}"
    try:
        await client.get(NAMESPACES, key_of(document), into=Written)
    except NotFound:
        with contextlib.suppress(AlreadyExists):  # made by another since
            await client.create(
                NAMESPACES, "", document, dry_run=dry_run, field_manager=FIELD_MANAGER
            )
            return f"{name} created{' (dry run)' if dry_run else ''}"
    return f"{name} is there, and left as it is"


async def _version(client: Client, document: dict[str, Any]) -> str | None:
    try:
        found = await client.get(resource_of(document), key_of(document), into=Written)
    except NotFound:
        return None
    return found.metadata.resource_version


async def _until_available(
    client: Client, installation: Installation, timeout_seconds: float
) -> bool:
    """Its readiness says that the CRDs are served too: it cannot fill its caches before."""
    names = [NAME, WEBHOOK] if installation.webhook else [NAME]
    followed = [Followed(DEPLOYMENTS, Key(installation.namespace, name)) for name in names]
    with open_progress() as progress:
        return await Follower(client, progress).until_ready(followed, timeout_seconds)
