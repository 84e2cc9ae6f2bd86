"""The report of `manta status`: what it has, and how it is printed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manta.api.quantity import Quantity
from manta.api.text import bytes_text
from manta.cli.output.gpu_table import gpu_lines
from manta.cli.output.tables import table
from manta.client.gpus import GpuRow
from manta.client.object_state import one_line, state_of


@dataclass(frozen=True, slots=True)
class NodeRow:
    name: str
    cpu: str
    memory: str
    pods: int
    trouble: str


@dataclass(frozen=True, slots=True)
class ObjectRow:
    kind: str
    namespace: str
    name: str
    state: str
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """The report; `-o json` has the same fields."""

    plane: Mapping[str, Any] | None
    """None: the API server is not a plane of this machine."""
    server: Mapping[str, Any]
    operator: Mapping[str, Any]
    nodes: Sequence[NodeRow]
    gpus: Sequence[GpuRow]
    objects: Sequence[ObjectRow]
    pods: Sequence[ObjectRow]
    hidden: Sequence[str] = ()
    """What the user may not see, and why."""

    @property
    def is_well(self) -> bool:
        """False if the API server or the operator has a problem. Unknown is no problem."""
        return not self.server["trouble"] and self.operator["ready"] is not False


def shown(report: Report) -> list[str]:
    """The lines of the report."""
    lines = [*_server_lines(report), f"operator   {report.operator['state']}"]
    if report.plane is not None and not report.operator["ready"]:
        lines.append(f"           its log: {report.plane['directory']}/logs/operator.log")
    lines += [f"not shown  {text}" for text in report.hidden]
    if report.nodes or report.plane is not None:
        rows = [(one.name, one.cpu, one.memory, one.pods, one.trouble) for one in report.nodes]
        pods = "RAY PODS" if report.plane is None else "PODS"
        lines += ["", table(("NODE", "CPU", "MEMORY", pods, "TROUBLE"), rows)]
    lines += gpu_lines(report.gpus)
    if report.objects:
        cells = [(o.kind, o.namespace, o.name, o.state, o.why) for o in report.objects]
        lines += ["", table(("KIND", "NAMESPACE", "NAME", "STATE", "WHY"), cells)]
    if report.pods:
        those = [(o.namespace, o.name, o.state, o.why) for o in report.pods]
        lines += ["", table(("NAMESPACE", "POD", "STATE", "WHY"), those)]
    return lines


def _server_lines(report: Report) -> Iterator[str]:
    plane, server = report.plane, report.server
    if plane is None:
        yield f"server     {server['url']}"
    else:
        parts = (f"pid {plane['pid']}", f"manta {plane['version']}")
        yield "   ".join((f"plane      {server['url']}", *parts, f"state in {plane['directory']}"))
    if server["trouble"]:
        yield f"           {server['trouble']}"


def node_row(node: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> NodeRow:
    name = node["metadata"]["name"]
    capacity = node.get("status", {}).get("allocatable", {})
    mine = [pod for pod in pods if pod.get("spec", {}).get("nodeName") == name]
    return NodeRow(
        name, capacity.get("cpu", "?"), _memory(capacity), len(mine), one_line(node_trouble(node))
    )


def _memory(capacity: Mapping[str, str]) -> str:
    """`24684100Ki` as `23.5 GiB`."""
    given = capacity.get("memory", "")
    try:
        return bytes_text(Quantity.parse(given).value())
    except ValueError:
        return given or "?"


def node_trouble(node: Mapping[str, Any]) -> str:
    """The problems of a node: every condition but Ready is a problem if it is True."""
    conditions = node.get("status", {}).get("conditions") or ()
    bad = [one for one in conditions if (one["status"] == "True") != (one["type"] == "Ready")]
    return "; ".join(one.get("message") or one["type"] for one in bad)


def object_row(kind: str, document: Mapping[str, Any]) -> ObjectRow:
    metadata, state = document["metadata"], state_of(kind, document)
    return ObjectRow(kind, metadata.get("namespace", ""), metadata["name"], state.word, state.why)
