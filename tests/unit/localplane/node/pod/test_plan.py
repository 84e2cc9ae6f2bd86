from __future__ import annotations

from manta.localplane.node.pod.plan import (
    CreateSandbox,
    FinishDeletion,
    KillContainer,
    KillSandbox,
    PrepareVolumes,
    PullImage,
    StartContainer,
    StopContainer,
    plan_pod,
)
from manta.localplane.node.pod.snapshot import ContainerState, Failure, Progress, Step, Stopping
from support.node import a_pod, a_snapshot, ended, idle, running

TWO = [{"name": "one"}, {"name": "two"}]
DELETED = {"deletionTimestamp": "2026-11-15T08:00:00Z", "deletionGracePeriodSeconds": 30}


def test_a_new_pod_gets_its_volumes_and_images_first() -> None:
    plan = plan_pod(a_snapshot(a_pod(containers=TWO), volumes=Progress(), sandbox=Progress()))
    assert plan.actions == (PullImage("one"), PullImage("two"), PrepareVolumes())


def test_the_sandbox_follows_the_volumes() -> None:
    plan = plan_pod(a_snapshot(a_pod(), sandbox=Progress(), containers={"main": idle()}))
    assert plan.actions == (CreateSandbox(),)


def test_what_is_under_way_is_not_begun_again() -> None:
    busy = Progress(Step.RUNNING)
    plan = plan_pod(a_snapshot(a_pod(), sandbox=busy, containers={"main": idle()}))
    assert plan.actions == ()


def test_a_failed_deed_is_tried_again_when_its_time_has_come() -> None:
    failed = Progress(Step.FAILED, Failure("FailedMount", "no", retry_at=1010.0))
    early = plan_pod(a_snapshot(a_pod(), volumes=failed, containers={"main": idle()}))
    assert early.actions == ()
    assert early.wake_at == 1010.0
    late = plan_pod(a_snapshot(a_pod(), now=1010.0, volumes=failed, containers={"main": idle()}))
    assert late.actions == (PrepareVolumes(),)


def test_all_app_containers_start_at_once_when_their_images_are_there() -> None:
    facts = {"one": idle(), "two": idle()}
    plan = plan_pod(a_snapshot(a_pod(containers=TWO), containers=facts))
    assert plan.actions == (StartContainer("one", 0), StartContainer("two", 0))


def test_a_container_without_its_image_waits_alone() -> None:
    waiting = idle(start=Progress())
    pulling = {"one": waiting, "two": type(waiting)(image=Progress(Step.RUNNING))}
    plan = plan_pod(a_snapshot(a_pod(containers=TWO), containers=pulling))
    assert plan.actions == (StartContainer("one", 0),)


def test_init_containers_run_one_after_the_other() -> None:
    pod = a_pod(initContainers=TWO)
    facts = {"one": idle(), "two": idle(), "main": idle()}
    assert plan_pod(a_snapshot(pod, containers=facts)).actions == (StartContainer("one", 0),)
    facts["one"] = ended(0)
    assert plan_pod(a_snapshot(pod, containers=facts)).actions == (StartContainer("two", 0),)
    facts["two"] = ended(0)
    assert plan_pod(a_snapshot(pod, containers=facts)).actions == (StartContainer("main", 0),)


def test_a_failed_init_container_is_run_again() -> None:
    pod = a_pod(initContainers=[{"name": "one"}])
    facts = {"one": ended(1), "main": idle()}
    assert plan_pod(a_snapshot(pod, containers=facts)).actions == (StartContainer("one", 1),)


def test_under_policy_never_a_failed_init_container_ends_the_pod() -> None:
    pod = a_pod(initContainers=[{"name": "one"}], restartPolicy="Never")
    facts = {"one": ended(1), "main": idle()}
    assert plan_pod(a_snapshot(pod, containers=facts)).actions == (KillSandbox(),)


def test_a_sidecar_lets_the_others_pass_once_it_runs() -> None:
    pod = a_pod(initContainers=[{"name": "side", "restartPolicy": "Always"}])
    facts = {"side": running(), "main": idle()}
    assert plan_pod(a_snapshot(pod, containers=facts)).actions == (StartContainer("main", 0),)


def test_a_sidecar_with_a_startup_probe_holds_the_others_until_it_passes() -> None:
    probe = {"httpGet": {"port": 1}}
    side = {"name": "side", "restartPolicy": "Always", "startupProbe": probe}
    facts = {"side": running(), "main": idle()}
    assert plan_pod(a_snapshot(a_pod(initContainers=[side]), containers=facts)).actions == ()


def test_a_crashed_sidecar_comes_back_beside_the_running_containers() -> None:
    pod = a_pod(initContainers=[{"name": "side", "restartPolicy": "Always"}], restartPolicy="Never")
    facts = {"side": ended(1), "main": running()}
    assert plan_pod(a_snapshot(pod, containers=facts)).actions == (StartContainer("side", 1),)


