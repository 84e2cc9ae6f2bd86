"""A gang's PodGroup: there before the Pods, as large as the cluster, and only where it is wanted."""

from __future__ import annotations

from typing import Any

from manta.api.ray import names
from manta.api.resources import VOLCANO_POD_GROUPS
from manta.controllers.raycluster.events import Cause
from manta.kube.errors import ApiError
from manta.rules.settings import Settings
from manta.rules.validation.cluster import cluster_violations
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import Scenario, decode

VOLCANO = Settings(batch_scheduler="volcano")


def scenario(
    settings: Settings = VOLCANO, labels: dict[str, str] | None = None, **spec: Any
) -> Scenario:
    return Scenario(decode(ray_cluster(**spec), labels=labels or {}), settings)


def test_the_group_comes_before_the_pods() -> None:
    stages = [{one.cause for one in stage.actions} for stage in scenario().plan().stages]
    assert stages.index({Cause.POD_GROUP}) < stages.index({Cause.NO_HEAD})


def test_no_pod_starts_while_its_group_cannot_be_made() -> None:
    one = scenario()

    def denied(action: Any) -> Exception | None:
        return ApiError(403, "Forbidden", "no") if action.cause is Cause.POD_GROUP else None

    one.reconcile(denied)
    assert one.pods == {}
    one.settle()
    assert len(one.pods) == 2


def test_the_group_follows_the_size_of_the_cluster() -> None:
    one = scenario()
    one.settle()
    made = one.objects[VOLCANO_POD_GROUPS, "ray-demo-pg"]
    assert made["spec"]["minMember"] == 2
    one.set_spec(ray_cluster(groups=[group(replicas=4, maxReplicas=9)]))
    one.settle()
    assert one.objects[VOLCANO_POD_GROUPS, "ray-demo-pg"]["spec"]["minMember"] == 5
    assert one.plan().actions == ()


def test_every_pod_names_its_group() -> None:
    one = scenario(groups=[group("solo"), group("pair", numOfHosts=2)])
    one.settle()
    tasks = [pod["metadata"]["annotations"][names.ANNOTATION_VOLCANO_TASK] for pod in one.of("Pod")]
    assert sorted(tasks) == ["headgroup", "pair", "pair", "solo"]
    assert {pod["spec"]["schedulerName"] for pod in one.of("Pod")} == {"volcano"}


def test_a_suspended_cluster_asks_for_no_room() -> None:
    one = scenario(suspend=True)
    one.settle()
    assert one.of("PodGroup") == []


def test_without_a_gang_scheduler_nothing_is_marked() -> None:
    one = scenario(Settings())
    one.settle()
    assert one.of("PodGroup") == []
    assert all("schedulerName" not in pod["spec"] for pod in one.of("Pod"))


def test_a_tier_that_is_no_number_is_named() -> None:
    bad = decode(ray_cluster(), labels={names.LABEL_VOLCANO_TOPOLOGY_TIER: "top"})
    [violation] = cluster_violations(bad, VOLCANO)
    assert str(violation) == (
        'metadata.labels[volcano.sh/network-topology-highest-tier-allowed]: "top": '
        "must be a whole number, such as 2"
    )
    assert cluster_violations(bad, Settings()) == ()
