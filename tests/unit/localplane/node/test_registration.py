from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from manta.localplane.node.machine import NodeOptions, node_names
from manta.localplane.node.registration import capacity, node_status


def test_one_node_has_the_name_and_several_are_counted(tmp_path: Path) -> None:
    assert node_names(NodeOptions(dir=tmp_path)) == ("manta",)
    assert node_names(NodeOptions(dir=tmp_path, nodes=2)) == ("manta-1", "manta-2")


def test_a_node_offers_what_was_asked_for(tmp_path: Path) -> None:
    offered = capacity(NodeOptions(dir=tmp_path, cpus=2.5, memory=1 << 30, pods=7))
    assert (offered["cpu"], offered["memory"], offered["pods"]) == ("2500m", "1048576Ki", "7")


def test_a_node_says_that_it_is_ready() -> None:
    status = node_status("n", {"cpu": "1"}, "10.88.0.1", datetime(2026, 1, 1, tzinfo=UTC))
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }
    assert status["addresses"][0] == {"type": "InternalIP", "address": "10.88.0.1"}
