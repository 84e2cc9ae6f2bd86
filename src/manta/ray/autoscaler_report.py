"""What Ray's autoscaler waits for, read from the text of `ray status`. Pure.

Only this text has the demands of both versions of the autoscaler: version 2 writes no JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from manta.ray.models import Unreachable

MAX_LINES: Final = 200
MAX_LENGTH: Final = 500
"""Characters of a line that are kept."""
_PARTS: Final = {
    "active": "active",
    "healthy": "active",
    "idle": "idle",
    "pending": "pending",
    "recent failures": "failures",
    "total usage": "usage",
    "usage": "usage",
    "from request_resources": "constraints",
    "total constraints": "constraints",
    "constraints": "constraints",
    "pending demands": "demands",
    "total demands": "demands",
    "demands": "demands",
}
_COUNT: Final = re.compile(r":\s*(\d+)\+?\s+((?:pending|from)\b.*)$")


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    cluster_status: str | None = None


class ClusterStatus(msgspec.Struct, frozen=True):
    """Answer of `/api/cluster_status?format=1`."""

    data: _Data = _Data()

    @property
    def text(self) -> str:
        return self.data.cluster_status or ""


@dataclass(frozen=True, slots=True)
class Demand:
    what: str
    """The resources, as Ray writes them: `{'CPU': 1.0}`."""
    count: int
    of: str
    """`pending tasks/actors`, `pending placement groups`."""


@dataclass(frozen=True, slots=True)
class AutoscalerReport:
    active: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    """Nodes that are on their way."""
    failures: tuple[str, ...] = ()
    usage: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    """The resources that `request_resources` requests."""
    demands: tuple[Demand, ...] = ()

    @property
    def waiting(self) -> int:
        """How many tasks, actors and placement groups wait for resources."""
        return sum(one.count for one in self.demands)


AutoscalerResult = AutoscalerReport | Unreachable


def read_report(text: str) -> AutoscalerResult:
    """Unreachable if this is no report: the autoscaler has not reported yet."""
    parts: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines()[:MAX_LINES]:
        name = _PARTS.get(line.strip().rstrip(":").lower()) if line.rstrip().endswith(":") else None
        if name is not None:
            current = parts.setdefault(name, [])
        elif line.startswith(" ") and not line.strip().startswith("(no"):
            current.append(line.strip()[:MAX_LENGTH])
    if "demands" not in parts:
        said = " ".join(text.split())[:200]
        return Unreachable(f"the autoscaler has not reported yet: {said or 'no text'}")
    found = {name: tuple(lines) for name, lines in parts.items() if name != "demands"}
    return AutoscalerReport(**found, demands=tuple(_demands(parts["demands"])))


def _demands(lines: list[str]) -> Iterator[Demand]:
    for line in lines:
        counted = _COUNT.search(line)
        if counted is not None:
            yield Demand(line[: counted.start()], int(counted[1][:9]), counted[2])
