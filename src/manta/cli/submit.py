"""`manta submit -- python train.py`: run a local script or directory as a RayJob, and follow it.

It exits with the job's own code. Ctrl-C asks whether to stop the job; left alone, it goes on, and
`manta logs -f job/NAME` follows it again.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from manta.api.documents.writer import to_yaml
from manta.api.meta import Key
from manta.api.ray.cluster import RayCluster
from manta.api.ray.job import RayJob
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import CONFIG_MAPS
from manta.cli.connection import (
    add_connection_flags,
    add_namespace_flag,
    namespace_of,
    open_client,
)
from manta.cli.dashboards import ProxyCourier
from manta.cli.egress_checks import refuse_without_egress
from manta.cli.joblogs import dashboard_of
from manta.cli.package import Package, pack
from manta.cli.submission import (
    DEFAULT_IMAGE,
    Wanted,
    build_job,
    build_packages,
    job_name,
)
from manta.cli.submit_checks import check_flags, check_job, check_package
from manta.cli.submit_follow import follow
from manta.cli.usage import UsageError, examples
from manta.kube.client import Client
from manta.kube.errors import ApiError, MantaError, NotFound
from manta.ray.dashboard import Dashboard
from manta.ray.models import Accepted, Target, Unreachable
from manta.rules.traits import head_service_name, ray_container_of


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "submit",
        help="run a script as a job on a Ray cluster",
        usage="manta submit [flags] -- COMMAND [ARGUMENT ...]",
        **examples(
            ("manta submit -- python train.py", "on a cluster of its own"),
            ("manta submit --cluster demo -- python train.py", "on a RayCluster that is there"),
            ("manta submit --workers 2 --cpus 4 -- python train.py", "on a larger one"),
        ),
    )
    parser.add_argument("stray", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--name", help="of the RayJob (default: from the script)")
    add_namespace_flag(parser)
    where = parser.add_argument_group("where", "on a cluster that is there, or on one of its own")
    where.add_argument("--cluster", default="", metavar="NAME", help="a RayCluster that is there")
    where.add_argument("--image", metavar="IMAGE", help=f"of its own cluster ({DEFAULT_IMAGE})")
    where.add_argument("--workers", type=int, metavar="N", help="of its own cluster (1)")
    where.add_argument("--cpus", metavar="N", help="of each Pod of its own cluster (1)")
    where.add_argument("--memory", metavar="AMOUNT", help="of each Pod of its own cluster (2Gi)")
    where.add_argument("--gpus", type=int, metavar="N", help="of each worker (0)")
    where.add_argument("--keep", action="store_true", help="keep its own cluster after the end")
    what = parser.add_argument_group("what goes along")
    what.add_argument("--working-dir", type=Path, metavar="DIR", help="this directory, as zip")
    what.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="leave these files out (as in .gitignore); may be given more than once",
    )
    what.add_argument(
        "--include-ignored",
        action="store_true",
        help="also what .gitignore and .rayignore leave out (never .git, virtual environments, caches)",
    )
    what.add_argument(
        "--env", action="append", default=[], metavar="NAME=VALUE", help="a variable of the job"
    )
    what.add_argument(
        "--pip", action="append", default=[], metavar="PACKAGE", help="installed for the job"
    )
    parser.add_argument("--retries", type=int, default=0, metavar="N", help="each on a new cluster")
    parser.add_argument("--timeout", type=int, metavar="SECONDS", help="then it is stopped")
    parser.add_argument("--detach", action="store_true", help="do not wait for it")
    parser.add_argument("--dry-run", action="store_true", help="print the manifests, do nothing")
    add_connection_flags(parser)


def run(args: argparse.Namespace) -> int:
    """Whatever can be wrong with the flags and the files is said before anything is created."""
    wanted = wanted_from(args)
    package = pack(
        wanted.command, args.working_dir, args.exclude, include_ignored=args.include_ignored
    )
    check_package(package, wanted)
    check_job(wanted, package)
    if args.dry_run:
        print(as_yaml(wanted, package))
        return 0
    try:
        return asyncio.run(_submit(args, wanted, package))
    except KeyboardInterrupt:
        return asyncio.run(_interrupted(args, Key(wanted.namespace, wanted.name)))


def wanted_from(args: argparse.Namespace) -> Wanted:
    command = _command(args)
    own = {name: getattr(args, name) for name in ("image", "workers", "cpus", "memory", "gpus")}
    own = {name: value for name, value in own.items() if value is not None}
    if args.cluster and (own or args.retries or args.keep):
        flags = [*own, *(["retries"] if args.retries else []), *(["keep"] if args.keep else [])]
        raise UsageError(
            f"--{flags[0]} is about a cluster of the job's own: leave it out, or --cluster"
        )
    check_flags(args)
    suffix = os.urandom(3).hex()[:5]
    return Wanted(
        name=args.name or job_name(command, suffix),
        namespace=namespace_of(args),
        command=command,
        cluster=args.cluster,
        runtime_env=_runtime_env(args),
        retries=args.retries,
        deadline=args.timeout,
        keep=args.keep,
        **own,
    )


def _command(args: argparse.Namespace) -> list[str]:
    if args.stray:
        words = " ".join([*args.stray, *args.command])
        raise UsageError(
            "write the flags of submit first, then --, then the command: "
            f"manta submit [flags] -- {words}"
        )
    if not args.command:
        raise UsageError("what is to be run? for example: manta submit -- python train.py")
    return list(args.command)


def _runtime_env(args: argparse.Namespace) -> dict[str, Any]:
    variables = {}
    for pair in args.env:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise UsageError(f"--env {pair}: write it as NAME=VALUE")
        variables[name] = value
    found: dict[str, Any] = {"env_vars": variables} if variables else {}
    return found | ({"pip": args.pip} if args.pip else {})


def as_yaml(wanted: Wanted, package: Package | None) -> str:
    packages = [] if package is None else build_packages(wanted, package)
    documents = [*packages, build_job(wanted, package)]
    return "---\n".join(to_yaml(one) for one in documents).rstrip()


# ── handing over ─────────────────────────────────────────────────────────────────────────


async def _submit(args: argparse.Namespace, wanted: Wanted, package: Package | None) -> int:
    async with open_client(args) as client:
        await refuse_without_egress(client, args.pip)
        key = await create(client, wanted, package)
        if args.detach:
            print(f"rayjob/{key.name} submitted; follow it with: manta logs -f job/{key.name}")
            return 0
        return await follow(client, key)


async def create(client: Client, wanted: Wanted, package: Package | None) -> Key:
    """The ConfigMaps first, then the RayJob that mounts them, which then owns them."""
    key = Key(wanted.namespace, wanted.name)
    if wanted.cluster:
        wanted = await _as_the_cluster(client, wanted)
    uploaded = ""
    if package is not None and wanted.cluster and not package.fits_configmap:
        uploaded = await _upload(client, wanted, package)
    carried = [] if package is None or uploaded else build_packages(wanted, package)
    manifest = build_job(wanted, package, uploaded)
    await _refuse_taken_name(client, key)
    created: list[Key] = []
    try:
        for document in carried:
            await client.create(CONFIG_MAPS, key.namespace, document)
            created.append(Key(key.namespace, document["metadata"]["name"]))
        job = await client.create(RAY_JOBS, key.namespace, manifest, into=RayJob)
    except ApiError as error:
        # Nobody owns them, unless the RayJob was created although the server reported an error.
        for one in () if error.unknown else created:
            await client.delete(CONFIG_MAPS, one)
        raise
    for one in created:
        await client.patch(CONFIG_MAPS, one, {"metadata": {"ownerReferences": [_owner(job)]}})
    if package is not None:
        _say(f"rayjob/{key.name} takes along {package.what}")
    return key


def _owner(job: RayJob) -> dict[str, Any]:
    return {
        "apiVersion": RAY_JOBS.api_version,
        "kind": RAY_JOBS.kind,
        "name": job.metadata.name,
        "uid": job.metadata.uid,
    }


async def _refuse_taken_name(client: Client, key: Key) -> None:
    try:
        await client.get(RAY_JOBS, key)
    except NotFound:
        return
    raise UsageError(
        f"--name {key.name}: there is a RayJob of that name in namespace {key.namespace}; choose "
        f"another one, or delete it: manta delete rayjob {key.name}"
    )


async def _as_the_cluster(client: Client, wanted: Wanted) -> Wanted:
    """The submitter needs the very Ray that the cluster has: it uses the head's image."""
    cluster = await _cluster(client, wanted)
    image = ray_container_of(cluster.spec.head_group_spec.template).get("image", "")
    return replace(wanted, image=image)


