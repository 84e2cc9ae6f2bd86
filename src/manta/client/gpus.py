"""The GPUs of the nodes of `manta up`: who holds each, its use and its memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from manta.api.well_known import RESOURCES_OF_GPUS
from manta.kube.client import Client
from manta.kube.errors import MantaError, NotFound


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


def leak_words(process: Mapping[str, Any], held: str, verb: str = "holds") -> str:
    """What is said of a process that holds GPU memory without a living Pod. `held`: how much."""
    whose = f"Pod {process['uid']}, which is gone," if process["uid"] else "no Pod of this plane"
    return f"process {process['pid']} of {whose} {verb} {held} since {process['since'] or '?'}"


async def gpu_rows(client: Client, nodes: Iterable[Mapping[str, Any]]) -> list[GpuRow]:
    """Ask the nodes that have GPUs. A node that does not answer is shown with its error."""
    rows: list[GpuRow] = []
    for node in nodes:
        if RESOURCES_OF_GPUS & node.get("status", {}).get("capacity", {}).keys():
            rows += await node_gpus(client, node["metadata"]["name"])
    return rows


async def node_gpus(client: Client, name: str) -> list[GpuRow]:
    """The GPUs of one node; none if it is no node of `manta up`, whose kubelet does not know them."""
    try:
        answer = await client.send("GET", f"/api/v1/nodes/{name}/proxy/gpus")
        return [gpu_row(name, one) for one in msgspec.json.decode(answer.body)]
    except NotFound:
        return []
    except (MantaError, msgspec.MsgspecError) as error:
        return [GpuRow(name, 0, "?", "", None, None, 0, "", str(error), ())]


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
