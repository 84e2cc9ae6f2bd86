"""Views of the PodGroups of gang schedulers: the fields that the operator sets."""

from __future__ import annotations

import msgspec

from manta.api.meta import ObjectMeta, View


class PodGroupSpec(View, frozen=True, kw_only=True):
    min_member: int = 0
    min_resources: dict[str, str | int | float] = msgspec.field(default_factory=dict)


class PodGroup(View, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
