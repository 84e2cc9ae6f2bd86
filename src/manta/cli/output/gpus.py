"""The GPUs of the nodes, as `manta status` shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from manta.api.text import bytes_text
from manta.api.well_known import RESOURCES_OF_GPUS
from manta.cli.output.tables import table
from manta.kube.client import Client
from manta.kube.errors import MantaError


@dataclass(frozen=True, slots=True)
class GpuRow:
    node: str
    index: int
    model: str
    id: str
    busy: int | None
    """Percent."""
    used: int | None
    memory: int
    """Bytes."""
    pod: str
    trouble: str
    leaks: Sequence[Mapping[str, Any]]
    """Processes that hold its memory without a living Pod: pid, since, memory, uid."""


async def gpu_rows(client: Client, nodes: Iterable[Mapping[str, Any]]) -> list[GpuRow]:
    """Ask the nodes that have GPUs. A node that does not answer is shown with its error."""
    rows: list[GpuRow] = []
    for node in nodes:
        name, offered = node["metadata"]["name"], node.get("status", {}).get("capacity", {})
        if not RESOURCES_OF_GPUS & offered.keys():
            continue
        try:
            answer = await client.send("GET", f"/api/v1/nodes/{name}/proxy/gpus")
            rows += [gpu_row(name, one) for one in msgspec.json.decode(answer.body)]
        except MantaError as error:
            rows.append(GpuRow(name, 0, "?", "", None, None, 0, "", str(error), ()))
    return rows


def gpu_row(node: str, state: Mapping[str, Any]) -> GpuRow:
    gpu, reading = state["gpu"], state["reading"]
    return GpuRow(
        node,
        gpu["index"],
        gpu["model"],
        gpu["id"],
        reading["busy"],
        reading["used"],
        gpu["memory"],
        state["pod"],
        reading["error"],
        [one for one in state["processes"] if not one["living"]],
    )


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


def leak_text(process: Mapping[str, Any]) -> str:
    held = "memory" if process["memory"] is None else bytes_text(process["memory"])
    whose = f"Pod {process['uid']}, which is gone," if process["uid"] else "no Pod of this plane"
    return f"process {process['pid']} of {whose} holds {held} since {process['since'] or '?'}"


def _busy(row: GpuRow) -> str:
    return "?" if row.busy is None else f"{row.busy} %"


def _memory(row: GpuRow) -> str:
    used = "?" if row.used is None else bytes_text(row.used)
    return f"{used} of {bytes_text(row.memory)}" if row.memory else used
