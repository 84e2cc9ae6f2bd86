"""A canary of real Ray Serve: no request fails, requests follow the Pods, and errors roll it back.

The short form. `make rollouts` is the long one.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from e2e.canaries import Canary, CanaryServed
from e2e.conftest import Machine
from e2e.serving import Life, Traffic

NOISE = 10
"""Percentage points that a few hundred requests may be off by chance."""


@pytest.mark.timeout(1500)
def test_requests_follow_the_pods_of_a_canary_and_errors_roll_it_back(
    machine: Machine, record_property: Callable[[str, object], None]
) -> None:
    served = CanaryServed()
    life, traffic = Life(machine, served), Traffic(machine, served)
    canary = Canary(machine, served, life, traffic)
    life.start()
    traffic.start()
    try:
        first = life.active()
        machine.apply(*served.manifests("1"))
        machine.until("half of the traffic", lambda: canary.reached(50), 600)
        pods = canary.pods()
        allowed = 100 * (pods.total() - pods[first]) / pods.total()
        share = canary.share("1", 400)
        record_property("allowed_percent", allowed)
        record_property("share_percent", round(share, 1))
        machine.manta("upgrade", "promote", served.name)
        machine.until("the new cluster alone", lambda: life.active() not in ("", first), 600)
        second = life.active()
        failed_before = traffic.so_far()["failed"]

        machine.apply(*served.manifests("2", failures=0.3))
        machine.until("the third cluster", lambda: len(life.clusters()) >= 2, 120)
        began = time.monotonic()
        machine.until(
            "the rollback",
            lambda: canary.condition("RollbackInProgress").get("reason") == "CanaryRejected",
            600,
        )
        record_property("rolled_back_after_s", round(time.monotonic() - began, 1))
        told = canary.condition("RollbackInProgress")["message"]
        machine.until("the old size", lambda: canary.pods() == {second: served.workers}, 300)
        machine.until("the end", lambda: canary.share("1", 100) == 100.0, 120)
        kept = life.active()
        seen = traffic.stop()
    finally:
        traffic.kill()
    life.end()
    assert abs(share - allowed) <= NOISE
    assert failed_before == 0, seen["pod"]["failures"]
    assert "% of the responses are errors (limit 2 %)" in told
    assert kept == second
