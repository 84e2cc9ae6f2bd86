"""Real Ray Serve behind a RayService: nobody who calls it notices an upgrade.

The short form. `make upgrades` is the long one: ten of each kind, and what can go wrong goes wrong.
"""

from __future__ import annotations

import pytest

from e2e.conftest import Machine
from e2e.serving import INCREMENTAL, NEW_CLUSTER, Life, Served, Traffic


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "strategy",
    [
        NEW_CLUSTER,
        pytest.param(INCREMENTAL, marks=pytest.mark.embedded_only(reason="no Gateway is there")),
    ],
)
def test_no_request_fails_while_a_service_is_upgraded(machine: Machine, strategy: str) -> None:
    served = Served(strategy)
    life, traffic = Life(machine, served), Traffic(machine, served)
    life.start()
    traffic.start()
    try:
        life.upgrade()
        reported = machine.manta("upgrade", served.name, "--watch", "--timeout", "60").stdout
        assert "the upgrade is complete" in reported
        machine.until("answers of the new cluster", lambda: "1" in traffic.editions(), 60)
        seen = traffic.stop()
    finally:
        traffic.kill()
    life.end()
    assert seen["pod"]["requests"] > 10
    assert {who: one["failures"] for who, one in seen.items()} == {who: [] for who in seen}
    assert all(one["requests"] > 10 for one in seen.values())
    assert life.most_clusters == 2
