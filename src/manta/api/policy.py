"""Views of the policy group."""

from __future__ import annotations

from typing import Any

import msgspec

from manta.api.meta import Object, View


class PodDisruptionBudgetSpec(View, frozen=True, kw_only=True):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: dict[str, Any] = msgspec.field(default_factory=dict)


class PodDisruptionBudget(Object, frozen=True, kw_only=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
