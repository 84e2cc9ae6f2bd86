from __future__ import annotations

from pathlib import Path

from manta.localplane.node.host.pressure import MIB, FreeResources, measure, pressures

PLACE = Path("/plane")


def test_a_machine_with_room_has_no_pressure() -> None:
    assert pressures(FreeResources(memory=1000 * MIB, disk=1000 * MIB), PLACE) == {}
    assert pressures(FreeResources(memory=None, disk=None), PLACE) == {}


def test_what_is_scarce_is_named_with_how_much_is_left() -> None:
    found = pressures(FreeResources(memory=10 * MIB, disk=20 * MIB), PLACE)
    assert "10 MiB of memory" in found["MemoryPressure"][1]
    assert "20 MiB are free below /plane" in found["DiskPressure"][1]


def test_this_machine_can_be_looked_at(tmp_path: Path) -> None:
    assert (measure(tmp_path).disk or 0) > 0
