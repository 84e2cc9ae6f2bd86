"""The head Pod: exactly one, whatever was found."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from manta.api.ray.cluster import HeadInfo
from manta.api.resources import PODS
from manta.api.times import format_time
from manta.controllers.raycluster.events import Cause
from manta.reconcile.actions import Create, Delete, Patch
from manta.rules.settings import Settings
from support.raycluster import group, ray_cluster
from support.raycluster_scenario import HEAD, Scenario, decode, set_failed, set_running


def a_scenario(**spec: Any) -> Scenario:
    scenario = Scenario(decode(ray_cluster(**spec)))
    scenario.settle()
    return scenario


def second_head(scenario: Scenario, name: str = "intruder", **meta: Any) -> dict[str, object]:
    [head] = scenario.heads()
    twin = {**head, "metadata": {**head["metadata"], "name": name, "uid": name, **meta}}
    twin.pop("status", None)
    return scenario.put(PODS, twin)


def a_head_beside_a_submitter(workers: int = 0, **template: object) -> Scenario:
    labels = {"ray.io/job-submission-mode": "SidecarMode"}
    annotations = {"ray.io/disable-provisioned-head-restart": "true"}
    groups = [group(replicas=workers)] if workers else []
    manifest = ray_cluster(groups=groups, annotations=annotations, labels=labels)
    manifest["spec"]["headGroupSpec"]["template"]["spec"] |= template
    return Scenario(decode(manifest))


def test_a_new_cluster_gets_one_head_of_a_fixed_name() -> None:
    scenario = a_scenario(groups=[])
    assert [one["metadata"]["name"] for one in scenario.heads()] == [HEAD]


def test_c01_of_two_heads_the_ready_one_stays() -> None:
    scenario = a_scenario(groups=[])
    second_head(scenario)
    plan = scenario.plan()
    assert [(one.key.name, one.cause) for one in plan.actions] == [("intruder", Cause.SECOND_HEAD)]


def test_c01_of_two_ready_heads_the_elder_stays() -> None:
    scenario = a_scenario(groups=[])
    older = format_time(scenario.now - timedelta(hours=1))
    set_running(second_head(scenario, creationTimestamp=older))
    assert [one.key.name for one in scenario.plan().actions] == [HEAD]


def test_c01_a_head_of_ours_stays_before_one_that_nobody_owns() -> None:
    scenario = a_scenario(groups=[])
    older = format_time(scenario.now - timedelta(hours=1))
    set_running(second_head(scenario, creationTimestamp=older, ownerReferences=[]))
    assert [one.key.name for one in scenario.plan().actions] == ["intruder"]


def test_c01_workers_are_looked_after_while_a_second_head_goes() -> None:
    scenario = a_scenario(groups=[group(replicas=1)])
    second_head(scenario)
    scenario.set_spec(ray_cluster(groups=[group(replicas=2)]))
    assert [type(one) for one in scenario.plan().actions] == [Delete, Create]


def test_a_failed_head_is_deleted_and_made_again_when_it_is_gone() -> None:
    scenario = a_scenario(groups=[])
    set_failed(scenario.heads()[0], scenario.now)
    assert [one.cause for one in scenario.reconcile().actions] == [Cause.UNHEALTHY_HEAD]
    assert scenario.reconcile().actions == ()  # it is still going away
    scenario.remove_deleted()
    assert [one.cause for one in scenario.reconcile().actions] == [Cause.NO_HEAD]


@pytest.mark.parametrize(("policy", "causes"), [("Never", [Cause.UNHEALTHY_HEAD]), ("Always", [])])
def test_c82_an_exited_ray_container_follows_the_restart_policy(
    policy: str, causes: list[Cause]
) -> None:
    scenario = a_scenario(groups=[])
    [head] = scenario.heads()
    head["spec"]["restartPolicy"] = policy
    ended = {"terminated": {"exitCode": 1, "finishedAt": format_time(scenario.now)}}
    head["status"]["containerStatuses"] = [{"name": "ray", "state": ended}]
    assert [one.cause for one in scenario.plan().actions] == causes


def test_a_sidecar_that_exited_does_not_condemn_the_head() -> None:
    scenario = a_scenario(groups=[])
    [head] = scenario.heads()
    head["spec"]["restartPolicy"] = "Never"
    ended = {"terminated": {"exitCode": 1}}
    head["status"]["containerStatuses"].append({"name": "side", "state": ended})
    assert scenario.plan().actions == ()


def test_a_provisioned_head_is_not_restarted_in_this_mode() -> None:
    annotations = {"ray.io/disable-provisioned-head-restart": "true"}
    scenario = a_scenario(groups=[group(replicas=1)], annotations=annotations)
    del scenario.objects[PODS, HEAD]
    plan = scenario.plan()
    assert plan.actions == ()
    assert plan.wait is not None


@pytest.mark.parametrize(
    ("labels", "restarted"),
    [({"ray.io/job-submission-mode": "SidecarMode"}, False), ({}, True)],
)
def test_a_head_that_would_submit_a_job_again_has_no_successor_however_far_it_had_come(
    labels: dict[str, str], restarted: bool
) -> None:
    """Without a submitter beside it, one that was never provisioned is replaced, as KubeRay does."""
    annotations = {"ray.io/disable-provisioned-head-restart": "true"}
    scenario = Scenario(decode(ray_cluster(groups=[], annotations=annotations, labels=labels)))
    head = HeadInfo(pod_name=HEAD)
    status = msgspec.structs.replace(scenario.cluster.status, head=head)
    scenario.cluster = msgspec.structs.replace(scenario.cluster, status=status)
    made = [one.cause for one in scenario.plan().actions if one.cause is Cause.NO_HEAD]
    assert bool(made) is restarted


@pytest.mark.parametrize("began", [True, False])
def test_a_head_that_its_node_refused_has_submitted_nothing_and_is_replaced(began: bool) -> None:
    scenario = a_head_beside_a_submitter()
    for _ in ("made", "noted", "let go"):
        scenario.reconcile()
    assert scenario.cluster.status.head.pod_name == HEAD
    [head] = scenario.heads()
    set_failed(head, scenario.now)
    if not began:
        del head["status"]["containerStatuses"]
    for _ in range(4):
        scenario.now += timedelta(minutes=5)
        named = scenario.cluster.status.head.pod_name
        scenario.reconcile()
        if not began and scenario.heads() != [head]:
            # Else a RayJob that looks between the two takes its head for lost.
            assert not named
        scenario.remove_deleted()
    assert [one["metadata"]["uid"] != head["metadata"]["uid"] for one in scenario.heads()] == (
        [] if began else [True]
    )


@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("keeps_address", [True, False])
def test_a_head_that_ran_and_shows_no_containers_has_no_successor(
    seen: bool, keeps_address: bool
) -> None:
    """A kubelet that was restarted rejects a Pod that runs, and an old one evicts it: the statuses are gone."""
    scenario = a_head_beside_a_submitter(workers=1)
    for _ in ("made", "noted", "let go"):
        scenario.reconcile()
    [head] = scenario.heads()
    head["status"] = {"phase": "Running", "podIP": "10.0.0.1"}
    if seen:
        scenario.reconcile()
        assert scenario.cluster.status.head.pod_ip == "10.0.0.1"
    head["status"] = {"phase": "Failed"} | ({"podIP": "10.0.0.1"} if keeps_address else {})
    for _ in range(4):
        scenario.now += timedelta(minutes=5)
        scenario.reconcile()
        scenario.remove_deleted()
    successors = [one for one in scenario.heads() if one is not head]
    assert bool(successors) is (not seen and not keeps_address)


def test_a_head_that_submits_finds_no_node_before_the_status_names_it() -> None:
    others = [{"name": "kueue.x-k8s.io/admission"}]
    scenario = a_head_beside_a_submitter(schedulingGates=others)
    scenario.reconcile()
    [head] = scenario.heads()
    ours = {"name": "manta.ray.io/head-noted"}
    assert head["spec"]["schedulingGates"] == [*others, ours]
    unnoted = scenario.plan()
    assert (unnoted.actions, unnoted.wait is not None) == ((), True)
    scenario.reconcile()
    assert scenario.cluster.status.head.pod_name == head["metadata"]["name"]
    [opened] = scenario.reconcile().actions
    assert isinstance(opened, Patch)
    assert (opened.cause, opened.uid) == (Cause.HEAD_NOTED, head["metadata"]["uid"])
    assert scenario.heads()[0]["spec"]["schedulingGates"] == others
    assert scenario.plan().actions == ()


def test_workers_are_created_after_the_gate_of_their_head_is_opened() -> None:
    """A worker that is scheduled first could take the head's place on a full node (E)."""
    scenario = a_head_beside_a_submitter(workers=1)
    for _ in ("made", "noted", "let go"):
        assert scenario.workers() == []
        scenario.reconcile()
    assert scenario.workers() == []
    scenario.reconcile()
    assert len(scenario.workers()) == 1


