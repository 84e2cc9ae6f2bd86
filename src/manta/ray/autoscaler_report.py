"""What Ray's autoscaler waits for, read from the text of `ray status`. Pure.

Both versions of the autoscaler report their demands in this text; version 2 has no JSON report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from manta.ray.models import Unreachable

MAX_LINES: Final = 200
MAX_LINE_CHARACTERS: Final = 500
"""The rest of a longer line is dropped."""
_MAX_DIGITS: Final = 9
_FIELDS_BY_HEADING: Final = {
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
    """The response body of the dashboard's `/api/cluster_status?format=1`."""

    data: _Data = _Data()

    @property
    def text(self) -> str:
        return self.data.cluster_status or ""


@dataclass(frozen=True, slots=True)
class Demand:
    resources: str
    """As Ray writes them: `{'CPU': 1.0}`."""
    count: int
    kind: str
    """`pending tasks/actors` or `pending placement groups`."""


@dataclass(frozen=True, slots=True)
class AutoscalerReport:
    active: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    """Nodes that are requested or starting."""
    failures: tuple[str, ...] = ()
    usage: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    """The resources that the user requested with `ray.autoscaler.sdk.request_resources`."""
    demands: tuple[Demand, ...] = ()

    @property
    def waiting(self) -> int:
        """How many tasks, actors and placement groups wait for resources."""
        return sum(one.count for one in self.demands)


AutoscalerResult = AutoscalerReport | Unreachable


def read_report(text: str) -> AutoscalerResult:
    """The report in the text of `ray status`; Unreachable while the autoscaler has not reported yet."""
    fields: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines()[:MAX_LINES]:
        heading = line.strip().lower()
        name = _FIELDS_BY_HEADING.get(heading.rstrip(":")) if heading.endswith(":") else None
        if name is not None:
            current = fields.setdefault(name, [])
        elif line.startswith(" ") and not line.strip().startswith("(no"):
            current.append(line.strip()[:MAX_LINE_CHARACTERS])
    if "demands" not in fields:
        excerpt = " ".join(text.split())[:200]
        return Unreachable(f"the autoscaler has not reported yet: {excerpt or 'no text'}")
    found = {name: tuple(lines) for name, lines in fields.items() if name != "demands"}
    return AutoscalerReport(**found, demands=tuple(_demands(fields["demands"])))


def _demands(lines: list[str]) -> Iterator[Demand]:
    for line in lines:
        counted = _COUNT.search(line)
        if counted is not None:
            yield Demand(line[: counted.start()], int(counted[1][:_MAX_DIGITS]), counted[2])
