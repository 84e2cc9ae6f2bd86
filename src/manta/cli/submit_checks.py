"""What can be wrong with a job of `manta submit`, found before anything is created."""

from __future__ import annotations

import argparse
import re
import sys

import msgspec

from manta.api.quantity import Quantity, QuantityError
from manta.api.ray.job import RayJob
from manta.cli.package import LARGEST_IN_CONFIGMAPS, Package
from manta.cli.render import bytes_text
from manta.cli.submission import Wanted, build_job
from manta.cli.usage import UsageError
from manta.rules.settings import Settings
from manta.rules.validation.job import validate_job

LEAST_MEMORY = 256 * 2**20
"""Less than this is a missing unit: Ray's own processes need more."""


def check_flags(args: argparse.Namespace) -> None:
    for flag in ("workers", "gpus", "retries"):
        if (getattr(args, flag) or 0) < 0:
            raise UsageError(f"--{flag} {getattr(args, flag)}: must not be negative")
    if args.timeout is not None and args.timeout <= 0:
        raise UsageError(f"--timeout {args.timeout}: give it at least one second")
    if args.cpus is not None:
        cpus = _quantity("cpus", args.cpus, "2 or 500m")
        if cpus.nano <= 0:
            raise UsageError(f"--cpus {args.cpus}: must be more than 0")
    if args.memory is not None:
        memory = _quantity("memory", args.memory, "2Gi")
        if memory.value() < LEAST_MEMORY:
            raise UsageError(
                f"--memory {args.memory}: that is {bytes_text(memory.value())}, and Ray needs at "
                f"least {bytes_text(LEAST_MEMORY)}; write it with its unit, such as 2Gi"
            )


def _quantity(flag: str, text: str, example: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError:
        written = re.fullmatch(r"([\d.]+) ?([kmgtKMGT])i?[bB]?", text)
        near = f"; did you mean {written[1]}{written[2].upper()}i?" if written else ""
        raise UsageError(
            f"--{flag} {text}: this is no amount of Kubernetes; write it as {example}{near}"
        ) from None


def check_package(package: Package | None, wanted: Wanted) -> None:
    if package is None:
        return
    if package.secrets:
        print(
            f"manta: warning: these files look like secrets and travel with the job, where all who "
            f"read ConfigMaps of namespace {wanted.namespace} can read them: "
            f"{', '.join(package.secrets)} (leave them out with .rayignore or --exclude)",
            file=sys.stderr,
        )
    if not package.fits_configmaps and not wanted.cluster:
        raise UsageError(
            f"{package.what}: that is too much for ConfigMaps (at most "
            f"{bytes_text(LARGEST_IN_CONFIGMAPS)} zipped), and a cluster of the job's own is not there "
            "yet to take it. Leave files out with .rayignore or --exclude, put them into the image or "
            "onto a volume, or use --cluster NAME with a cluster that is there (up to 100 MB)"
        )


def check_job(wanted: Wanted, package: Package | None) -> None:
    """The rules of the operator, in the words of the flags where a flag is the cause."""
    job = msgspec.convert(build_job(wanted, package), RayJob)
    flags = {"metadata.name": "--name"}
    for violation in validate_job(job, Settings()):
        flag = flags.get(violation.field)
        raise UsageError(
            f"{flag} {violation.value}: {violation.message}" if flag else str(violation)
        )