def test_a_head_that_was_lost_behind_its_gate_before_it_was_noted_is_made_again() -> None:
    scenario = a_head_beside_a_submitter()
    scenario.reconcile(report=False)
    [head] = scenario.heads()
    del scenario.objects[PODS, head["metadata"]["name"]]
    assert Cause.NO_HEAD in [one.cause for one in scenario.plan().actions]


def test_a_head_with_a_node_of_the_users_choice_has_no_gate() -> None:
    """The API server refuses a Pod with both."""
    scenario = a_head_beside_a_submitter(nodeName="n1")
    scenario.reconcile()
    assert "schedulingGates" not in scenario.heads()[0]["spec"]


def test_a_gate_is_opened_when_its_head_submits_nothing_any_more() -> None:
    scenario = a_head_beside_a_submitter()
    scenario.reconcile()
    meta = msgspec.structs.replace(scenario.cluster.metadata, labels={})
    scenario.cluster = msgspec.structs.replace(scenario.cluster, metadata=meta)
    assert [one.cause for one in scenario.plan().actions] == [Cause.HEAD_NOTED]


def test_of_two_heads_one_that_may_have_run_stays_before_one_behind_a_gate() -> None:
    scenario = a_head_beside_a_submitter()
    for _ in ("made", "noted", "let go"):
        scenario.reconcile()
    gate = {"schedulingGates": [{"name": "manta.ray.io/head-noted"}]}
    [head] = scenario.heads()
    twin = second_head(scenario, "a-twin", creationTimestamp="2020-01-01T00:00:00Z")
    twin["spec"] = {**head["spec"], **gate}
    [gone] = scenario.plan().actions
    assert isinstance(gone, Delete)
    assert gone.key.name == "a-twin"


