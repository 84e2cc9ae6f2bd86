"""Packs endpoints into slices. An endpoint keeps its slice, so that few slices change. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from manta.localplane.builtin.endpoints.addresses import Ports
from manta.localplane.builtin.views import Endpoint, EndpointSlice

LARGEST_SLICE = 100


@dataclass(slots=True)
class Packed:
    """The wanted content of one slice, existing or new."""

    slice: EndpointSlice | None
    ports: Ports
    endpoints: list[Endpoint] = field(default_factory=list)

    @property
    def is_changed(self) -> bool:
        if self.slice is None:
            return True
        same = tuple(self.slice.endpoints or ()) == tuple(self.endpoints)
        return not same or tuple(self.slice.ports or ()) != self.ports

    @property
    def free_slots(self) -> int:
        return LARGEST_SLICE - len(self.endpoints)


def pack(
    groups: Mapping[Ports, Mapping[str, Endpoint]], slices: Iterable[EndpointSlice]
) -> list[Packed]:
    """One entry per slice that should exist, kept or new; empty ones are left out.

    A Service without any endpoint keeps one empty slice, so that clients see it has none.
    """
    existing = sorted(slices, key=lambda one: one.metadata.name)
    packed = [Packed(one, tuple(one.ports or ())) for one in existing]
    for ports, wanted in groups.items():
        _fill(packed, ports, dict(wanted))
    filled = [one for one in packed if one.endpoints]
    if filled:
        return filled
    return [Packed(existing[0] if existing else None, ())]


def _fill(packed: list[Packed], ports: Ports, wanted: dict[str, Endpoint]) -> None:
    mine = [one for one in packed if one.ports == ports]
    for one in mine:
        for old in (one.slice and one.slice.endpoints) or ():
            uid = old.target_ref.uid if old.target_ref else ""
            if uid in wanted and one.free_slots:
                one.endpoints.append(wanted.pop(uid))
    for endpoint in wanted.values():
        target = next((one for one in mine if one.free_slots), None)
        if target is None:
            target = _spare(packed) or Packed(None, ports)
            target.ports = ports
            mine.append(target)
            if target not in packed:
                packed.append(target)
        target.endpoints.append(endpoint)


def _spare(packed: list[Packed]) -> Packed | None:
    """Reuse the empty slice of a Service that had no endpoints."""
    return next((one for one in packed if not one.ports and not one.endpoints), None)