async def _cluster(client: Client, wanted: Wanted) -> RayCluster:
    try:
        return await client.get(
            RAY_CLUSTERS, Key(wanted.namespace, wanted.cluster), into=RayCluster
        )
    except NotFound:
        raise UsageError(
            f"--cluster {wanted.cluster}: there is no such RayCluster in namespace "
            f"{wanted.namespace}; `manta get clusters` lists them"
        ) from None


async def _upload(client: Client, wanted: Wanted, package: Package) -> str:
    """Too large for one ConfigMap: straight to the Ray that is there, through the API server."""
    cluster = await _cluster(client, wanted)
    target = Target(wanted.namespace, head_service_name(cluster), host="")
    path = f"/api/packages/gcs/{package.name}"
    reply = await ProxyCourier(client, timeout=300).send(target, "PUT", path, package.data)
    if isinstance(reply, Unreachable):
        raise SubmitError(f"the package did not reach RayCluster {wanted.cluster}: {reply.why}")
    if reply.status >= 300:
        text = reply.body[:300].decode("utf-8", "replace")
        raise SubmitError(f"Ray refused the package ({reply.status}): {text}")
    return f"gcs://{package.name}"


class SubmitError(MantaError):
    """The job could not be handed over."""


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ── Ctrl-C ───────────────────────────────────────────────────────────────────────────────


def ask(question: str) -> str:
    """What a person at the terminal says; nothing where there is none, or at a second Ctrl-C."""
    if not sys.stdin.isatty():
        return ""
    try:
        return input(question).strip().lower()
    except (EOFError, KeyboardInterrupt):
        return ""


async def _interrupted(args: argparse.Namespace, key: Key) -> int:
    _say("")
    if ask(f"Stop rayjob/{key.name}? [y/N] ") in ("y", "yes"):
        async with open_client(args) as client:
            await stop(client, key)
    else:
        _say(f"rayjob/{key.name} goes on; follow it with: manta logs -f job/{key.name}")
    return 130


async def stop(client: Client, key: Key) -> None:
    """Ask Ray to stop the job; what Ray does not have yet, or does not answer for, is deleted."""
    try:
        job = await client.get(RAY_JOBS, key, into=RayJob)
    except NotFound:
        _say(f"rayjob/{key.name} is not there")
        return
    target = await dashboard_of(client, job)
    if target is not None and job.status.job_status in ("PENDING", "RUNNING"):
        answer = await Dashboard(ProxyCourier(client)).stop(target, job.status.job_id)
        if isinstance(answer, Accepted):
            _say(f"Ray stops the job; rayjob/{key.name} will be Complete (STOPPED)")
            return
    await client.delete(RAY_JOBS, key, uid=job.metadata.uid)
    _say(f"rayjob/{key.name} is deleted, and its cluster with it")