def test_a_scheduler_that_may_not_know_gates_meets_none() -> None:
    scenario = a_head_beside_a_submitter()
    scenario.settings = replace(scenario.settings, batch_scheduler="yunikorn")
    scenario.reconcile()
    assert "schedulingGates" not in scenario.heads()[0]["spec"]


def test_only_a_head_that_submits_has_a_gate() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[])))
    scenario.reconcile()
    assert "schedulingGates" not in scenario.heads()[0]["spec"]


def test_c75_the_head_of_an_earlier_object_of_this_name_is_waited_for() -> None:
    scenario = Scenario(decode(ray_cluster(groups=[])))
    scenario.settle()
    scenario.cluster = decode(ray_cluster(groups=[]), uid="c2")
    scenario.objects = {key: one for key, one in scenario.objects.items() if key[0] == PODS}
    plan = scenario.plan()
    assert [one.cause for one in plan.actions] == [Cause.HEAD_SERVICE]
    assert plan.wait is not None
    assert HEAD in plan.wait.why


@pytest.mark.parametrize("fixed_name", [True, False])
def test_no_second_head_beside_one_that_may_live_on_a_lost_node(fixed_name: bool) -> None:
    settings = Settings(deterministic_head_pod_name=fixed_name)
    scenario = Scenario(decode(ray_cluster(groups=[])), settings)
    scenario.settle()
    [head] = scenario.heads()
    head["metadata"]["deletionTimestamp"] = format_time(scenario.now)
    scenario.now += timedelta(hours=1)
    assert scenario.plan().actions == ()
    scenario.remove_deleted()
    assert [one.cause for one in scenario.plan().actions] == [Cause.NO_HEAD]
