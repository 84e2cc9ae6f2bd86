"""No plan grows with a number that a user typed (X6)."""

from __future__ import annotations

from typing import Any

import pytest

from manta.reconcile.actions import Create
from manta.reconcile.plan import MAX_CREATIONS
from manta.rules.settings import FeatureGates, Settings
from manta.rules.validation.cluster import cluster_violations
from manta.rules.validation.cluster_groups import MAX_HOSTS, MAX_WORKERS
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import Scenario, decode

HUGE = 2**31 - 1
GATES = [
    Settings(gates=FeatureGates(ray_multi_host_indexing=multi_host)) for multi_host in (False, True)
]


def creations(plan: Any) -> list[Create]:
    return [one for one in plan.actions if isinstance(one, Create)]


@pytest.mark.parametrize("settings", GATES)
@pytest.mark.parametrize(
    "fields",
    [
        {"replicas": 100_000, "maxReplicas": HUGE},
        {"replicas": 0, "minReplicas": 100_000, "maxReplicas": HUGE},
        {"replicas": 50_000, "maxReplicas": HUGE, "numOfHosts": 2},
        {"replicas": HUGE, "maxReplicas": 100_000},
    ],
)
def test_a_plan_creates_some_hundred_pods_and_leaves_the_rest(
    settings: Settings, fields: dict[str, Any]
) -> None:
    plan = Scenario(decode(ray_cluster(groups=[group(**fields)])), settings=settings).plan()
    assert 100 < len(creations(plan)) <= MAX_CREATIONS + 50
    assert "more" in plan.unfinished


@pytest.mark.parametrize("settings", GATES)
def test_every_group_gets_a_share_of_a_bounded_plan(settings: Settings) -> None:
    groups = [group(f"g{number}", 10_000, maxReplicas=HUGE) for number in range(4)]
    plan = Scenario(decode(ray_cluster(groups=groups)), settings=settings).plan()
    names = [one.manifest["metadata"]["labels"].get("ray.io/group") for one in creations(plan)]
    assert {f"g{number}" for number in range(4)} <= set(names)
    assert len(names) <= MAX_CREATIONS + 50


def test_a_group_after_replicas_that_exceed_the_bound_waits_for_the_next_plan() -> None:
    """Replicas are created whole, so that two groups may take more than the whole plan has. What was
    left then was negative, and the third group counted down from it for ever."""
    groups = [
        group("large", 1, numOfHosts=300),
        group("larger", 1, numOfHosts=300),
        group("small", 1, numOfHosts=2),
    ]
    settings = Settings(gates=FeatureGates(ray_multi_host_indexing=True))
    plan = Scenario(decode(ray_cluster(groups=groups)), settings=settings).plan()
    names = [one.manifest["metadata"]["labels"].get("ray.io/group") for one in creations(plan)]
    assert set(names) >= {"large", "larger"}
    assert "small" not in names
    assert "small" in plan.unfinished


@pytest.mark.parametrize("replicas", [300, MAX_CREATIONS])
def test_a_plan_that_fits_is_finished(replicas: int) -> None:
    groups = [group(replicas=replicas, maxReplicas=replicas)]
    plan = Scenario(decode(ray_cluster(groups=groups))).plan()
    assert len(creations(plan)) > replicas
    assert plan.unfinished == ""


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"replicas": HUGE, "maxReplicas": HUGE}, "spec.workerGroupSpecs[0].replicas"),
        ({"minReplicas": HUGE, "maxReplicas": HUGE}, "spec.workerGroupSpecs[0].replicas"),
        ({"numOfHosts": HUGE}, "spec.workerGroupSpecs[0].numOfHosts"),
    ],
)
def test_a_number_that_nothing_can_serve_is_refused_with_the_limit(
    fields: dict[str, Any], field: str
) -> None:
    cluster = decode(ray_cluster(groups=[group(**{"replicas": 1, **fields})]))
    found = {one.field: str(one) for one in cluster_violations(cluster, Settings())}
    assert field in found
    assert str(MAX_HOSTS if "Hosts" in field else MAX_WORKERS) in found[field]


def test_the_largest_maximum_is_no_error() -> None:
    """`maxReplicas` is 2147483647 by default: it only bounds the autoscaler."""
    cluster = decode(ray_cluster(groups=[group(replicas=1, maxReplicas=HUGE)]))
    assert cluster_violations(cluster, Settings()) == ()
