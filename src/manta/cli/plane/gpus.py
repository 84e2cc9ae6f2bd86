"""The flags --gpus and --fake-gpus of `manta up`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from manta.api.usage import UsageError

if TYPE_CHECKING:
    from manta.localplane.node.gpus.machine_gpus import GpuWish


def gpu_wish(args: argparse.Namespace) -> GpuWish:
    """Raises UsageError."""
    from manta.localplane.node.gpus.machine_gpus import GpuWish

    if args.gpus == "auto":
        return GpuWish(fake=args.fake_gpus)
    if args.fake_gpus:
        raise UsageError(f"--gpus {args.gpus}: leave it out with --fake-gpus {args.fake_gpus}")
    if args.gpus == "none":
        return GpuWish(limit=0)
    if not args.gpus.isdecimal():
        raise UsageError(f"--gpus {args.gpus}: must be a number, auto or none")
    return GpuWish(limit=int(args.gpus))
