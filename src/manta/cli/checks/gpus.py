"""Finds processes that hold GPU memory but belong to no running Pod; `manta doctor --fix` kills those of gone Pods."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from manta.cli.checks.finding import Finding, Level
from manta.cli.output.gpu_table import leak_text

if TYPE_CHECKING:
    from manta.localplane.node.gpus.report import GpuProcess, GpuState

_FIX = (
    "`manta doctor --fix` ends those that belonged to a Pod of this plane. End the others yourself if "
    "nobody needs them."
)


def check_gpus(args: argparse.Namespace) -> Finding:
    return _finding(_gpu_states(args))


def _gpu_states(args: argparse.Namespace) -> list[GpuState]:
    if sys.platform != "linux":
        return []
    from manta.localplane.node.gpus.machine_gpus import states_on_this_machine
    from manta.localplane.node.host.plane_id import NODE_DIRECTORY

    return states_on_this_machine(args.dir.resolve() / NODE_DIRECTORY)


def _finding(states: Sequence[GpuState]) -> Finding:
    if not states:
        return Finding(Level.OK, "none")
    broken = [f"{one.gpu.id}: {one.reading.error}" for one in states if one.reading.error]
    leaks = {leak.pid: leak for one in states for leak in one.leaks}
    if not broken and not leaks:
        return Finding(Level.OK, f"{len(states)} ({', '.join(sorted(_models(states)))})")
    words = "; ".join((*broken, *(leak_text(asdict(leak)) for leak in leaks.values())))
    if not broken and not any(leak.uid for leak in leaks.values()):
        return Finding(Level.OK, words)  # left by no Pod: a desktop, another user's job
    return Finding(Level.WARN, words, _FIX if leaks else "Look at the log of the kernel.")


def _models(states: Sequence[GpuState]) -> set[str]:
    return {one.gpu.model for one in states}


def kill_leaks(args: argparse.Namespace) -> list[GpuProcess]:
    """Kill the processes that hold GPU memory and whose Pod on this plane is gone, no others. Returns them."""
    from manta.localplane.node.host.process_tree import kill

    ours = {leak.pid: leak for one in _gpu_states(args) for leak in one.leaks if leak.uid}
    kill(ours)
    return list(ours.values())
