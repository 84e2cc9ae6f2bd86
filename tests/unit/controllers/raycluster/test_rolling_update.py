"""Rolling updates of worker groups: who is outdated, in which order, and within which limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from manta.api.ray import names
from manta.api.resources import CONTROLLER_REVISIONS, PODS
from manta.api.times import format_time
from manta.controllers.raycluster.events import Cause
from manta.controllers.raycluster.plan import plan
from manta.reconcile.actions import Delete
from support.raycluster import container, group, template
from support.raycluster_scenario import EPOCH, Scenario, decode, set_running
from support.rollout import (
    BAD,
    NEXT,
    REDIS,
    a_cluster,
    a_rollout,
    annotate,
    check_limits,
    condition,
    edit,
    images,
    ready_workers,
    revisions,
    roll,
    rolling,
    steps,
    tick,
    workers,
)


def test_a_new_cluster_records_its_first_revision_before_its_pods() -> None:
    scenario = a_rollout()
    [revision] = revisions(scenario).values()
    assert revision["metadata"]["ownerReferences"][0]["uid"] == scenario.cluster.metadata.uid
    marks = {
        pod["metadata"]["annotations"][names.ANNOTATION_POD_REVISION] for pod in scenario.of("Pod")
    }
    assert marks == {revision["metadata"]["name"]}
    assert condition(scenario) == ("False", "Complete", "all Pods are of revision 1")


def test_each_new_worker_is_ready_before_an_old_one_is_deleted() -> None:
    scenario = a_rollout()
    edit(scenario, workers(image=NEXT))
    roll(scenario)
    assert steps(scenario) == ["create workers", "delete worker"] * 3
    assert images(scenario) == [NEXT] * 3
    assert condition(scenario) == ("False", "Complete", "all Pods are of revision 2")


def test_without_surge_a_worker_is_deleted_before_the_next_is_created() -> None:
    strategy = rolling(maxUnavailable=1)
    scenario = a_rollout(upgradeStrategy=strategy)
    edit(scenario, workers(image=NEXT), upgradeStrategy=strategy)
    roll(scenario)
    assert steps(scenario) == ["delete worker", "create workers"] * 3


def test_groups_follow_each_other_in_the_order_of_the_spec() -> None:
    scenario = a_rollout(workers("b", 2), workers("a", 1))
    edit(scenario, workers("b", 2, NEXT), workers("a", 1, NEXT))
    roll(scenario)
    creations = [one for one in steps(scenario) if one.startswith("create")]
    assert creations == ["create b", "create b", "create a"]


def test_a_group_that_the_edit_does_not_touch_keeps_its_pods() -> None:
    scenario = a_rollout(workers("a", 1), workers("b", 1))
    kept = {pod["metadata"]["name"] for pod in scenario.workers("a")}
    edit(scenario, workers("a", 1), workers("b", 1, NEXT))
    roll(scenario)
    assert {pod["metadata"]["name"] for pod in scenario.workers("a")} == kept
    assert images(scenario, "b") == [NEXT]


def test_sizes_and_tolerations_replace_no_pod_and_make_no_revision() -> None:
    scenario = a_rollout()
    tolerant = template(tolerations=[{"key": "gpu", "operator": "Exists"}])
    edit(scenario, group("workers", 4, template=tolerant, maxReplicas=9))
    roll(scenario)
    assert steps(scenario) == ["create workers"]
    assert list(revisions(scenario)) == [1]


def test_an_edit_of_a_service_replaces_no_pod() -> None:
    scenario = a_rollout()
    edit(scenario, workers(), headServiceAnnotations={"a": "b"})
    roll(scenario)
    assert steps(scenario) == []


def test_hosts_of_a_replica_are_replaced_together() -> None:
    scenario = a_rollout(workers(replicas=2, numOfHosts=2))
    edit(scenario, workers(replicas=2, numOfHosts=2, image=NEXT))
    roll(scenario)
    assert steps(scenario) == ["create workers"] * 2 + ["delete worker"] * 2 + (
        ["create workers"] * 2 + ["delete worker"] * 2
    )
    assert images(scenario) == [NEXT] * 4


def test_another_number_of_hosts_is_rolled_replica_by_replica() -> None:
    scenario = a_rollout(workers(replicas=2, numOfHosts=2))
    edit(scenario, workers(replicas=2, numOfHosts=3))
    roll(scenario)
    assert steps(scenario) == (["create workers"] * 3 + ["delete worker"] * 2) * 2
    assert len(scenario.workers()) == 6


def test_a_ready_pod_counts_only_after_min_ready_seconds() -> None:
    strategy = rolling(minReadySeconds=60)
    scenario = a_rollout(workers(replicas=1), upgradeStrategy=strategy)
    scenario.now += timedelta(minutes=5)
    edit(scenario, workers(replicas=1, image=NEXT), upgradeStrategy=strategy)
    for _ in range(6):
        scenario.reconcile()
        tick(scenario)
    for pod in scenario.workers():
        since = pod["metadata"]["creationTimestamp"]
        set_running(pod, since=since)
    assert len(scenario.workers()) == 2
    scenario.reconcile()
    assert not [one for one in scenario.log if isinstance(one, Delete)]
    scenario.now += timedelta(seconds=60)
    scenario.reconcile()
    assert [one.cause for one in scenario.log if isinstance(one, Delete)] == [Cause.ROLLED_WORKER]


def test_a_second_edit_on_the_way_leads_to_the_last_one() -> None:
    scenario = a_rollout()
    edit(scenario, workers(image=NEXT))
    for _ in range(5):
        scenario.reconcile()
        tick(scenario)
    edit(scenario, workers(image="rayproject/ray:2.60.2"))
    roll(scenario)
    assert images(scenario) == ["rayproject/ray:2.60.2"] * 3
    assert condition(scenario)[2] == "all Pods are of revision 3"


def test_going_back_makes_the_old_revision_the_newest_and_keeps_its_pods() -> None:
    scenario = a_rollout()
    edit(scenario, workers(image=NEXT))
    for _ in range(5):
        scenario.reconcile()
        tick(scenario)
    assert NEXT in images(scenario)
    edit(scenario, workers())
    roll(scenario)
    assert NEXT not in images(scenario)
    assert sorted(revisions(scenario)) == [2, 3]
    assert condition(scenario)[2] == "all Pods are of revision 3"


def test_scaling_down_on_the_way_takes_outdated_workers_first() -> None:
    scenario = a_rollout(workers(replicas=4))
    edit(scenario, workers(replicas=4, image=NEXT))
    while images(scenario).count(NEXT) < 2:
        scenario.reconcile()
        tick(scenario)
    edit(scenario, workers(replicas=2, image=NEXT))
    new = {pod["metadata"]["name"] for pod in scenario.workers() if NEXT in str(pod["spec"])}
    roll(scenario)
    assert {pod["metadata"]["name"] for pod in scenario.workers()} == new


def test_a_paused_update_replaces_nobody_and_goes_on_when_resumed() -> None:
    paused = rolling(paused=True)
    scenario = a_rollout()
    edit(scenario, workers(image=NEXT), upgradeStrategy=paused)
    roll(scenario)
    assert steps(scenario) == []
    assert condition(scenario)[:2] == ("True", "Paused")
    scenario.now += timedelta(hours=3)
    edit(scenario, workers(image=NEXT))
    roll(scenario)
    assert images(scenario) == [NEXT] * 3


def test_a_bad_image_stops_at_the_deadline_and_says_why() -> None:
    scenario = a_rollout()
    edit(scenario, workers(image=BAD))
    roll(scenario, rounds=400, seconds=10)
    status, reason, message = condition(scenario)
    assert (status, reason) == ("True", "ProgressDeadlineExceeded")
    assert "0 of 3 workers of group workers replaced; no progress for 600 s" in message
    assert f"no such image: {BAD}" in message
    assert ready_workers(scenario) == 3
    wakeup = plan(scenario.snapshot()).wakeup
    assert wakeup is None or wakeup > timedelta(0), "it reconciles without end"


def test_a_bad_image_is_rolled_back_if_asked() -> None:
    strategy = rolling(onFailure="rollback", maxUnavailable=1)
    scenario = a_rollout(upgradeStrategy=strategy)
    edit(scenario, workers(image=BAD), upgradeStrategy=strategy)
    roll(scenario, rounds=400, seconds=10)
    assert BAD not in images(scenario)
    assert ready_workers(scenario) == 3
    status, reason, message = condition(scenario)
    assert (status, reason) == ("False", "RolledBack")
    assert message.startswith("revision 2 was given up (")
    assert scenario.cluster.spec.worker_group_specs[0].template != {}
    edit(scenario, workers(image=NEXT), upgradeStrategy=strategy)
    roll(scenario)
    assert images(scenario) == [NEXT] * 3


def test_a_revision_that_was_given_up_is_tried_again_once_if_asked() -> None:
    strategy = rolling(onFailure="rollback")
    scenario = a_rollout(upgradeStrategy=strategy)
    edit(scenario, workers(image=BAD), upgradeStrategy=strategy)
    roll(scenario, rounds=400, seconds=10)
    annotate(scenario, **{names.ANNOTATION_ROLLING_UPDATE_RETRY: "2"})
    scenario.log.clear()
    roll(scenario, rounds=400, seconds=10)
    assert steps(scenario) == ["create workers", "delete worker"]
    assert condition(scenario)[2].startswith("revision 3 was given up (")


def test_a_worker_that_is_lost_after_the_update_rolls_nothing_back() -> None:
    strategy = rolling(onFailure="rollback")
    scenario = a_rollout(upgradeStrategy=strategy)
    edit(scenario, workers(image=NEXT), upgradeStrategy=strategy)
    roll(scenario)
    lost = scenario.workers()[0]["metadata"]
    del scenario.objects[PODS, lost["name"]]
    for _ in range(100):
        scenario.reconcile()
        scenario.now += timedelta(seconds=30)  # no node has room for the next one
    assert condition(scenario) == ("False", "Complete", "all Pods are of revision 2")
    assert images(scenario) == [NEXT] * 3
    assert names.ANNOTATION_ROLLOUT_FAILED not in str(revisions(scenario))


def test_after_a_rollback_new_workers_are_of_the_good_revision() -> None:
    strategy = rolling(onFailure="rollback")
    scenario = a_rollout(upgradeStrategy=strategy)
    edit(scenario, workers(image=BAD), upgradeStrategy=strategy)
    roll(scenario, rounds=400, seconds=10)
    edit(scenario, workers(replicas=5, image=BAD), upgradeStrategy=strategy)
    roll(scenario)
    assert len(scenario.workers()) == 5
    assert BAD not in images(scenario)


def test_the_head_is_replaced_last_if_its_state_survives() -> None:
    head = {"template": template(container(image=NEXT))}
    scenario = a_rollout(gcsFaultToleranceOptions=REDIS)
    edit(scenario, workers(image=NEXT), head=head, gcsFaultToleranceOptions=REDIS)
    roll(scenario)
    assert steps(scenario)[-2:] == ["delete head", "create headgroup"]
    assert condition(scenario)[:2] == ("False", "Complete")


def test_a_head_without_fault_tolerance_waits_for_consent() -> None:
    head = {"template": template(container(image=NEXT))}
    scenario = a_rollout()
    edit(scenario, workers(image=NEXT), head=head)
    roll(scenario)
    assert "delete head" not in steps(scenario)
    status, reason, message = condition(scenario)
    assert (status, reason) == ("True", "AwaitsConsent")
    assert "loses all tasks, actors and objects" in message
    assert f"{names.ANNOTATION_ROLLING_UPDATE_HEAD}=allow" in message
    annotate(scenario, **{names.ANNOTATION_ROLLING_UPDATE_HEAD: "allow"})
    roll(scenario)
    assert steps(scenario)[-2:] == ["delete head", "create headgroup"]
    assert condition(scenario)[:2] == ("False", "Complete")


def test_another_ray_version_is_not_rolled() -> None:
    scenario = a_rollout()
    edit(scenario, workers(image="rayproject/ray:2.61.0"), rayVersion="2.61.0")
    roll(scenario)
    assert steps(scenario) == []
    status, reason, message = condition(scenario)
    assert (status, reason) == ("True", "NeedsRecreate")
    assert "rayVersion (workers of one Ray version cannot join a head of another)" in message


def test_fields_that_an_older_crd_prunes_replace_no_pod() -> None:
    labelled = workers(labels={"zone": "a"})
    scenario = a_rollout(labelled)
    edit(scenario, workers())
    generation = scenario.cluster.status.observed_generation
    meta = scenario.cluster.metadata
    unedited = msgspec.structs.replace(meta, generation=generation)
    scenario.cluster = msgspec.structs.replace(scenario.cluster, metadata=unedited)
    roll(scenario)
    assert steps(scenario) == []
    assert condition(scenario)[1] == "Held"
    assert "older CRD may prune fields" in condition(scenario)[2]


def test_turning_it_on_replaces_nobody() -> None:
    scenario = a_rollout(upgradeStrategy={"type": "None"})
    edit(scenario, workers())
    roll(scenario)
    assert steps(scenario) == []
    edit(scenario, workers(image=NEXT))
    roll(scenario)
    assert images(scenario) == [NEXT] * 3


def test_turning_it_on_together_with_an_edit_rolls_the_edit() -> None:
    scenario = a_rollout(upgradeStrategy={"type": "None"})
    edit(scenario, workers(image=NEXT))
    roll(scenario)
    assert images(scenario) == [NEXT] * 3


def test_turning_it_off_on_the_way_leaves_pods_of_both_and_no_condition() -> None:
    scenario = a_rollout()
    edit(scenario, workers(image=NEXT))
    for _ in range(5):
        scenario.reconcile()
        tick(scenario)
    edit(scenario, workers(image=NEXT), upgradeStrategy={"type": "None"})
    roll(scenario)
    assert len(scenario.workers()) == 3
    assert "RollingUpdate" not in {one.type for one in scenario.cluster.status.conditions}


@pytest.mark.parametrize("other", ["None", "Recreate"])
def test_turning_it_on_again_replaces_no_pod_of_the_time_between(other: str) -> None:
    scenario = a_rollout()
    edit(scenario, workers(), upgradeStrategy={"type": other})
    roll(scenario)
    if other == "Recreate":
        edit(scenario, workers(image=NEXT), upgradeStrategy={"type": other})
    else:
        del scenario.objects[PODS, scenario.workers()[0]["metadata"]["name"]]
    roll(scenario)
    before, image = set(scenario.pods), images(scenario)[0]
    edit(scenario, workers(image=image))
    roll(scenario)
    assert set(scenario.pods) == before
    assert condition(scenario)[1] == "Complete"
    edit(scenario, workers(image="rayproject/ray:2.60.2"))
    roll(scenario)
    assert images(scenario) == ["rayproject/ray:2.60.2"] * 3


def test_turning_it_on_again_after_an_edit_rolls_the_edit() -> None:
    scenario = a_rollout()
    edit(scenario, workers(image=NEXT), upgradeStrategy={"type": "None"})
    roll(scenario)
    del scenario.objects[PODS, scenario.workers()[0]["metadata"]["name"]]
    roll(scenario)
    edit(scenario, workers(image=NEXT))
    roll(scenario)
    assert images(scenario) == [NEXT] * 3


def test_recreate_has_nothing_to_do_after_a_rolling_update() -> None:
    scenario = a_rollout()
    edit(scenario, workers(image=NEXT))
    roll(scenario)
    before = set(scenario.pods)
    edit(scenario, workers(image=NEXT), upgradeStrategy={"type": "Recreate"})
    roll(scenario)
    assert set(scenario.pods) == before


def test_with_the_autoscaler_its_deletions_are_followed_and_the_size_stays_its_own() -> None:
    scenario = a_rollout(enableInTreeAutoscaling=True)
    edit(scenario, workers(image=NEXT), enableInTreeAutoscaling=True)
    scenario.reconcile()
    scenario.reconcile()
    victim = scenario.workers()[-1]["metadata"]["name"]
    named = workers(replicas=2, image=NEXT, scaleStrategy={"workersToDelete": [victim]})
    edit(scenario, named, enableInTreeAutoscaling=True)
    roll(scenario)
    assert len(scenario.workers()) == 2
    assert images(scenario) == [NEXT] * 2
    assert Cause.SCALE_DOWN not in {one.cause for one in scenario.log}


def test_only_ten_revisions_are_kept() -> None:
    scenario = a_rollout(workers(replicas=1))
    for number in range(14):
        edit(scenario, workers(replicas=1, image=f"rayproject/ray:2.60.{number}"))
        roll(scenario)
    assert sorted(revisions(scenario)) == [1, *range(5, 15)], "the head is of the first"


def test_a_cluster_that_rests_writes_nothing() -> None:
    scenario = a_rollout()
    for _ in range(4):
        scenario.now += timedelta(minutes=10)
        writes = scenario.status_writes
        assert scenario.reconcile().actions == ()
        assert scenario.status_writes == writes


def test_a_failed_new_worker_is_replaced_and_old_ones_stay() -> None:
    scenario = a_rollout()
    edit(scenario, workers(image=NEXT))
    scenario.reconcile()
    scenario.reconcile()
    new = next(pod for pod in scenario.workers() if "status" not in pod)
    new["status"] = {"phase": "Failed"}
    check_limits(scenario, scenario.reconcile())
    assert ready_workers(scenario) == 3
    roll(scenario)
    assert images(scenario) == [NEXT] * 3


def test_the_deadline_does_not_run_while_the_cluster_is_suspended() -> None:
    strategy = rolling(onFailure="rollback", maxUnavailable=1)
    scenario = a_rollout(upgradeStrategy=strategy)
    edit(scenario, workers(image=NEXT), upgradeStrategy=strategy)
    while (
        (rollout := scenario.snapshot().rollout) is None or rollout.outdated or not rollout.recorded
    ):
        scenario.reconcile()
        tick(scenario)
    scenario.reconcile()  # the last worker is created, and does not run yet
    edit(scenario, workers(image=NEXT), upgradeStrategy=strategy, suspend=True)
    roll(scenario)
    assert scenario.of("Pod") == []
    assert condition(scenario)[:2] == ("False", "Suspended")
    scenario.now += timedelta(hours=3)
    edit(scenario, workers(image=NEXT), upgradeStrategy=strategy, suspend=False)
    roll(scenario)
    assert condition(scenario) == ("False", "Complete", "all Pods are of revision 2")
    assert images(scenario) == [NEXT] * 3


def a_cluster_again(scenario: Scenario, *kinds: str) -> None:
    """The RayCluster was deleted and created again. Objects of these kinds are still there."""
    for one in list(scenario.of("Pod")):
        del scenario.objects[PODS, one["metadata"]["name"]]
    for kind in kinds:
        for one in scenario.of(kind):
            one["metadata"].pop("ownerReferences")
    meta = msgspec.structs.replace(scenario.cluster.metadata, uid="c2", generation=1)
    status = type(scenario.cluster.status)()
    scenario.cluster = msgspec.structs.replace(scenario.cluster, metadata=meta, status=status)
    scenario.log.clear()


def test_a_revision_without_owner_is_adopted() -> None:
    """kubectl delete --cascade=orphan leaves it. Its name is that of the same spec of the next cluster."""
    scenario = a_rollout()
    a_cluster_again(scenario, "ControllerRevision", "Service")
    roll(scenario)
    assert condition(scenario) == ("False", "Complete", "all Pods are of revision 1")
    [one] = scenario.of("ControllerRevision")
    assert [owner["uid"] for owner in one["metadata"]["ownerReferences"]] == ["c2"]


def test_a_revision_of_an_earlier_cluster_of_the_name_is_waited_for() -> None:
    scenario = a_rollout()
    a_cluster_again(scenario, "Service")
    wait = scenario.plan().wait
    assert wait is not None
    assert "belongs to an earlier RayCluster of this name" in wait.why
    [one] = scenario.of("ControllerRevision")
    del scenario.objects[CONTROLLER_REVISIONS, one["metadata"]["name"]]
    roll(scenario)
    assert condition(scenario) == ("False", "Complete", "all Pods are of revision 1")


def test_a_revision_that_is_complete_after_all_is_no_longer_failed() -> None:
    """A later rollback leads to it, and not to the one before."""
    scenario = a_rollout(upgradeStrategy=rolling(onFailure="rollback"))
    edit(scenario, workers(image=BAD), upgradeStrategy=rolling(onFailure="rollback"))
    roll(scenario, rounds=400, seconds=10)
    assert condition(scenario)[1] == "RolledBack"
    edit(scenario, workers(image=BAD), upgradeStrategy=rolling())
    for _ in range(60):
        scenario.reconcile()
        scenario.remove_deleted()
        scenario.run_pods()  # the image is there now
        scenario.now += timedelta(seconds=3)
    assert condition(scenario) == ("False", "Complete", "all Pods are of revision 2")
    edit(scenario, workers(image=BAD), upgradeStrategy=rolling(onFailure="rollback"))
    roll(scenario)
    assert condition(scenario) == ("False", "Complete", "all Pods are of revision 2")


def aged(pods: list[dict[str, Any]]) -> list[str]:
    """Give the Pods an age; the names from the oldest to the newest, which is against their alphabet."""
    pods.sort(key=lambda pod: str(pod["metadata"]["name"]), reverse=True)
    for number, pod in enumerate(pods):
        born = EPOCH - timedelta(hours=9 - number)
        pod["metadata"]["creationTimestamp"] = format_time(born)
    return [pod["metadata"]["name"] for pod in pods]


def test_a_paused_update_follows_a_smaller_group_and_takes_the_newest_worker() -> None:
    scenario = a_rollout()
    pods = aged(scenario.workers())
    edit(scenario, workers(replicas=2, image=NEXT), upgradeStrategy=rolling(paused=True))
    roll(scenario)
    assert [pod["metadata"]["name"] for pod in scenario.workers()] == [
        name for name in scenario.pods if name in pods[:2]
    ]
    assert {one.cause for one in scenario.log if isinstance(one, Delete)} == {Cause.SCALE_DOWN}


def test_a_group_that_waits_for_a_worker_still_shrinks() -> None:
    """It is its turn, although nothing is left to replace."""
    scenario = a_rollout()
    edit(scenario, workers(image=NEXT))
    while not all(image == NEXT for image in images(scenario)) or len(scenario.workers()) > 3:
        scenario.reconcile()
        tick(scenario)
    set_running(scenario.workers()[0], ready=False)
    edit(scenario, workers(replicas=2, image=NEXT))
    scenario.reconcile()
    gone = [one for one in scenario.log if isinstance(one, Delete)][-1]
    assert gone.cause == Cause.SCALE_DOWN


def test_a_new_cluster_is_complete_only_when_its_workers_are_ready() -> None:
    scenario = Scenario(decode(a_cluster(upgradeStrategy=rolling())))
    for _ in range(4):
        scenario.reconcile()
        for head in scenario.heads():
            set_running(head)
        scenario.now += timedelta(seconds=3)
    assert condition(scenario)[:2] == ("False", "Starting")
    roll(scenario)
    assert condition(scenario)[:2] == ("False", "Complete")


def test_a_worker_that_is_lost_from_the_first_revision_is_no_update() -> None:
    scenario = a_rollout()
    del scenario.objects[PODS, scenario.workers()[0]["metadata"]["name"]]
    for _ in range(4):
        scenario.reconcile()
        scenario.now += timedelta(seconds=3)
    rollout = scenario.snapshot().rollout
    assert rollout is not None
    assert rollout.is_complete


def test_an_update_has_begun_as_soon_as_one_pod_is_outdated_and_until_the_last_is_ready() -> None:
    scenario = a_rollout(workers(replicas=1))
    edit(scenario, workers(replicas=1, image=NEXT))
    scenario.reconcile()
    rollout = scenario.snapshot().rollout
    assert rollout is not None
    assert rollout.outdated
    assert rollout.has_begun
    while images(scenario) != [NEXT]:
        scenario.reconcile()
        tick(scenario)
    set_running(scenario.workers()[0], ready=False)
    rollout = scenario.snapshot().rollout
    assert rollout is not None
    assert not rollout.outdated
    assert rollout.has_begun


def test_a_head_that_is_not_ready_for_a_while_after_the_update_is_no_part_of_it() -> None:
    scenario = a_rollout()
    edit(scenario, workers(image=NEXT))
    roll(scenario)
    set_running(scenario.heads()[0], ready=False)
    for _ in range(4):
        scenario.reconcile()
        scenario.now += timedelta(seconds=3)
    assert condition(scenario) == ("False", "Complete", "all Pods are of revision 2")
