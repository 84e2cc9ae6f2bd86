"""What is plotted over time: shared by visitors, and bounded."""

from __future__ import annotations

from datetime import timedelta

import pytest

from manta.console import samples
from manta.console.samples import ALL_SAMPLES, MAX_SAMPLES, MIN_SAMPLES, Samples, most_samples
from manta.console.sessions import Session
from manta.console.snapshot import Item
from manta.console.visitors import Visitors
from manta.runtime.clock import SystemClock
from support.console import NOW, ray
from support.plane import memory_plane
from support.raycrds import ray_crds


def cluster(ready: int, version: str, name: str = "demo") -> Item:
    return ray("RayCluster", name, {"readyWorkerReplicas": ready}, version=version)


def plotted(kept: Samples, name: str = "demo") -> list[float]:
    return [one.values[0] for one in kept.all().get(f"uid-RayCluster-{name}", ())]


def test_a_value_is_kept_when_it_changes() -> None:
    kept = Samples()
    for version, ready in enumerate((1, 1, 2, 1), 7):
        kept.add(cluster(ready, str(version)), NOW + timedelta(seconds=version))
    assert plotted(kept) == [1, 2, 1]
    kept.forget("uid-RayCluster-demo")
    assert plotted(kept) == []


def test_a_slower_watch_of_another_visitor_adds_nothing() -> None:
    kept = Samples()
    for version, ready in ((7, 1), (9, 2), (7, 1), (8, 3), (9, 2), (10, 4)):
        kept.add(cluster(ready, str(version)), NOW)
    assert plotted(kept) == [1, 2, 4]


def test_a_version_that_is_no_number_is_taken_as_it_comes() -> None:
    kept = Samples()
    for version, ready in (("a", 1), ("b", 2)):
        kept.add(cluster(ready, version), NOW)
    assert plotted(kept) == [1, 2]


def test_the_plots_of_a_thousand_clusters_are_shorter_than_those_of_ten() -> None:
    assert (most_samples(0), most_samples(10)) == (MAX_SAMPLES, MAX_SAMPLES)
    assert most_samples(1000) * 1000 <= ALL_SAMPLES
    assert most_samples(100_000) == MIN_SAMPLES


def test_there_is_a_limit_of_values_and_of_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "MAX_OBJECTS", 2)
    monkeypatch.setattr(samples, "ALL_SAMPLES", 80)
    kept = Samples()
    for name in ("a", "b", "c"):
        for version in range(1, 100):
            kept.add(cluster(version, str(version), name), NOW)
    assert plotted(kept, "a") == []
    assert plotted(kept, "c") == list(range(60, 100))


async def test_a_plot_does_not_begin_anew_with_a_renewed_token() -> None:
    async with memory_plane(crds=ray_crds()) as plane:
        visitors = Visitors(lambda _session: plane.client, SystemClock())
        try:
            first = await visitors.of(Session(1e12, "token"))
            second = await visitors.of(Session(1e12, "renewed"))
            assert first is not second
            first.watch._samples.add(cluster(1, "7"), NOW)
            assert second.watch.snapshot().samples
        finally:
            await visitors.close()
