"""Checks of a job of `manta submit` before anything is created."""

from __future__ import annotations

import argparse
import sys

import msgspec

from manta.api.ray.job import RayJob
from manta.api.usage import UsageError
from manta.client.amounts import AmountError, check_cpu, check_memory
from manta.client.package import Package
from manta.client.submission import Submission, build_job, check_size
from manta.rules.settings import Settings
from manta.rules.validation.job import validate_job


def check_flags(args: argparse.Namespace) -> None:
    """Raises UsageError for values of flags that cannot be used."""
    for flag in ("workers", "gpus", "retries"):
        if (getattr(args, flag) or 0) < 0:
            raise UsageError(f"--{flag} {getattr(args, flag)}: must not be negative")
    if args.timeout is not None and args.timeout <= 0:
        raise UsageError(f"--timeout {args.timeout}: must be at least one second")
    for flag, check in (("cpus", check_cpu), ("memory", check_memory)):
        text = getattr(args, flag)
        try:
            check("1Gi" if text is None else text)
        except AmountError as error:
            raise UsageError(f"--{flag} {text}: {error}") from None


def check_package(package: Package | None, submission: Submission) -> None:
    if package is None:
        return
    if package.secrets:
        print(
            f"manta: warning: these files look like secrets. Everyone who may read ConfigMaps in "
            f"namespace {submission.namespace} can read them: {', '.join(package.secrets)} "
            "(exclude them with .rayignore or --exclude)",
            file=sys.stderr,
        )
    check_size(submission, package)


def check_job(submission: Submission, package: Package | None) -> None:
    """Apply the operator's validation. Raises UsageError, which names the flag if one is the cause."""
    job = msgspec.convert(build_job(submission, package), RayJob)
    flags = {"metadata.name": "--name"}
    for violation in validate_job(job, Settings()):
        flag = flags.get(violation.field)
        raise UsageError(
            f"{flag} {violation.value}: {violation.message}" if flag else str(violation)
        )
