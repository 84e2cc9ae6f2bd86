"""What a cluster's Serve is told, and whether its head takes requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from manta.api.ray.service import AppStatus, RayServiceStatus, ServeSubmission
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.planners.serve import (
    Order,
    is_told,
    obstacle_to_serving,
    order_for,
    plan_head_label,
    plan_submission,
)
from manta.controllers.rayservice.snapshot import (
    ClusterSight,
    NotAsked,
    ServiceSnapshot,
    Silent,
    Told,
)
from manta.controllers.rayservice.submissions import SUBMITTED, SUBMITTED_DOCUMENT
from manta.controllers.rayservice.submissions import recorded as read_record
from manta.reconcile.actions import Call, Patch
from manta.reconcile.outcome import UNTRIED, Failure, Outcome
from support.rayservice_objects import (
    a_cluster,
    a_pod,
    a_sight,
    cluster_config,
    incremental,
    running,
    scaled_config,
    seen,
    serving,
    told,
    upgrading,
)

EMPTY = Told({})


def submission(snapshot: ServiceSnapshot, sight: ClusterSight) -> list[Any]:
    return list(plan_submission(snapshot, sight, order_for(snapshot, sight)).plan.actions)


def recorded(snapshot: ServiceSnapshot, sight: ClusterSight) -> ServeSubmission | None:
    """What the status says of it once this was done."""
    step = plan_submission(snapshot, sight, order_for(snapshot, sight))
    status = step.change(snapshot.status)
    sides = (status.active_service_status, status.pending_service_status)
    return next(one.serve_submission for one in sides if one.ray_cluster_name == sight.name)


def with_head(sight: ClusterSight, uid: str = "new-head") -> ClusterSight:
    head = a_pod("head", head=True)
    meta = msgspec.structs.replace(head.metadata, uid=uid)
    return replace(sight, head_pod=msgspec.structs.replace(head, metadata=meta))


def fresh(answer: Any = EMPTY) -> tuple[ServiceSnapshot, ClusterSight]:
    sight = a_sight("demo-a", answer=answer)
    return seen({"pendingServiceStatus": {"rayClusterName": "demo-a"}}, pending=sight), sight


def test_a_new_cluster_is_given_the_config_and_that_is_written_down() -> None:
    snapshot, sight = fresh()
    (call,) = submission(snapshot, sight)
    assert isinstance(call, Call)
    assert (call.cause, call.arguments["config"]) == (Cause.SUBMIT_CONFIG, snapshot.serve_config)
    written = recorded(snapshot, sight)
    assert written is not None
    assert written.head == "demo-a-head-uid/0"
    assert msgspec.json.decode(written.config) == snapshot.serve_config


def test_nothing_is_written_down_before_it_was_submitted() -> None:
    snapshot, sight = fresh()
    step = plan_submission(snapshot, sight, order_for(snapshot, sight))
    (call,) = step.plan.actions
    assert not step.is_done(Outcome(failures=(Failure(call, OSError("refused")),)))
    assert step.is_done(UNTRIED)


@pytest.mark.parametrize("answer", [NotAsked(), Silent("refused")])
def test_a_serve_that_says_nothing_is_told_nothing(answer: Any) -> None:
    snapshot, sight = fresh(answer)
    assert submission(snapshot, sight) == []


def test_what_was_submitted_is_not_submitted_again() -> None:
    snapshot, sight = fresh(Told({"app": AppStatus(status="DEPLOYING")}))
    assert submission(snapshot, told(snapshot, sight)) == []


def test_a_new_config_is_submitted() -> None:
    snapshot = serving()
    assert snapshot.active is not None
    spec = {"serveConfigV2": "applications: [{name: app, import_path: demo.better}]"}
    changed = serving(spec=spec, active=snapshot.active)
    (call,) = submission(changed, snapshot.active)
    assert call.arguments["config"]["applications"][0]["import_path"] == "demo.better"


def test_a_new_head_that_knows_nothing_is_given_the_config_again() -> None:
    snapshot, sight = fresh(EMPTY)
    lost = with_head(told(snapshot, sight))
    (call,) = submission(snapshot, lost)
    assert "its head is new" in call.why
    written = recorded(snapshot, lost)
    assert written is not None
    assert written.head == "new-head/0"


def test_a_new_head_that_kept_its_memory_is_only_noted() -> None:
    snapshot, sight = fresh(running())
    kept = with_head(told(snapshot, sight))
    assert submission(snapshot, kept) == []
    written = recorded(snapshot, kept)
    assert written is not None
    assert written.head == "new-head/0"


def test_a_head_without_applications_is_given_them_again_and_again_ever_more_slowly() -> None:
    """S6."""
    snapshot, sight = fresh(EMPTY)
    known, waits = told(snapshot, sight), []
    for again in range(1, 9):
        (call,) = submission(snapshot, known)
        assert "lost its applications" in call.why
        known = replace(known, submission=recorded(snapshot, known))
        assert known.submission is not None
        assert known.submission.resubmissions == again
        step = plan_submission(snapshot, known, order_for(snapshot, known))
        assert (step.plan.actions, step.timer is not None) == ((), True)
        assert step.timer is not None
        waits.append(step.timer.total_seconds())
        snapshot = replace(snapshot, now=snapshot.now + step.timer)
    assert waits == [5, 10, 20, 40, 60, 60, 60, 60]
    assert "submitted again 8 times" in obstacle_to_serving(known, order_for(snapshot, known))


def test_once_all_applications_run_a_loss_is_answered_at_once_again() -> None:
    """S6."""
    snapshot, sight = fresh(EMPTY)
    known = told(snapshot, sight)
    known = replace(known, submission=recorded(snapshot, known))
    well = replace(known, answer=running())
    assert submission(snapshot, well) == []
    after = recorded(snapshot, well)
    assert after is not None
    assert after.resubmissions == 0
    assert len(submission(snapshot, replace(known, submission=after))) == 1


def test_an_earlier_versions_record_on_the_cluster_is_still_read() -> None:
    """E7."""
    cluster = a_cluster("demo-a", {SUBMITTED: "abc@head/0+1", SUBMITTED_DOCUMENT: '{"a": 1}'})
    found = read_record(RayServiceStatus(ray_cluster_name="demo-a"), cluster)
    assert found == ServeSubmission(config_hash="abc", head="head/0", config='{"a": 1}')
    newer = ServeSubmission(config_hash="def", head="head/0")
    assert read_record(RayServiceStatus(serve_submission=newer), cluster) == newer


def test_an_empty_config_is_never_submitted() -> None:
    sight = a_sight("demo-a", answer=EMPTY)
    snapshot = seen(spec={"serveConfigV2": ""}, pending=sight)
    assert submission(snapshot, sight) == []


def test_in_mid_upgrade_only_the_pending_cluster_gets_the_new_config() -> None:
    before = serving()
    assert before.active is not None
    config = "applications: [{name: app, import_path: demo.better}]"
    snapshot = upgrading(spec={"serveConfigV2": config}, active=before.active)
    assert snapshot.pending is not None
    assert submission(snapshot, before.active) == []
    assert order_for(snapshot, before.active).config == before.serve_config
    assert order_for(snapshot, snapshot.pending).config == snapshot.serve_config


def test_the_active_cluster_gets_its_old_config_back_when_its_head_dies_in_mid_upgrade() -> None:
    before = serving()
    assert before.active is not None
    config = "applications: [{name: app, import_path: demo.better}]"
    lost = replace(with_head(before.active), answer=EMPTY)
    snapshot = upgrading(spec={"serveConfigV2": config}, active=lost)
    (call,) = submission(snapshot, lost)
    assert call.arguments["config"] == before.serve_config


def test_spec_and_config_changed_together_leave_the_active_cluster_alone() -> None:
    """In the very round that sees both, before a pending cluster is even named."""
    before = serving()
    spec = {
        "rayClusterConfig": cluster_config("rayproject/ray:2.61.0"),
        "serveConfigV2": "applications: [{name: app, import_path: demo.better}]",
    }
    snapshot = serving(spec=spec, active=before.active)
    assert snapshot.active is not None
    assert submission(snapshot, snapshot.active) == []


def test_a_share_is_a_submission_of_its_own() -> None:
    spec = {"rayClusterConfig": scaled_config(), "upgradeStrategy": incremental()}
    snapshot = serving(spec=spec)
    assert snapshot.active is not None
    known = told(snapshot, snapshot.active, 100)
    order = order_for(snapshot, known, 50)
    assert not is_told(known, order)
    (call,) = plan_submission(snapshot, known, order).plan.actions
    assert call.cause is Cause.MOVE_CAPACITY
    assert isinstance(call, Call)
    assert call.arguments["config"]["target_capacity"] == 50


def test_a_config_that_is_too_long_is_submitted_without_a_record() -> None:
    snapshot, sight = fresh()
    order = Order({"applications": [{"name": "app", "args": {"x": "y" * 200_000}}]})
    (call,) = plan_submission(snapshot, sight, order).plan.actions
    assert isinstance(call, Call)
    assert call.arguments["submission"].config == ""


# ── ready or not ─────────────────────────────────────────────────────────────────────────


def why_not(**facts: Any) -> str:
    sight = a_sight("demo-b", **facts)
    snapshot = seen({"pendingServiceStatus": {"rayClusterName": "demo-b"}}, pending=sight)
    return obstacle_to_serving(told(snapshot, sight), order_for(snapshot, sight))


def test_all_applications_running_and_a_pod_that_takes_requests_is_ready() -> None:
    assert why_not() == ""


def test_a_cluster_that_was_not_given_this_config_is_not_ready() -> None:
    sight = a_sight("demo-b")
    snapshot = seen(pending=sight)
    assert "waiting for Serve on RayCluster demo-b" in obstacle_to_serving(
        sight, order_for(snapshot, sight)
    )


def test_the_application_and_the_deployment_are_named_with_rays_words() -> None:
    deployments = {"Model": {"status": "UNHEALTHY", "message": "CUDA out of\n  memory"}}
    status = {
        "status": "DEPLOY_FAILED",
        "message": "boom",
        "serveDeploymentStatuses": deployments,
    }
    answer = Told({"app": msgspec.convert(status, AppStatus)})
    assert why_not(answer=answer) == (
        'on RayCluster demo-b application "app" is DEPLOY_FAILED: boom;'
        ' deployment "Model" is UNHEALTHY: CUDA out of memory'
    )


def test_an_application_that_nobody_declared_counts_for_nothing() -> None:
    answer = Told({"app": AppStatus(status="RUNNING"), "old": AppStatus(status="DELETING")})
    assert why_not(answer=answer) == ""


def test_one_of_two_applications_is_not_enough() -> None:
    config = "applications: [{name: app}, {name: more}]"
    sight = a_sight("demo-b", answer=running("app"))
    snapshot = seen(spec={"serveConfigV2": config}, pending=sight)
    text = obstacle_to_serving(told(snapshot, sight), order_for(snapshot, sight))
    assert 'application "more" is not known to Serve yet' in text


def test_serve_alone_is_not_enough_without_a_pod_to_take_requests() -> None:
    head = a_pod("head", head=True, serves=False)
    worker = a_pod("worker", ready=False)
    assert "no Pod of RayCluster demo-b takes requests yet" in why_not(
        head_pod=head, pods=(head, worker)
    )


def test_a_silent_dashboard_is_named() -> None:
    assert why_not(answer=Silent("connection refused")) == (
        "the dashboard of RayCluster demo-b does not answer: connection refused"
    )


def test_a_head_that_is_not_ready_comes_first() -> None:
    cluster = a_cluster("demo-b")
    bare = msgspec.structs.replace(cluster, status=type(cluster.status)())
    sight = a_sight("demo-b", bare, head_pod=a_pod("head", head=True, ready=False))
    snapshot = seen(pending=sight)
    assert "waiting for its head Pod" in obstacle_to_serving(sight, order_for(snapshot, sight))


# ── the head's label ─────────────────────────────────────────────────────────────────────


def label(sight: ClusterSight, **spec: Any) -> str | None:
    """The label that is written; None when it is right as it is."""
    actions = plan_head_label(serving(spec=spec, active=sight), sight).plan.actions
    if not actions:
        return None
    (patch,) = actions
    assert isinstance(patch, Patch)
    value: str = patch.patch["metadata"]["labels"]["ray.io/serve"]
    return value


OUT = a_pod("head", head=True, serves=False)
IN = a_pod("head", head=True)


@pytest.mark.parametrize(
    ("head", "proxy", "answer", "written"),
    [
        (OUT, True, running(), "true"),
        (OUT, False, running(), None),
        (OUT, None, running(), None),
        (OUT, True, EMPTY, None),
        (OUT, True, Told({"app": AppStatus(status="DEPLOYING")}), None),
        (IN, True, Told({"app": AppStatus(status="DEPLOYING")}), None),
        (IN, False, running(), "false"),
        (IN, True, EMPTY, "false"),
        (IN, True, Silent("frozen"), None),
        (IN, None, NotAsked(), None),
    ],
)
def test_c53_a_head_is_in_service_while_its_proxy_answers_and_it_has_something_to_serve(
    head: Any, proxy: Any, answer: Any, written: str | None
) -> None:
    sight = a_sight("demo-a", head_pod=head, proxy_answers=proxy, answer=answer)
    assert label(sight) == written


def test_a_head_that_is_kept_out_is_kept_out_without_asking() -> None:
    sight = a_sight("demo-a", head_pod=IN, proxy_answers=None, answer=NotAsked())
    assert label(sight, excludeHeadPodFromServeSvc=True) == "false"


def test_of_a_long_traceback_the_end_is_told() -> None:
    text = "Traceback (most recent call last):\n" + "  File x\n" * 200 + "ModuleNotFoundError: demo"
    told_ = why_not(answer=Told({"app": AppStatus(status="DEPLOY_FAILED", message=text)}))
    assert "Traceback (most recent call last)" in told_
    assert told_.endswith("ModuleNotFoundError: demo")
    assert len(told_) < 700
