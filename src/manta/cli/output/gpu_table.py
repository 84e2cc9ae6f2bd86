"""The GPUs of the nodes, as `manta status` shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from manta.api.text import bytes_text
from manta.cli.output.tables import table
from manta.client.gpus import GpuRow, leak_words


def gpu_lines(rows: Sequence[GpuRow]) -> list[str]:
    if not rows:
        return []
    cells = [
        (one.node, f"{one.index} {one.model}", _busy(one), _memory(one), one.pod, one.trouble)
        for one in rows
    ]
    lines = ["", table(("NODE", "GPU", "USE", "MEMORY", "POD", "TROUBLE"), cells)]
    lines += [f"GPU {one.index}: {leak_text(leak)}" for one in rows for leak in one.leaks]
    return lines


def leak_text(process: Mapping[str, Any], verb: str = "holds") -> str:
    held = "memory" if process["memory"] is None else bytes_text(process["memory"])
    return leak_words(process, held, verb)


def _busy(row: GpuRow) -> str:
    return "?" if row.busy is None else f"{row.busy} %"


def _memory(row: GpuRow) -> str:
    used = "?" if row.used is None else bytes_text(row.used)
    return f"{used} of {bytes_text(row.memory)}" if row.memory else used
