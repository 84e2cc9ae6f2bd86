"""ControllerRevisions: the templates that a workload has had, numbered."""

from __future__ import annotations

from typing import Any

from msgspec import field

from manta.api.meta import Object


class ControllerRevision(Object, frozen=True, kw_only=True):
    """One template that a workload had; the highest `revision` is the newest."""

    revision: int = 0
    data: dict[str, Any] = field(default_factory=dict)