def test_the_first_restart_is_at_once_the_second_waits_ten_seconds() -> None:
    once = a_snapshot(a_pod(), containers={"main": ended(1, finished=1000.0)})
    assert plan_pod(once).actions == (StartContainer("main", 1),)
    again = a_snapshot(
        a_pod(), containers={"main": ended(1, finished=1000.0, attempt=1, crashes=2)}
    )
    assert plan_pod(again).actions == ()
    assert plan_pod(again).wake_at == 1010.0


def test_a_finished_container_stays_finished_under_on_failure() -> None:
    pod = a_pod(containers=TWO, restartPolicy="OnFailure")
    plan = plan_pod(a_snapshot(pod, containers={"one": ended(0), "two": running()}))
    assert plan.actions == ()


def test_a_pod_whose_work_is_done_loses_its_sidecars_and_its_sandbox() -> None:
    side = {"name": "side", "restartPolicy": "Always"}
    pod = a_pod(initContainers=[side], restartPolicy="Never")
    facts = {"side": running(), "main": ended(0)}
    assert plan_pod(a_snapshot(pod, containers=facts)).actions == (StopContainer("side", 30.0),)
    facts["side"] = ended(0)
    assert plan_pod(a_snapshot(pod, containers=facts)).actions == (KillSandbox(),)


def test_a_sick_container_is_stopped_with_the_probes_grace() -> None:
    facts = {"main": running(unhealthy="liveness probe", unhealthy_grace=5)}
    plan = plan_pod(a_snapshot(a_pod(), containers=facts))
    assert plan.actions == (StopContainer("main", 5.0, "liveness probe"),)


def test_a_container_that_ignores_term_is_killed_at_the_deadline() -> None:
    facts = {"main": running(unhealthy="x", stopping=Stopping(980.0, 1000.0))}
    assert plan_pod(a_snapshot(a_pod(), containers=facts)).actions == (KillContainer("main"),)


def test_a_deleted_pod_stops_its_containers_with_what_is_left_of_the_grace_period() -> None:
    pod = a_pod(containers=TWO, metadata=DELETED)
    facts = {"one": running(), "two": running()}
    plan = plan_pod(a_snapshot(pod, containers=facts, terminating_since=990.0))
    assert plan.actions == (StopContainer("one", 20.0), StopContainer("two", 20.0))


def test_a_shortened_grace_period_kills_earlier() -> None:
    meta = {**DELETED, "deletionGracePeriodSeconds": 1}
    facts = {"main": running(stopping=Stopping(995.0, 1025.0))}
    plan = plan_pod(a_snapshot(a_pod(metadata=meta), containers=facts, terminating_since=995.0))
    assert plan.actions == (KillContainer("main"),)


def test_sidecars_of_a_deleted_pod_go_last_and_in_reverse() -> None:
    sides = [{"name": name, "restartPolicy": "Always"} for name in ("a", "b")]
    pod = a_pod(initContainers=sides, metadata=DELETED)
    facts = {"a": running(), "b": running(), "main": running()}
    about = {"terminating_since": 1000.0}
    assert plan_pod(a_snapshot(pod, containers=facts, **about)).actions == (
        StopContainer("main", 30.0),
    )
    facts["main"] = ended(0)
    assert plan_pod(a_snapshot(pod, containers=facts, **about)).actions == (
        StopContainer("b", 30.0),
    )


def test_a_deleted_pod_is_let_go_only_when_its_sandbox_is_gone() -> None:
    pod = a_pod(metadata=DELETED)
    facts = {"main": ended(143)}
    assert plan_pod(a_snapshot(pod, containers=facts)).actions == (KillSandbox(),)
    killing = a_snapshot(pod, containers=facts, sandbox=Progress(Step.RUNNING))
    assert plan_pod(killing).actions == ()
    assert plan_pod(a_snapshot(pod, containers=facts, sandbox=Progress())).actions == (
        FinishDeletion(),
    )


def test_a_pod_that_was_deleted_before_it_began_is_let_go_at_once() -> None:
    pod = a_pod(metadata=DELETED)
    assert plan_pod(a_snapshot(pod, volumes=Progress(), sandbox=Progress())).actions == (
        FinishDeletion(),
    )


def test_a_pod_past_its_deadline_is_stopped() -> None:
    pod = a_pod(activeDeadlineSeconds=50)
    early = plan_pod(a_snapshot(pod, start_time=960.0, containers={"main": running()}))
    assert early.actions == ()
    assert early.wake_at == 1010.0
    late = plan_pod(a_snapshot(pod, start_time=940.0, containers={"main": running()}))
    assert late.actions == (StopContainer("main", 30.0),)


def test_a_finished_pod_wants_nothing_more() -> None:
    pod = a_pod(restartPolicy="Never", status={"phase": "Succeeded"})
    plan = plan_pod(a_snapshot(pod, containers={"main": ended(0)}, sandbox=Progress()))
    assert plan.actions == ()
    assert plan.wake_at is None


def test_a_container_that_is_starting_is_left_alone() -> None:
    facts = {"main": idle(state=ContainerState.STARTING, attempt=0)}
    assert plan_pod(a_snapshot(a_pod(), containers=facts)).actions == ()
