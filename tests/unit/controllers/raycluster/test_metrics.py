"""KubeRay's metrics of RayClusters, worked out from what is cached."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from manta.api.ray.cluster import RayCluster
from manta.api.times import format_time
from manta.controllers.raycluster.metrics import (
    infos,
    provisioned,
    provisioned_durations,
    register,
)
from manta.runtime.informer import Informer
from manta.runtime.metrics import Registry
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import EPOCH, Scenario, decode

WHO = ("demo", "default", "c1")


def a_cluster(is_provisioned: str = "", after: float = 0, **meta: Any) -> RayCluster:
    """One that says this of being provisioned, and since when; without it, one that is just born."""
    since = format_time(EPOCH + timedelta(seconds=after))
    said = {"type": "RayClusterProvisioned", "status": is_provisioned, "lastTransitionTime": since}
    return decode(
        {**ray_cluster(), "status": {"conditions": [said] if is_provisioned else []}}, **meta
    )


class Cached:
    """As much of an informer as a scrape asks for."""

    def __init__(self, *clusters: RayCluster) -> None:
        self.clusters = clusters

    def all(self) -> tuple[RayCluster, ...]:
        return self.clusters


def scraped(cached: Cached) -> list[str]:
    """The lines of the `kuberay_` families, without their help."""
    registry = Registry()
    register(registry, cast("Informer[RayCluster]", cached))
    lines = registry.render().splitlines()
    return [one for one in lines if "kuberay_" in one and not one.startswith("# HELP")]


@pytest.mark.parametrize(
    ("labels", "owner"),
    [
        ({}, "None"),
        ({"ray.io/originated-from-crd": "RayJob"}, "RayJob"),
        ({"ray.io/originated-from-crd": "RayService"}, "RayService"),
        ({"ray.io/originated-from-crd": "RayCluster"}, "None"),
        ({"ray.io/originated-from-crd": "something else"}, "None"),
    ],
)
def test_every_cluster_has_its_info_with_the_kind_that_made_it(
    labels: dict[str, str], owner: str
) -> None:
    assert list(infos((a_cluster(labels=labels),))) == [((*WHO, owner), 1.0)]


@pytest.mark.parametrize(
    ("said", "value"), [("", "false"), ("False", "false"), ("Unknown", "false"), ("True", "true")]
)
def test_a_cluster_is_provisioned_or_it_is_not_and_never_both(said: str, value: str) -> None:
    assert list(provisioned((a_cluster(said),))) == [((*WHO, value), 1.0)]


def test_the_duration_is_the_time_from_the_creation_until_it_was_provisioned() -> None:
    assert list(provisioned_durations((a_cluster("True", after=95),))) == [(WHO, 95.0)]


@pytest.mark.parametrize("said", ["", "False", "Unknown"])
def test_a_cluster_that_is_not_provisioned_has_no_duration_yet(said: str) -> None:
    assert list(provisioned_durations((a_cluster(said, after=95),))) == []


def test_from_the_old_status_to_the_new_one_the_duration_appears_and_stays() -> None:
    """The pair that KubeRay's reconciler compares: here each is what one scrape sees."""
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=2)])))
    scenario.reconcile()
    assert list(provisioned((scenario.cluster,))) == [((*WHO, "false"), 1.0)]
    assert list(provisioned_durations((scenario.cluster,))) == []
    scenario.now += timedelta(seconds=40)
    scenario.run_pods()
    scenario.reconcile()
    assert list(provisioned((scenario.cluster,))) == [((*WHO, "true"), 1.0)]
    assert list(provisioned_durations((scenario.cluster,))) == [(WHO, 40.0)]
    scenario.now += timedelta(hours=1)
    del scenario.workers()[0]["status"]
    scenario.settle()
    assert list(provisioned_durations((scenario.cluster,))) == [(WHO, 40.0)]


def test_a_scrape_tells_kuberays_names_labels_and_types() -> None:
    of_job = a_cluster(
        "True", after=7, name="b", uid="c2", labels={"ray.io/originated-from-crd": "RayJob"}
    )
    assert scraped(Cached(a_cluster(), of_job)) == [
        "# TYPE kuberay_cluster_provisioned_duration_seconds gauge",
        'kuberay_cluster_provisioned_duration_seconds{name="b",namespace="default",uid="c2"} 7.0',
        "# TYPE kuberay_cluster_info gauge",
        'kuberay_cluster_info{name="demo",namespace="default",owner_kind="None",uid="c1"} 1.0',
        'kuberay_cluster_info{name="b",namespace="default",owner_kind="RayJob",uid="c2"} 1.0',
        "# TYPE kuberay_cluster_condition_provisioned gauge",
        'kuberay_cluster_condition_provisioned{condition="false",name="demo",namespace="default",uid="c1"} 1.0',
        'kuberay_cluster_condition_provisioned{condition="true",name="b",namespace="default",uid="c2"} 1.0',
    ]


def test_a_deleted_cluster_leaves_no_series_behind() -> None:
    cached = Cached(a_cluster("True", after=7), a_cluster("True", after=9, name="b", uid="c2"))
    registry = Registry()
    register(registry, cast("Informer[RayCluster]", cached))
    assert registry.render().count('uid="c1"') == 3
    cached.clusters = cached.clusters[1:]
    assert 'uid="c1"' not in registry.render()
    assert registry.render().count('uid="c2"') == 3
    cached.clusters = ()
    assert "{" not in registry.render()


def test_an_object_of_the_same_name_is_another_one() -> None:
    """Told apart by its UID: a new cluster does not take over the duration of the old one."""
    cached = Cached(a_cluster("True", after=7))
    assert any("duration" in one and 'uid="c1"' in one for one in scraped(cached))
    cached.clusters = (a_cluster(uid="c9"),)
    lines = [one for one in scraped(cached) if "{" in one]
    assert len(lines) == 2
    assert all('uid="c9"' in one for one in lines)
