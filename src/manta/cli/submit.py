"""`manta submit -- python train.py`: run a local script or directory as a RayJob, and follow it.

It exits with the exit code of the job. Ctrl-C asks whether to stop the job; if not, the job keeps
running, and `manta logs -f job/NAME` follows it again.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from manta.api.documents.writer import to_yaml
from manta.api.meta import Key
from manta.api.usage import UsageError
from manta.cli.checks.egress import refuse_without_egress
from manta.cli.checks.job import check_flags, check_job, check_package
from manta.cli.output.follow_job import follow
from manta.cli.output.help import examples
from manta.cli.server.connection import add_connection_flags, namespace_of, open_client
from manta.client.cluster_spec import DEFAULT_IMAGE
from manta.client.jobs import create, stop
from manta.client.package import Package, pack
from manta.client.submission import Submission, build_job, build_packages, job_name


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "submit",
        usage="manta submit [flags] -- COMMAND [ARGUMENT ...]",
        **examples(
            ("manta submit -- python train.py", "on a new cluster"),
            ("manta submit --cluster demo -- python train.py", "on an existing RayCluster"),
            ("manta submit --workers 2 --cpus 4 -- python train.py", "on a larger new cluster"),
        ),
    )
    parser.add_argument("stray", nargs="*", help=argparse.SUPPRESS)
    parser.add_argument("--name", help="name of the RayJob (default: derived from the script)")
    _add_cluster_flags(parser)
    _add_environment_flags(parser)
    parser.add_argument(
        "--retries", type=int, default=0, metavar="N", help="retries, each on a new cluster"
    )
    parser.add_argument(
        "--timeout", type=int, metavar="SECONDS", help="stop the job after this time"
    )
    parser.add_argument("--detach", action="store_true", help="do not wait for the job")
    parser.add_argument("--dry-run", action="store_true", help="only print the manifests")
    add_connection_flags(parser, namespace=True)


def _add_cluster_flags(parser: argparse.ArgumentParser) -> None:
    where = parser.add_argument_group(
        "cluster", "an existing RayCluster, or a new one for this job"
    )
    where.add_argument("--cluster", default="", metavar="NAME", help="an existing RayCluster")
    where.add_argument(
        "--image", metavar="IMAGE", help=f"image of the new cluster ({DEFAULT_IMAGE})"
    )
    where.add_argument("--workers", type=int, metavar="N", help="workers of the new cluster (1)")
    where.add_argument("--cpus", metavar="N", help="CPUs of each Pod of the new cluster (1)")
    where.add_argument(
        "--memory", metavar="AMOUNT", help="memory of each Pod of the new cluster (2Gi)"
    )
    where.add_argument("--gpus", type=int, metavar="N", help="GPUs of each worker (0)")
    where.add_argument(
        "--keep", action="store_true", help="keep the new cluster after the job ends"
    )


def _add_environment_flags(parser: argparse.ArgumentParser) -> None:
    what = parser.add_argument_group("files and environment")
    what.add_argument(
        "--working-dir", type=Path, metavar="DIR", help="send this directory with the job"
    )
    what.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="do not send these files (patterns as in .gitignore); may be repeated",
    )
    what.add_argument(
        "--include-ignored",
        action="store_true",
        help="also send files that .gitignore and .rayignore exclude (never .git, virtual environments, caches)",
    )
    what.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="environment variable of the job",
    )
    what.add_argument(
        "--pip",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="pip package to install for the job",
    )


def run(args: argparse.Namespace) -> int:
    """Check the flags and the files first, then create the job."""
    submission = submission_from(args)
    package = pack(
        submission.command, args.working_dir, args.exclude, include_ignored=args.include_ignored
    )
    check_package(package, submission)
    check_job(submission, package)
    if args.dry_run:
        print(as_yaml(submission, package))
        return 0
    try:
        return asyncio.run(_submit(args, submission, package))
    except KeyboardInterrupt:
        return asyncio.run(_interrupted(args, Key(submission.namespace, submission.name)))


def submission_from(args: argparse.Namespace) -> Submission:
    """What to submit, from the flags. Raises UsageError."""
    command = _command(args)
    own = {name: getattr(args, name) for name in ("image", "workers", "cpus", "memory", "gpus")}
    own = {name: value for name, value in own.items() if value is not None}
    if args.cluster and (own or args.retries or args.keep):
        flags = [*own, *(["retries"] if args.retries else []), *(["keep"] if args.keep else [])]
        raise UsageError(f"--{flags[0]} applies to a new cluster: leave out either it or --cluster")
    check_flags(args)
    suffix = os.urandom(3).hex()[:5]
    return Submission(
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
        raise UsageError("the command is missing; for example: manta submit -- python train.py")
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


def as_yaml(submission: Submission, package: Package | None) -> str:
    packages = [] if package is None else build_packages(submission, package)
    documents = [*packages, build_job(submission, package)]
    return "---\n".join(to_yaml(one) for one in documents).rstrip()


# ── submission ───────────────────────────────────────────────────────────────────────────


async def _submit(args: argparse.Namespace, submission: Submission, package: Package | None) -> int:
    async with open_client(args) as client:
        await refuse_without_egress(client, args.pip)
        key = await create(client, submission, package)
        if package is not None:
            _print(f"rayjob/{key.name} is submitted with {package.what}")
        if args.detach:
            print(f"rayjob/{key.name} submitted; follow it with: manta logs -f job/{key.name}")
            return 0
        return await follow(client, key)


def _print(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ── Ctrl-C ───────────────────────────────────────────────────────────────────────────────


def ask(question: str) -> str:
    """The user's answer; empty without a terminal, and at a second Ctrl-C."""
    if not sys.stdin.isatty():
        return ""
    try:
        return input(question).strip().lower()
    except (EOFError, KeyboardInterrupt):
        return ""


async def _interrupted(args: argparse.Namespace, key: Key) -> int:
    _print("")
    if ask(f"Stop rayjob/{key.name}? [y/N] ") in ("y", "yes"):
        async with open_client(args) as client:
            _print(await stop(client, key))
    else:
        _print(f"rayjob/{key.name} keeps running; follow it with: manta logs -f job/{key.name}")
    return 130
