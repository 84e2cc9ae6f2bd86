"""The name of a head follows from its cluster and from the head that it replaces (ADR 9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.api.names import dns1123_label_errors
from manta.api.ray.cluster import HeadInfo, RayCluster
from manta.api.resources import PODS
from manta.api.times import format_time
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.plan import plan
from manta.manifests.head_pod import head_pod_name
from manta.reconcile.actions import Create
from manta.rules.settings import FeatureGates, Settings
from support.raycluster import ray_cluster
from support.raycluster_scenario import Scenario, decode, set_failed

RECREATE: dict[str, Any] = {"upgradeStrategy": {"type": "Recreate"}}
FIXED = Settings(deterministic_head_pod_name=True)


def settled(**spec: Any) -> Scenario:
    scenario = Scenario(decode(ray_cluster(groups=[], **spec)))
    scenario.settle()
    return scenario


def head(scenario: Scenario) -> str:
    [one] = scenario.heads()
    name: str = one["metadata"]["name"]
    return name


def after(cluster: RayCluster, predecessor: str) -> RayCluster:
    status = msgspec.structs.replace(cluster.status, head=HeadInfo(pod_name=predecessor))
    return msgspec.structs.replace(cluster, status=status)


def test_recreate_gives_the_head_another_name() -> None:
    """E3."""
    scenario = settled(**RECREATE)
    before = head(scenario)
    scenario.set_spec(ray_cluster(groups=[], rayVersion="2.61.0", **RECREATE))
    scenario.settle()
    assert head(scenario) != before
    assert head(scenario).startswith("demo-head-")


@pytest.mark.parametrize("how", ["deleted", "failed"])
def test_a_head_that_was_lost_is_replaced_under_another_name(how: str) -> None:
    """E3."""
    scenario = settled()
    names = [head(scenario)]
    for _ in range(3):
        if how == "deleted":
            del scenario.objects[PODS, head(scenario)]
        else:
            set_failed(scenario.heads()[0], scenario.now)
        scenario.settle()
        names.append(head(scenario))
    assert len(set(names)) == 4


@pytest.mark.parametrize("settings", [Settings(), FIXED])
def test_clusters_whose_names_differ_only_behind_the_cut_have_different_heads(
    settings: Settings,
) -> None:
    """R3."""
    one, other = (
        decode(ray_cluster(name="c" * 50 + end), uid=f"uid-{end}") for end in ("-a", "-b")
    )
    assert head_pod_name(one, settings) != head_pod_name(other, settings)


def test_the_fixed_name_is_kuberays() -> None:
    assert head_pod_name(decode(ray_cluster()), FIXED) == "demo-head"


def test_every_operator_computes_the_same_name() -> None:
    """Nothing but the object counts: neither chance, nor time, nor memory."""
    scenario = settled()
    del scenario.objects[PODS, head(scenario)]
    scenario.reconcile(report=False)
    del scenario.objects[PODS, head(scenario)]  # its creation is not known to the next operator
    snapshot = scenario.snapshot()
    plans = (plan(replace(snapshot, seed=seed)).plan for seed in (1, 2, 3))
    names = {one.key.name for chosen in plans for one in chosen.actions if isinstance(one, Create)}
    assert len(names) == 1


@given(
    name=st.from_regex(r"[a-z]([-a-z0-9]{0,51}[a-z0-9])?", fullmatch=True),
    uid=st.uuids(),
    count=st.integers(1, 20),
)
def test_names_fit_and_no_head_has_the_name_of_the_one_before_it(
    name: str, uid: object, count: int
) -> None:
    cluster = decode(ray_cluster(name=name), uid=str(uid))
    known = [""]
    for _ in range(count):
        known.append(head_pod_name(after(cluster, known[-1]), Settings()))
        assert known[-1] != known[-2]
        assert len(known[-1]) <= 63
        assert name[:50].endswith("-") or not dns1123_label_errors(known[-1])


@pytest.mark.parametrize("name", ["demo-head", "demo-head-x7x2k", "anything"])
def test_a_running_head_is_never_replaced_for_its_name(name: str) -> None:
    scenario = settled(**RECREATE)
    pod = scenario.objects.pop((PODS, head(scenario)))
    pod["metadata"]["name"] = name
    scenario.objects[PODS, name] = pod
    scenario.settle()
    assert head(scenario) == name
    assert scenario.cluster.status.head.pod_name == name


def test_the_status_names_the_last_head_until_the_next_one_is_there() -> None:
    """The name of the next one follows from it, whichever operator makes it."""
    scenario = settled()
    before = head(scenario)
    del scenario.objects[PODS, before]
    refused = [one.cause for one in scenario.reconcile(_refuse).actions]
    assert Cause.NO_HEAD in refused
    assert scenario.cluster.status.head == HeadInfo(
        pod_name=before, service_name=scenario.cluster.status.head.service_name
    )


def _refuse(action: object) -> Exception | None:
    return OSError("no") if isinstance(action, Create) else None


def test_a_suspended_cluster_names_no_head() -> None:
    scenario = settled()
    scenario.set_spec(ray_cluster(groups=[], suspend=True))
    scenario.settle()
    assert scenario.cluster.status.head.pod_name == ""
    scenario.set_spec(ray_cluster(groups=[], suspend=False))
    scenario.settle()
    assert scenario.cluster.status.head.pod_name == head(scenario)


@pytest.mark.parametrize("conditions", [True, False])
def test_a_head_after_a_suspension_has_another_name_than_all_before_it(conditions: bool) -> None:
    """E3."""
    settings = Settings(gates=FeatureGates(ray_cluster_status_conditions=conditions))
    scenario = Scenario(decode(ray_cluster(groups=[])), settings)
    scenario.settle()
    known = [head(scenario)]
    for _ in range(3):
        for suspend in (True, False):
            scenario.set_spec(ray_cluster(groups=[], suspend=suspend))
            scenario.settle()
        known.append(head(scenario))
    assert len(set(known)) == 4


def test_an_edit_between_two_attempts_does_not_change_the_name_of_a_resumed_head() -> None:
    """The first attempt may arrive late: then the API server refuses the second head."""
    scenario = settled()
    for suspend in (True, False):
        scenario.set_spec(ray_cluster(groups=[], suspend=suspend))
        scenario.settle()
    before = scenario.cluster
    del scenario.objects[PODS, head(scenario)]
    scenario.reconcile(_refuse)
    scenario.set_spec(ray_cluster(groups=[], rayVersion="2.61.0"))
    scenario.settle()
    assert head_pod_name(before, Settings()) == head(scenario)


@pytest.mark.parametrize("seen", ["leaving", "never"])
def test_a_head_that_is_lost_before_the_status_names_it_is_named_before_the_next_one(
    seen: str,
) -> None:
    """E3. The status of a starting cluster is held back for ten seconds."""
    scenario = Scenario(decode(ray_cluster(groups=[])))
    scenario.reconcile()
    scenario.reconcile()
    first = head(scenario)
    assert scenario.cluster.status.head.pod_name == ""
    if seen == "leaving":
        scenario.heads()[0]["metadata"]["deletionTimestamp"] = format_time(scenario.now)
        scenario.reconcile()
        assert scenario.cluster.status.head.pod_name == first
    del scenario.objects[PODS, first]
    scenario.settle()
    assert head(scenario) != first


def test_a_definition_without_the_name_of_the_head_does_not_stop_the_next_head() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[])))
    scenario.reconcile()
    scenario.reconcile()
    del scenario.objects[PODS, head(scenario)]
    scenario.reconcile()
    scenario.cluster = after(scenario.cluster, "")  # pruned
    scenario.reconcile()
    assert len(scenario.heads()) == 1
