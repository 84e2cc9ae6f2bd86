"""`manta install`: the operator into a Kubernetes cluster, with the same objects as the Helm chart.

It uses server-side apply, so a second run upgrades. It waits until the operator is available.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import secrets
from typing import Any

from manta.api.meta import Key, Object
from manta.api.resources import DEPLOYMENTS, NAMESPACES, SECRETS, VALIDATING_WEBHOOK_CONFIGURATIONS
from manta.api.usage import UsageError
from manta.api.well_known import LABEL_APP_MANAGED_BY
from manta.cli.output.help import examples
from manta.cli.output.progress import open_progress
from manta.cli.output.wait import Followed, Follower
from manta.cli.server.connection import add_connection_flags, open_client
from manta.install.console_manifests import CONSOLE, CONSOLE_URL, KEY, key_secret
from manta.install.operator_manifests import (
    IMAGE,
    NAME,
    NAMESPACE,
    Installation,
    all_objects,
    needed_features,
)
from manta.install.plane import key_of, refuse_plane, resource_of
from manta.install.webhook_manifests import WEBHOOK
from manta.kube.client import Client
from manta.kube.errors import AlreadyExists, NotFound
from manta.rules.history import store_url_problem, without_credentials

FIELD_MANAGER = "manta-install"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "install",
        description="Install or upgrade the operator. The Helm chart creates the same objects and has"
        " more settings.",
        **examples(
            ("manta install --image registry.example/manta:0.1.0", "into the cluster of kubectl"),
            ("manta install --image IMAGE --watch-namespaces a,b", "without a ClusterRole"),
            ("manta install --image IMAGE --print > operator.yaml", "for GitOps"),
        ),
    )
    parser.add_argument("-n", "--namespace", default=NAMESPACE, help="namespace of the operator")
    parser.add_argument(
        "--watch-namespaces",
        default="",
        metavar="A,B",
        help="watch only these namespaces, with Roles instead of a ClusterRole",
    )
    parser.add_argument(
        "--image",
        default="",
        help="image of the operator: build and push it first (none is published yet)",
    )
    parser.add_argument("--replicas", type=int, default=1, metavar="N")
    parser.add_argument("--feature-gates", default="", metavar="A=true,B=false")
    parser.add_argument(
        "--use-kubernetes-proxy", action="store_true", help="reach Ray through the API server"
    )
    parser.add_argument(
        "--history-store",
        default="",
        metavar="URL",
        help="keep logs and tasks of clusters at s3://, gs:// or az:// (the server: Helm chart)",
    )
    parser.add_argument(
        "--webhook", action="store_true", help="also install the validating webhook"
    )
    parser.add_argument(
        "--console",
        nargs="?",
        const=CONSOLE_URL,
        default="",
        metavar="URL",
        help="also install the console, for people who paste a token; URL: https://NAME, where something "
        f"ends TLS (default: {CONSOLE_URL}, for `kubectl port-forward`; other logins: Helm chart)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="validate on the server, change nothing"
    )
    parser.add_argument("--print", action="store_true", help="only print the objects")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until it is available")
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS")
    add_connection_flags(parser, plane=False)


def run(args: argparse.Namespace) -> int:
    if args.replicas < 1:
        raise UsageError("--replicas must be 1 or more")
    if not args.image:
        raise UsageError(
            "--image is missing: no image is published yet. Build and push one with `docker build -t "
            "REGISTRY/manta:TAG .` and `docker push`, then use --image REGISTRY/manta:TAG"
        )
    if args.history_store and (problem := store_url_problem(args.history_store)):
        raise UsageError(f"--history-store {without_credentials(args.history_store)}: {problem}")
    if args.console:
        from manta.cli.server.console_logins import address_of

        address_of(args.console, "--console")
    if args.print:
        print(as_text(all_objects(installation_of(args))), end="")
        return 0
    return asyncio.run(_install(args))


def installation_of(args: argparse.Namespace, *, openshift: bool = False) -> Installation:
    from manta.operator.feature_gates import enabled_gates, parse_feature_gates

    gates = parse_feature_gates(args.feature_gates)
    return Installation(
        namespace=args.namespace,
        watch=tuple(filter(None, (one.strip() for one in args.watch_namespaces.split(",")))),
        image=args.image or IMAGE,
        replicas=args.replicas,
        features=needed_features(
            enabled_gates(gates), proxy=args.use_kubernetes_proxy, openshift=openshift
        ),
        gates=args.feature_gates,
        proxy=args.use_kubernetes_proxy,
        webhook=args.webhook,
        console=args.console,
        history_store=args.history_store,
    )


def as_text(documents: list[dict[str, Any]]) -> str:
    from manta.api.documents.writer import to_yaml

    return "".join(f"---\n{to_yaml(one)}" for one in documents)


async def _install(args: argparse.Namespace) -> int:
    from manta.operator.platform import detect

    async with open_client(args) as client:
        await refuse_plane(client, "install")
        platform = await detect(client)
        installation = installation_of(args, openshift=platform.openshift)
        if installation.webhook:
            await _refuse_without_webhooks(client)
            await _refuse_second_webhook(client, installation.namespace)
        await _refuse_helm_release(client, installation.namespace)
        await _refuse_with_kuberay(client, installation.watch)
        wanted = all_objects(installation)
        for document in wanted:
            print(await apply_object(client, document, dry_run=args.dry_run))
        if installation.console and not args.dry_run:
            await _create_key(client, installation)
        await _remove_superseded(client, installation, wanted, dry_run=args.dry_run)
        if args.dry_run or args.no_wait:
            return 0
        ready = await _until_available(client, installation, args.timeout)
    return 0 if ready else 1


async def _refuse_without_webhooks(client: Client) -> None:
    try:
        await client.list(VALIDATING_WEBHOOK_CONFIGURATIONS, into=Object)
    except NotFound:
        raise UsageError("--webhook: this API server does not support webhooks") from None


async def _refuse_second_webhook(client: Client, namespace: str) -> None:
    """Raise UsageError if another installation has the webhook: a cluster can have only one."""
    try:
        found = await client.get(VALIDATING_WEBHOOK_CONFIGURATIONS, Key("", WEBHOOK))
    except NotFound:
        return
    services = [hook["clientConfig"].get("service", {}) for hook in found.get("webhooks") or ()]
    if others := sorted({one.get("namespace", "") for one in services} - {namespace, ""}):
        raise UsageError(
            f"--webhook: the cluster already has a webhook in {', '.join(others)}, and can have only "
            "one. It can serve all namespaces; or remove it with `manta uninstall -n` first"
        )


async def _refuse_helm_release(client: Client, namespace: str) -> None:
    """Raise UsageError if Helm installed the operator: the two would overwrite each other."""
    try:
        found = await client.get(DEPLOYMENTS, Key(namespace, NAME))
    except NotFound:
        return
    manager = found["metadata"].get("labels", {}).get(LABEL_APP_MANAGED_BY)
    if manager == "Helm":
        raise UsageError(
            f"the operator in {namespace} was installed by Helm: upgrade it with `helm upgrade`, "
            "or remove it first with `helm uninstall` (your clusters keep running)"
        )


async def _refuse_with_kuberay(client: Client, namespaces: tuple[str, ...]) -> None:
    from manta.install.kuberay import find_kuberay, refusal
    from manta.runtime.clock import SystemClock

    found = await find_kuberay(client, SystemClock().now())
    if operators := [one for one in found if one.overlaps(namespaces)]:
        raise UsageError(refusal(operators, namespaces))


async def _remove_superseded(
    client: Client, installation: Installation, wanted: list[dict[str, Any]], *, dry_run: bool
) -> None:
    """Remove objects of the previous installation that this one does not contain."""
    from manta.cli.uninstall import remove
    from manta.install.installed import installed, superseded

    documents = [(resource_of(one), one) for one in wanted]
    for resource, key in superseded(await installed(client), installation.namespace, documents):
        await remove(client, resource, key, dry_run=dry_run)


async def apply_object(client: Client, document: dict[str, Any], *, dry_run: bool) -> str:
    """Apply one object. Returns what happened, as kubectl prints it."""
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
            force=True,  # also fields of KubeRay or of an earlier version
            dry_run=dry_run,
        )
    except NotFound:
        if not dry_run:
            raise
        return f"{resource.kind.lower()}/{key.name} created (not validated: no namespace {key.namespace})"
    verb = "created" if before is None else "configured"
    if before == written.metadata.resource_version:
        verb = "unchanged"
    return f"{resource.kind.lower()}/{key.name} {verb}{' (dry run)' if dry_run else ''}"


async def _create_namespace(client: Client, document: dict[str, Any], *, dry_run: bool) -> str:
    """Create the namespace. An existing one is not changed: our labels could forbid its Pods."""
    name = f"namespace/{document['metadata']['name']}"
    try:
        await client.get(NAMESPACES, key_of(document), into=Object)
    except NotFound:
        with contextlib.suppress(AlreadyExists):  # created concurrently
            await client.create(
                NAMESPACES, "", document, dry_run=dry_run, field_manager=FIELD_MANAGER
            )
            return f"{name} created{' (dry run)' if dry_run else ''}"
    return f"{name} unchanged"


async def _create_key(client: Client, installation: Installation) -> None:
    """The key of the console's cookies. An existing one is kept: another would log everybody out."""
    with contextlib.suppress(AlreadyExists):
        document = key_secret(installation, secrets.token_urlsafe(48))
        await client.create(SECRETS, installation.namespace, document, field_manager=FIELD_MANAGER)
        print(f"secret/{KEY} created")


async def _version(client: Client, document: dict[str, Any]) -> str | None:
    try:
        found = await client.get(resource_of(document), key_of(document), into=Object)
    except NotFound:
        return None
    return found.metadata.resource_version


async def _until_available(
    client: Client, installation: Installation, timeout_seconds: float
) -> bool:
    """Wait until the operator is ready, which includes that the CRDs are served."""
    names = [NAME]
    names += [WEBHOOK] if installation.webhook else []
    names += [CONSOLE] if installation.console else []
    followed = [Followed(DEPLOYMENTS, Key(installation.namespace, name)) for name in names]
    with open_progress() as progress:
        return await Follower(client, progress).until_ready(followed, timeout_seconds)
