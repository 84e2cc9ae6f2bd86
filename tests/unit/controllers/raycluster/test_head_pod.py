"""The head Pod: exactly one, whatever was found."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from manta.api.ray.cluster import HeadInfo
from manta.api.resources import PODS
from manta.api.times import format_time
from manta.controllers.raycluster.events import Cause
from manta.reconcile.actions import Create, Delete, Patch
from manta.rules.settings import Settings
from support.raycluster import group, ray_cluster
from support.raycluster_world import HEAD, World, decode, set_failed, set_running


def a_world(**spec: object) -> World:
    world = World(decode(ray_cluster(**spec)))
    world.settle()
    return world


def second_head(world: World, name: str = "intruder", **meta: object) -> dict[str, object]:
    [head] = world.heads()
    twin = {**head, "metadata": {**head["metadata"], "name": name, "uid": name, **meta}}
    twin.pop("status", None)
    return world.put(PODS, twin)


def a_head_beside_a_submitter(**template: object) -> World:
    labels = {"ray.io/job-submission-mode": "SidecarMode"}
    annotations = {"ray.io/disable-provisioned-head-restart": "true"}
    manifest = ray_cluster(groups=[], annotations=annotations, labels=labels)
    manifest["spec"]["headGroupSpec"]["template"]["spec"] |= template
    return World(decode(manifest))


def test_a_new_cluster_gets_one_head_of_a_fixed_name() -> None:
    world = a_world(groups=[])
    assert [one["metadata"]["name"] for one in world.heads()] == [HEAD]


def test_c01_of_two_heads_the_ready_one_stays() -> None:
    world = a_world(groups=[])
    second_head(world)
    plan = world.plan()
    assert [(one.key.name, one.cause) for one in plan.actions] == [("intruder", Cause.SECOND_HEAD)]


def test_c01_of_two_ready_heads_the_elder_stays() -> None:
    world = a_world(groups=[])
    older = format_time(world.now - timedelta(hours=1))
    set_running(second_head(world, creationTimestamp=older))
    assert [one.key.name for one in world.plan().actions] == [HEAD]


def test_c01_a_head_of_ours_stays_before_one_that_nobody_owns() -> None:
    world = a_world(groups=[])
    older = format_time(world.now - timedelta(hours=1))
    set_running(second_head(world, creationTimestamp=older, ownerReferences=[]))
    assert [one.key.name for one in world.plan().actions] == ["intruder"]


def test_c01_workers_are_looked_after_while_a_second_head_goes() -> None:
    world = a_world(groups=[group(replicas=1)])
    second_head(world)
    world.set_spec(ray_cluster(groups=[group(replicas=2)]))
    assert [type(one) for one in world.plan().actions] == [Delete, Create]


def test_a_failed_head_is_deleted_and_made_anew_when_it_is_gone() -> None:
    world = a_world(groups=[])
    set_failed(world.heads()[0], world.now)
    assert [one.cause for one in world.round().actions] == [Cause.UNHEALTHY_HEAD]
    assert world.round().actions == ()  # it is still going away
    world.bury()
    assert [one.cause for one in world.round().actions] == [Cause.NO_HEAD]


@pytest.mark.parametrize(("policy", "causes"), [("Never", [Cause.UNHEALTHY_HEAD]), ("Always", [])])
def test_c82_an_exited_ray_container_follows_the_restart_policy(
    policy: str, causes: list[Cause]
) -> None:
    world = a_world(groups=[])
    [head] = world.heads()
    head["spec"]["restartPolicy"] = policy
    ended = {"terminated": {"exitCode": 1, "finishedAt": format_time(world.now)}}
    head["status"]["containerStatuses"] = [{"name": "ray", "state": ended}]
    assert [one.cause for one in world.plan().actions] == causes


def test_a_sidecar_that_exited_does_not_condemn_the_head() -> None:
    world = a_world(groups=[])
    [head] = world.heads()
    head["spec"]["restartPolicy"] = "Never"
    ended = {"terminated": {"exitCode": 1}}
    head["status"]["containerStatuses"].append({"name": "side", "state": ended})
    assert world.plan().actions == ()


def test_a_provisioned_head_is_not_restarted_when_told_so() -> None:
    annotations = {"ray.io/disable-provisioned-head-restart": "true"}
    world = a_world(groups=[group(replicas=1)], annotations=annotations)
    del world.objects[PODS, HEAD]
    plan = world.plan()
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
    world = World(decode(ray_cluster(groups=[], annotations=annotations, labels=labels)))
    head = HeadInfo(pod_name=HEAD)
    status = msgspec.structs.replace(world.cluster.status, head=head)
    world.cluster = msgspec.structs.replace(world.cluster, status=status)
    made = [one.cause for one in world.plan().actions if one.cause is Cause.NO_HEAD]
    assert bool(made) is restarted


@pytest.mark.parametrize("began", [True, False])
def test_a_head_that_its_node_refused_has_submitted_nothing_and_is_replaced(began: bool) -> None:
    world = a_head_beside_a_submitter()
    for _ in ("made", "noted", "let go"):
        world.round()
    assert world.cluster.status.head.pod_name == HEAD
    [head] = world.heads()
    set_failed(head, world.now)
    if not began:
        del head["status"]["containerStatuses"]
    for _ in range(4):
        world.now += timedelta(minutes=5)
        named = world.cluster.status.head.pod_name
        world.round()
        if not began and world.heads() != [head]:
            # Else a RayJob that looks between the two takes its head for lost.
            assert not named
        world.bury()
    assert [one["metadata"]["uid"] != head["metadata"]["uid"] for one in world.heads()] == (
        [] if began else [True]
    )


def test_a_head_that_submits_finds_no_node_before_the_status_names_it() -> None:
    others = [{"name": "kueue.x-k8s.io/admission"}]
    world = a_head_beside_a_submitter(schedulingGates=others)
    world.round()
    [head] = world.heads()
    ours = {"name": "manta.ray.io/head-noted"}
    assert head["spec"]["schedulingGates"] == [*others, ours]
    unnoted = world.plan()
    assert (unnoted.actions, unnoted.wait is not None) == ((), True)
    world.round()
    assert world.cluster.status.head.pod_name == head["metadata"]["name"]
    [opened] = world.round().actions
    assert isinstance(opened, Patch)
    assert (opened.cause, opened.uid) == (Cause.HEAD_NOTED, head["metadata"]["uid"])
    assert world.heads()[0]["spec"]["schedulingGates"] == others
    assert world.plan().actions == ()


def test_a_head_that_was_lost_behind_its_gate_before_it_was_noted_is_made_again() -> None:
    world = a_head_beside_a_submitter()
    world.round(report=False)
    [head] = world.heads()
    del world.objects[PODS, head["metadata"]["name"]]
    assert Cause.NO_HEAD in [one.cause for one in world.plan().actions]


def test_a_head_with_a_node_of_the_users_choice_has_no_gate() -> None:
    """The API server refuses a Pod with both."""
    world = a_head_beside_a_submitter(nodeName="n1")
    world.round()
    assert "schedulingGates" not in world.heads()[0]["spec"]


def test_a_gate_is_opened_when_its_head_submits_nothing_any_more() -> None:
    world = a_head_beside_a_submitter()
    world.round()
    meta = msgspec.structs.replace(world.cluster.metadata, labels={})
    world.cluster = msgspec.structs.replace(world.cluster, metadata=meta)
    assert [one.cause for one in world.plan().actions] == [Cause.HEAD_NOTED]


def test_of_two_heads_one_that_may_have_run_stays_before_one_behind_a_gate() -> None:
    world = a_head_beside_a_submitter()
    for _ in ("made", "noted", "let go"):
        world.round()
    gate = {"schedulingGates": [{"name": "manta.ray.io/head-noted"}]}
    [head] = world.heads()
    twin = second_head(world, "a-twin", creationTimestamp="2020-01-01T00:00:00Z")
    twin["spec"] = {**head["spec"], **gate}
    [gone] = world.plan().actions
    assert isinstance(gone, Delete)
    assert gone.key.name == "a-twin"


def test_a_scheduler_that_may_not_know_gates_meets_none() -> None:
    world = a_head_beside_a_submitter()
    world.settings = replace(world.settings, batch_scheduler="yunikorn")
    world.round()
    assert "schedulingGates" not in world.heads()[0]["spec"]


def test_only_a_head_that_submits_has_a_gate() -> None:
    world = World(decode(ray_cluster(groups=[])))
    world.round()
    assert "schedulingGates" not in world.heads()[0]["spec"]


def test_c75_the_head_of_an_earlier_object_of_this_name_is_waited_for() -> None:
    world = World(decode(ray_cluster(groups=[])))
    world.settle()
    world.cluster = decode(ray_cluster(groups=[]), uid="c2")
    world.objects = {key: one for key, one in world.objects.items() if key[0] == PODS}
    plan = world.plan()
    assert [one.cause for one in plan.actions] == [Cause.HEAD_SERVICE]
    assert plan.wait is not None
    assert HEAD in plan.wait.why


@pytest.mark.parametrize("fixed_name", [True, False])
def test_no_second_head_beside_one_that_may_live_on_a_lost_node(fixed_name: bool) -> None:
    settings = Settings(deterministic_head_pod_name=fixed_name)
    world = World(decode(ray_cluster(groups=[])), settings)
    world.settle()
    [head] = world.heads()
    head["metadata"]["deletionTimestamp"] = format_time(world.now)
    world.now += timedelta(hours=1)
    assert world.plan().actions == ()
    world.bury()
    assert [one.cause for one in world.plan().actions] == [Cause.NO_HEAD]
