"""Replicas of several hosts live and die as one (C92)."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest

from manta.api.core import Pod
from manta.api.meta import ObjectMeta
from manta.api.resources import PODS
from manta.api.times import format_time
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.facts import has_further_hosts
from manta.kube.errors import ApiError, Forbidden, Invalid
from manta.reconcile.actions import Action, Create, Delete
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import Scenario, decode, set_failed

NAME = "ray.io/worker-group-replica-name"
INDEX = "ray.io/worker-group-replica-index"
HOST = "ray.io/replica-host-index"


def settled(replicas: int = 2, hosts: int = 4, **spec: Any) -> Scenario:
    scenario = Scenario(
        decode(ray_cluster(groups=[group(replicas=replicas, numOfHosts=hosts)], **spec))
    )
    scenario.settle()
    return scenario


def replicas_of(scenario: Scenario) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for pod in scenario.workers():
        labels = pod["metadata"]["labels"]
        found.setdefault(labels[NAME], []).append((labels[INDEX], labels[HOST]))
    return found


def test_c92_every_replica_has_its_name_and_its_hosts_are_numbered() -> None:
    found = replicas_of(settled())
    assert sorted(found.values()) == [
        [("0", "0"), ("0", "1"), ("0", "2"), ("0", "3")],
        [("1", "0"), ("1", "1"), ("1", "2"), ("1", "3")],
    ]
    assert all(name.startswith("workers-") for name in found)


def test_c92_a_lost_host_takes_its_replica_along() -> None:
    scenario = settled()
    lost = scenario.workers()[0]
    labels = lost["metadata"]["labels"]
    del scenario.objects[PODS, lost["metadata"]["name"]]
    plan = scenario.reconcile()
    assert [one.cause for one in plan.actions] == [Cause.INCOMPLETE_REPLICA] * 3
    scenario.settle()
    created = [one for one in scenario.log if isinstance(one, Create) and one.resource == PODS]
    assert len(created) == 1 + 8 + 4
    assert labels[NAME] not in replicas_of(scenario)
    assert min(replicas_of(scenario).values())[0] == ("0", "0")


def test_c92_a_failed_host_takes_its_replica_along() -> None:
    scenario = settled()
    set_failed(scenario.workers()[0], scenario.now)
    assert [one.cause for one in scenario.plan().actions] == [Cause.UNHEALTHY_WORKER] * 4


def test_naming_one_host_deletes_its_whole_replica_once() -> None:
    scenario = settled(enableInTreeAutoscaling=True)
    chosen = scenario.workers()[5]["metadata"]["name"]
    named = group(replicas=1, numOfHosts=4, scaleStrategy={"workersToDelete": [chosen, "absent"]})
    scenario.set_spec(ray_cluster(groups=[named], enableInTreeAutoscaling=True))
    for _ in range(3):
        scenario.reconcile()
    deleted = [one.key.name for one in scenario.log if isinstance(one, Delete)]
    assert len(deleted) == 4
    assert chosen in deleted


def test_a_replica_that_is_named_keeps_its_place_until_it_is_gone() -> None:
    scenario = settled(enableInTreeAutoscaling=True)
    chosen = scenario.workers()[5]["metadata"]["name"]
    named = group(replicas=2, numOfHosts=4, scaleStrategy={"workersToDelete": [chosen]})
    scenario.set_spec(ray_cluster(groups=[named], enableInTreeAutoscaling=True))
    assert [one.cause for one in scenario.plan().actions] == [Cause.NAMED_FOR_DELETION] * 4


def test_scaling_down_removes_the_highest_replica_whole() -> None:
    scenario = settled(replicas=3, hosts=2)
    scenario.set_spec(ray_cluster(groups=[group(replicas=2, numOfHosts=2)]))
    scenario.settle()
    assert sorted(index for pods in replicas_of(scenario).values() for index, _ in pods) == [
        "0",
        "0",
        "1",
        "1",
    ]


def test_c04_a_replica_that_is_going_is_not_counted_as_surplus() -> None:
    scenario = settled(replicas=3, hosts=2)
    scenario.set_spec(ray_cluster(groups=[group(replicas=2, numOfHosts=2)]))
    for _ in range(4):
        scenario.reconcile()
    assert len([one for one in scenario.log if isinstance(one, Delete)]) == 2


def test_with_the_autoscaler_no_replica_is_chosen() -> None:
    scenario = settled(enableInTreeAutoscaling=True)
    small = ray_cluster(groups=[group(replicas=1, numOfHosts=4)], enableInTreeAutoscaling=True)
    scenario.set_spec(small)
    assert scenario.plan().actions == ()
    assert scenario.plan().notes


def test_a_replica_half_gone_waits_for_the_other_half() -> None:
    scenario = settled(replicas=1, hosts=2)
    first, second = scenario.workers()
    del scenario.objects[PODS, first["metadata"]["name"]]
    second["metadata"]["deletionTimestamp"] = format_time(scenario.now)
    assert scenario.plan().actions == ()
    scenario.remove_deleted()
    assert [one.cause for one in scenario.plan().actions] == [Cause.SCALE_UP] * 2


def test_c93_pods_without_labels_are_counted_and_nothing_is_made_twice() -> None:
    scenario = settled(replicas=1, hosts=2)
    for pod in scenario.workers():
        for label in (NAME, INDEX, HOST):
            del pod["metadata"]["labels"][label]
    assert scenario.plan().actions == ()


def test_c93_the_pods_of_a_multi_host_group_have_the_same_volumes_as_others() -> None:
    single = Scenario(decode(ray_cluster(groups=[group(replicas=1)])))
    single.settle()
    multi = settled(replicas=1, hosts=2)
    assert multi.workers()[0]["spec"]["volumes"] == single.workers()[0]["spec"]["volumes"]


@pytest.mark.parametrize(
    "refusal",
    [
        Forbidden(403, "Forbidden", "exceeded quota"),
        Invalid(422, "Invalid", "ValidatingAdmissionPolicy 'p' denied request: no"),
    ],
    ids=["quota", "policy"],
)
def test_c92_a_replica_that_is_refused_a_host_is_tried_ever_more_slowly(refusal: ApiError) -> None:
    """Three of four are allowed: what was made is not removed and made again without end."""
    scenario = Scenario(decode(ray_cluster(groups=[group(replicas=1, numOfHosts=4)])))

    def quota(action: Action) -> Exception | None:
        is_last = isinstance(action, Create) and len(scenario.workers()) == 3
        return refusal if is_last else None

    made: list[int] = []
    for second in range(700):
        scenario.remove_deleted()
        scenario.run_pods()
        before = len(scenario.log)
        scenario.reconcile(quota)
        creations = [one for one in scenario.log[before:] if isinstance(one, Create)]
        if second and any(one.resource == PODS for one in creations):
            made.append(second)
        scenario.now += timedelta(seconds=1)
    pauses = [later - sooner for sooner, later in pairwise(made)]
    assert pauses[1:] == sorted(pauses[1:])
    assert pauses[-1] >= 100
    assert scenario.plan().wait is not None


def test_a_pod_without_a_host_index_is_a_first_host() -> None:
    def pod(**labels: str) -> Pod:
        return Pod(metadata=ObjectMeta(name="p", labels=labels))

    assert not has_further_hosts([pod(), pod(**{HOST: "0"})])
    assert has_further_hosts([pod(), pod(**{HOST: "1"})])
