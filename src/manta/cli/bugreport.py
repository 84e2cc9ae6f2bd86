"""`manta bugreport`: pack versions, settings, objects, Events, logs and a recording, without secrets."""

from __future__ import annotations

import argparse
import asyncio
import platform
import secrets
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from manta import __version__
from manta.api.meta import Key
from manta.api.ray.names import LABEL_CLUSTER
from manta.api.ray.resources import RAY_RESOURCES
from manta.api.resources import CORE_EVENTS, JOBS, PODS, SERVICES, Resource
from manta.api.usage import UsageError
from manta.cli.output.help import examples
from manta.cli.plane.operator import operator_log
from manta.cli.plane.process import log_path, read_record
from manta.cli.server.connection import add_connection_flags, open_client
from manta.cli.server.operator_settings import add_settings_flags, find_origins
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.operator.deployed_options import Origin
from manta.recording.bundle import Bundle
from manta.recording.redaction import Redactor

MAX_MIB = 64
LISTED: Sequence[Resource] = (*RAY_RESOURCES, PODS, SERVICES, JOBS)
MAX_OBJECTS = 2000
LOG_LINES = 5000


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "bugreport",
        description="Pack what a maintainer needs into one archive: versions, the operator's "
        "settings, Ray objects with their Pods, Events, logs and a recording. Secrets are "
        "replaced by digests. Nothing is sent anywhere.",
        allow_abbrev=False,
        **examples(
            ("manta bugreport", "of the cluster of the kubeconfig, or of the plane here"),
            ("manta bugreport report.tar.gz -n team", "objects of one namespace"),
            ("manta bugreport --recording DIR", "with what `manta operator --record` kept"),
        ),
    )
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="default: manta-bugreport-TIME.tar.gz"
    )
    parser.add_argument("--recording", type=Path, action="append", default=[], metavar="FILE|DIR")
    parser.add_argument(
        "--max-mib", type=int, default=MAX_MIB, metavar="N", help="most MiB before compression"
    )
    add_connection_flags(parser, namespace=True)
    add_settings_flags(parser)


def run(args: argparse.Namespace) -> int:
    if args.max_mib < 1:
        raise UsageError(f"--max-mib must be at least 1, not {args.max_mib}")
    missing = [str(one) for one in args.recording if not one.exists()]
    if missing:
        raise UsageError(f"--recording: there is no {', '.join(missing)}")
    now = datetime.now(UTC)
    path = args.file or Path(f"manta-bugreport-{now:%Y%m%d-%H%M%S}.tar.gz")
    bundle = Bundle(Redactor(secrets.token_bytes(32)), args.max_mib * 1024 * 1024)
    asyncio.run(collect(args, bundle))
    try:
        bundle.write(path, now)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
    print("\n".join(bundle.contents()))
    print(f"wrote {path} ({path.stat().st_size:,} bytes); read it before you send it")
    return 0


async def collect(args: argparse.Namespace, bundle: Bundle) -> None:
    """Whatever can be read; what cannot is listed in the report."""
    versions: dict[str, Any] = {
        "manta": __version__,
        "python": sys.version,
        "platform": platform.platform(),
    }
    try:
        async with open_client(args) as client:
            versions["server"] = await _try(bundle, "server version", _version(client))
            await _try(bundle, "settings.json", _settings(args, client, bundle))
            for resource in (*LISTED, CORE_EVENTS):
                await _try(bundle, resource.plural, _objects(args, client, resource, bundle))
            await _try(bundle, "logs of the operator", _operator_logs(client, bundle))
    except (UsageError, MantaError) as error:  # without a server, or one that cannot be reached
        bundle.left_out.append(f"objects: {error}")
    bundle.add_json("versions.json", versions)
    if read_record(args.dir) is not None or log_path(args.dir).exists():
        bundle.add_log("logs/plane.log", log_path(args.dir))
        bundle.add_log("logs/operator.log", operator_log(args.dir))
    for one in args.recording:
        bundle.add_recording(one)


async def _try(bundle: Bundle, what: str, work: Any) -> Any:
    try:
        return await work
    except MantaError as error:
        bundle.left_out.append(f"{what}: {error}")
        return None


async def _version(client: Client) -> Any:
    response = await client.send("GET", "/version", timeout=5.0)
    return msgspec.json.decode(response.body).get("gitVersion", "?")


async def _settings(args: argparse.Namespace, client: Client, bundle: Bundle) -> None:
    origins = await find_origins(args, client)
    found = {one.what: one.options for one in origins if isinstance(one, Origin)}
    bundle.add_json("settings.json", found)


async def _objects(
    args: argparse.Namespace, client: Client, resource: Resource, bundle: Bundle
) -> None:
    labels = LABEL_CLUSTER if resource in (PODS, SERVICES) else ""
    found = await client.list(resource, args.namespace or "", labels=labels)
    objects = [
        {"apiVersion": resource.api_version, "kind": resource.kind, **one} for one in found.items
    ]
    if len(objects) > MAX_OBJECTS:
        bundle.left_out.append(f"{resource.plural}: {len(objects) - MAX_OBJECTS} of them")
    if objects:
        bundle.add_objects(f"objects/{resource.plural}.yaml", objects[:MAX_OBJECTS])


async def _operator_logs(client: Client, bundle: Bundle) -> None:
    """The logs of Pods that run `manta operator`."""
    for pod in (await client.list(PODS, "")).items:
        for container in pod["spec"]["containers"]:
            words = [*(container.get("command") or ()), *(container.get("args") or ())]
            if words[:2] != ["manta", "operator"]:
                continue
            key = Key(pod["metadata"]["namespace"], pod["metadata"]["name"])
            query = {"container": container["name"], "tailLines": str(LOG_LINES)}
            path = PODS.path(key.namespace, key.name, "log")
            response = await client.send("GET", path, query=tuple(query.items()))
            bundle.add_text(f"logs/{key.name}.log", response.body.decode("utf-8", "replace"))
