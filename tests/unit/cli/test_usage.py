"""`manta usage`: sums by cluster, namespace, user and label, with prices."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from manta.api.meta import ObjectMeta
from manta.api.ray.cluster import RayCluster
from manta.api.usage import UsageError
from manta.cli.usage import document, report, run, why_nothing
from manta.rules.usage import Hours, Usage, UseState, changed, totals

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)


def a_cluster(
    name: str, namespace: str, idle_hours: int, **labels: str
) -> tuple[ObjectMeta, Usage]:
    usage = changed(None, NOW - timedelta(hours=idle_hours + 1), UseState.USED, 4, 1)
    usage = changed(usage, NOW - timedelta(hours=idle_hours), UseState.IDLE, 4, 1)
    return ObjectMeta(name=name, namespace=namespace, labels=labels), usage


CLUSTERS = (
    a_cluster("a", "dev", 2, team="x"),
    a_cluster("b", "dev", 10, team="y"),
    a_cluster("c", "prod", 1, team="x"),
)


def test_the_most_idle_come_first() -> None:
    found = totals(CLUSTERS, "cluster", NOW - timedelta(days=1), NOW)
    assert list(found) == ["dev/b", "dev/a", "prod/c"]
    assert found["dev/b"] == Hours(4, 40, 1, 10)


def test_hours_are_summed_by_namespace_and_label() -> None:
    by_namespace = totals(CLUSTERS, "namespace", NOW - timedelta(days=1), NOW)
    assert by_namespace["dev"] == Hours(8, 48, 2, 12)
    assert totals(CLUSTERS, "team", NOW - timedelta(days=1), NOW)["x"] == Hours(8, 12, 2, 3)


def test_prices_make_costs() -> None:
    rows = totals(CLUSTERS, "team", NOW - timedelta(days=1), NOW)
    text = report("team", rows, (0.5, 2.0))
    assert text.splitlines()[0].split()[-2:] == ["IDLE", "COST"]
    assert text.splitlines()[-1].startswith("all")
    assert document("x", rows["x"], (0.5, 2.0))["idleCost"] == 12.0
    assert "cost" not in document("x", rows["x"], (None, None))


def test_a_watched_cluster_that_never_answered_is_named() -> None:
    meta = {"name": "sleeper", "namespace": "dev"}
    idle = {"type": "Idle", "status": "Unknown", "reason": "DashboardUnreachable"}
    watched = {"metadata": meta, "spec": {}, "status": {"conditions": [idle]}}
    found = [msgspec.convert(one, RayCluster) for one in ({"metadata": meta, "spec": {}}, watched)]
    assert why_nothing(found) == (
        "No figures yet: the condition Idle of RayCluster dev/sleeper says why."
    )
    assert why_nothing(found[:1]).startswith("No RayCluster is watched for idleness")


@pytest.mark.parametrize("price", ["-1", "nan", "inf"])
def test_a_price_is_a_number_that_is_not_negative(price: str) -> None:
    args = argparse.Namespace(since="7d", price_cpu=None, price_gpu=float(price))
    with pytest.raises(UsageError, match=f"--price-gpu {price}: must be"):
        run(args)
