"""The hours of the watched clusters as counters: they only grow, and each cluster has its own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from manta.api.meta import ObjectMeta, Uid
from manta.api.ray.cluster import RayCluster
from manta.controllers.idlesuspend.metrics import HoursCounter
from manta.rules.usage import UseState, changed
from manta.runtime.metrics import Registry

BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass
class Watch:
    at: datetime = BEGIN

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - BEGIN).total_seconds()


def a_cluster(uid: str = "u1", since: datetime = BEGIN) -> RayCluster:
    """One that is idle, with 4 CPUs and 1 GPU."""
    usage = changed(None, since, UseState.IDLE, 4, 1)
    notes = {"manta.ray.io/usage": usage.text}
    meta = ObjectMeta(name="demo", namespace="default", uid=Uid(uid), annotations=notes)
    return RayCluster(metadata=meta)


def idle_hours(registry: Registry) -> dict[str, float]:
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(registry.render())
        for sample in family.samples
        if sample.labels.get("state") == "idle"
    }


@pytest.mark.parametrize(("next_uid", "hours"), [("u1", 3), ("u2", 2)], ids=["same", "made again"])
def test_a_cluster_is_counted_on_and_one_of_its_name_that_is_made_again_begins_anew(
    next_uid: str, hours: int
) -> None:
    watch, registry = Watch(), Registry()
    counter = HoursCounter(registry, watch)
    counter.note(a_cluster())
    watch.at += timedelta(hours=1)
    counter.note(a_cluster(next_uid))
    watch.at += timedelta(hours=2)
    assert idle_hours(registry) == {
        "manta_cluster_cpu_hours_total": 4 * hours,
        "manta_cluster_gpu_hours_total": hours,
    }
