"""The flags --gpus and --fake-gpus of `manta up`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from manta.api.usage import UsageError

if TYPE_CHECKING:
    from manta.localplane.node.gpus.machine_gpus import GpuOptions


def gpu_options(args: argparse.Namespace) -> GpuOptions:
    """Raises UsageError."""
    from manta.localplane.node.gpus.machine_gpus import GpuOptions

    if args.gpus == "auto":
        return GpuOptions(fake=args.fake_gpus)
    if args.fake_gpus:
        raise UsageError(f"--gpus {args.gpus}: leave it out with --fake-gpus {args.fake_gpus}")
    if args.gpus == "none":
        return GpuOptions(limit=0)
    if not args.gpus.isdecimal():
        raise UsageError(f"--gpus {args.gpus}: must be a number, auto or none")
    return GpuOptions(limit=int(args.gpus))
