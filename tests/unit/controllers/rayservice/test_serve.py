"""What is submitted to a cluster's Serve, and whether its head takes requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from manta.api.ray.names import ANNOTATION_SERVE_CONFIG, ANNOTATION_SERVE_CONFIG_DOCUMENT
from manta.api.ray.service import AppStatus, RayServiceStatus, ServeSubmission
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.facts.serve import (
    DesiredServe,
    desired_serve,
    is_submitted,
    serving_obstacle,
)
from manta.controllers.rayservice.planners.head_label import plan_head_label
from manta.controllers.rayservice.planners.serve import plan_submission
from manta.controllers.rayservice.snapshot import (
    ClusterView,
    DashboardReply,
    DashboardUnreachable,
    NotQueried,
    ServiceSnapshot,
)
from manta.controllers.rayservice.submissions import recorded as read_record
from manta.reconcile.actions import Call, Patch
from manta.reconcile.outcome import UNTRIED, Failure, Outcome
from support.rayservice_objects import (
    a_cluster,
    a_pod,
    a_snapshot,
    a_view,
    cluster_config,
    incremental,
    running,
    scaled_config,
    serving,
    upgrading,
    with_submission,
)

EMPTY = DashboardReply({})


def submission(snapshot: ServiceSnapshot, view: ClusterView) -> list[Any]:
    return list(plan_submission(snapshot, view, desired_serve(snapshot, view)).plan.actions)


def recorded(snapshot: ServiceSnapshot, view: ClusterView) -> ServeSubmission | None:
    """The recorded submission after the step."""
    step = plan_submission(snapshot, view, desired_serve(snapshot, view))
    status = step.status_change(snapshot.status, UNTRIED)
    sides = (status.active_service_status, status.pending_service_status)
    return next(one.serve_submission for one in sides if one.ray_cluster_name == view.name)


def with_head(view: ClusterView, uid: str = "new-head") -> ClusterView:
    head = a_pod("head", head=True)
    meta = msgspec.structs.replace(head.metadata, uid=uid)
    return replace(view, head_pod=msgspec.structs.replace(head, metadata=meta))


def fresh(answer: Any = EMPTY) -> tuple[ServiceSnapshot, ClusterView]:
    view = a_view("demo-a", answer=answer)
    return a_snapshot({"pendingServiceStatus": {"rayClusterName": "demo-a"}}, pending=view), view


def test_a_new_cluster_gets_the_config_and_it_is_recorded() -> None:
    snapshot, view = fresh()
    (call,) = submission(snapshot, view)
    assert isinstance(call, Call)
    assert (call.cause, call.arguments["config"]) == (Cause.SUBMIT_CONFIG, snapshot.serve_config)
    written = recorded(snapshot, view)
    assert written is not None
    assert written.head == "demo-a-head-uid/0"
    assert msgspec.json.decode(written.config) == snapshot.serve_config


def test_a_failed_submission_is_not_recorded() -> None:
    snapshot, view = fresh()
    step = plan_submission(snapshot, view, desired_serve(snapshot, view))
    (call,) = step.plan.actions
    failed = Outcome(failures=(Failure(call, OSError("refused")),))
    assert step.status_change(snapshot.status, failed) == snapshot.status
    assert step.status_change(snapshot.status, UNTRIED) != snapshot.status


@pytest.mark.parametrize("answer", [NotQueried(), DashboardUnreachable("refused")])
def test_nothing_is_submitted_without_an_answer(answer: Any) -> None:
    snapshot, view = fresh(answer)
    assert submission(snapshot, view) == []


def test_what_was_submitted_is_not_submitted_again() -> None:
    snapshot, view = fresh(DashboardReply({"app": AppStatus(status="DEPLOYING")}))
    assert submission(snapshot, with_submission(snapshot, view)) == []


def test_a_new_config_is_submitted() -> None:
    snapshot = serving()
    assert snapshot.active is not None
    spec = {"serveConfigV2": "applications: [{name: app, import_path: demo.better}]"}
    changed = serving(spec=spec, active=snapshot.active)
    (call,) = submission(changed, snapshot.active)
    assert call.arguments["config"]["applications"][0]["import_path"] == "demo.better"


def test_a_new_head_without_applications_gets_the_config_again() -> None:
    snapshot, view = fresh(EMPTY)
    lost = with_head(with_submission(snapshot, view))
    (call,) = submission(snapshot, lost)
    assert "its head is new" in call.why
    written = recorded(snapshot, lost)
    assert written is not None
    assert written.head == "new-head/0"


def test_a_new_head_with_its_applications_is_only_recorded() -> None:
    snapshot, view = fresh(running())
    kept = with_head(with_submission(snapshot, view))
    assert submission(snapshot, kept) == []
    written = recorded(snapshot, kept)
    assert written is not None
    assert written.head == "new-head/0"


def test_a_head_without_applications_gets_them_again_with_growing_backoff() -> None:
    """S6."""
    snapshot, view = fresh(EMPTY)
    known, waits, said = with_submission(snapshot, view), [], []
    for again in range(1, 9):
        (call,) = submission(snapshot, known)
        assert "lost its applications" in call.why
        known = replace(known, submission=recorded(snapshot, known))
        assert known.submission is not None
        assert known.submission.resubmissions == again
        step = plan_submission(snapshot, known, desired_serve(snapshot, known))
        assert (step.plan.actions, step.wake_in is not None) == ((), True)
        assert step.wake_in is not None
        waits.append(step.wake_in.total_seconds())
        said.append(serving_obstacle(known, desired_serve(snapshot, known)))
        snapshot = replace(snapshot, now=snapshot.now + step.wake_in)
    assert waits == [5, 10, 20, 40, 60, 60, 60, 60]
    assert "submitted again once" in said[0]
    assert "submitted again 2 times" in said[1]
    assert "submitted again 8 times" in said[7]


def test_running_applications_reset_the_backoff() -> None:
    """S6."""
    snapshot, view = fresh(EMPTY)
    known = with_submission(snapshot, view)
    known = replace(known, submission=recorded(snapshot, known))
    well = replace(known, answer=running())
    assert submission(snapshot, well) == []
    after = recorded(snapshot, well)
    assert after is not None
    assert after.resubmissions == 0
    assert len(submission(snapshot, replace(known, submission=after))) == 1


def test_an_earlier_versions_record_on_the_cluster_is_still_read() -> None:
    """E7."""
    cluster = a_cluster(
        "demo-a",
        {ANNOTATION_SERVE_CONFIG: "abc@head/0+1", ANNOTATION_SERVE_CONFIG_DOCUMENT: '{"a": 1}'},
    )
    found = read_record(RayServiceStatus(ray_cluster_name="demo-a"), cluster)
    assert found == ServeSubmission(config_hash="abc", head="head/0", config='{"a": 1}')
    newer = ServeSubmission(config_hash="def", head="head/0")
    assert read_record(RayServiceStatus(serve_submission=newer), cluster) == newer


def test_an_empty_config_is_never_submitted() -> None:
    view = a_view("demo-a", answer=EMPTY)
    snapshot = a_snapshot(spec={"serveConfigV2": ""}, pending=view)
    assert submission(snapshot, view) == []


def test_in_mid_upgrade_only_the_pending_cluster_gets_the_new_config() -> None:
    before = serving()
    assert before.active is not None
    config = "applications: [{name: app, import_path: demo.better}]"
    snapshot = upgrading(spec={"serveConfigV2": config}, active=before.active)
    assert snapshot.pending is not None
    assert submission(snapshot, before.active) == []
    assert desired_serve(snapshot, before.active).config == before.serve_config
    assert desired_serve(snapshot, snapshot.pending).config == snapshot.serve_config


def test_the_active_cluster_gets_its_old_config_back_when_its_head_dies_in_mid_upgrade() -> None:
    before = serving()
    assert before.active is not None
    config = "applications: [{name: app, import_path: demo.better}]"
    lost = replace(with_head(before.active), answer=EMPTY)
    snapshot = upgrading(spec={"serveConfigV2": config}, active=lost)
    (call,) = submission(snapshot, lost)
    assert call.arguments["config"] == before.serve_config


def test_spec_and_config_changed_together_leave_the_active_cluster_alone() -> None:
    """In the same reconcile, before a pending cluster has a name."""
    before = serving()
    spec = {
        "rayClusterConfig": cluster_config("rayproject/ray:2.61.0"),
        "serveConfigV2": "applications: [{name: app, import_path: demo.better}]",
    }
    snapshot = serving(spec=spec, active=before.active)
    assert snapshot.active is not None
    assert submission(snapshot, snapshot.active) == []


def test_another_target_capacity_is_another_submission() -> None:
    spec = {"rayClusterConfig": scaled_config(), "upgradeStrategy": incremental()}
    snapshot = serving(spec=spec)
    assert snapshot.active is not None
    known = with_submission(snapshot, snapshot.active, 100)
    desired = desired_serve(snapshot, known, 50)
    assert not is_submitted(known, desired)
    (call,) = plan_submission(snapshot, known, desired).plan.actions
    assert call.cause is Cause.MOVE_CAPACITY
    assert isinstance(call, Call)
    assert call.arguments["config"]["target_capacity"] == 50


def test_a_config_that_is_too_long_is_submitted_without_a_record() -> None:
    snapshot, view = fresh()
    desired = DesiredServe({"applications": [{"name": "app", "args": {"x": "y" * 200_000}}]})
    (call,) = plan_submission(snapshot, view, desired).plan.actions
    assert isinstance(call, Call)
    assert call.arguments["submission"].config == ""


# ── ready or not ─────────────────────────────────────────────────────────────────────────


def why_not(**facts: Any) -> str:
    view = a_view("demo-b", **facts)
    snapshot = a_snapshot({"pendingServiceStatus": {"rayClusterName": "demo-b"}}, pending=view)
    return serving_obstacle(with_submission(snapshot, view), desired_serve(snapshot, view))


def test_all_applications_running_and_a_pod_that_takes_requests_is_ready() -> None:
    assert why_not() == ""


def test_a_cluster_that_was_not_given_this_config_is_not_ready() -> None:
    view = a_view("demo-b")
    snapshot = a_snapshot(pending=view)
    assert "waiting for Serve on RayCluster demo-b" in serving_obstacle(
        view, desired_serve(snapshot, view)
    )


def test_application_and_deployment_are_named_with_rays_messages() -> None:
    deployments = {"Model": {"status": "UNHEALTHY", "message": "CUDA out of\n  memory"}}
    status = {
        "status": "DEPLOY_FAILED",
        "message": "boom",
        "serveDeploymentStatuses": deployments,
    }
    answer = DashboardReply({"app": msgspec.convert(status, AppStatus)})
    assert why_not(answer=answer) == (
        'on RayCluster demo-b application "app" is DEPLOY_FAILED: boom;'
        ' deployment "Model" is UNHEALTHY: CUDA out of memory'
    )


def test_an_undeclared_application_does_not_count() -> None:
    answer = DashboardReply(
        {"app": AppStatus(status="RUNNING"), "old": AppStatus(status="DELETING")}
    )
    assert why_not(answer=answer) == ""


def test_one_of_two_applications_is_not_enough() -> None:
    config = "applications: [{name: app}, {name: more}]"
    view = a_view("demo-b", answer=running("app"))
    snapshot = a_snapshot(spec={"serveConfigV2": config}, pending=view)
    text = serving_obstacle(with_submission(snapshot, view), desired_serve(snapshot, view))
    assert 'application "more" is not known to Serve yet' in text


def test_serve_alone_is_not_enough_without_a_pod_to_take_requests() -> None:
    head = a_pod("head", head=True, serves=False)
    worker = a_pod("worker", ready=False)
    assert "no Pod of RayCluster demo-b takes requests yet" in why_not(
        head_pod=head, pods=(head, worker)
    )


def test_an_unreachable_dashboard_is_named() -> None:
    assert why_not(answer=DashboardUnreachable("connection refused")) == (
        "the dashboard of RayCluster demo-b does not answer: connection refused"
    )


def test_a_head_that_is_not_ready_comes_first() -> None:
    cluster = a_cluster("demo-b")
    bare = msgspec.structs.replace(cluster, status=type(cluster.status)())
    view = a_view("demo-b", bare, head_pod=a_pod("head", head=True, ready=False))
    snapshot = a_snapshot(pending=view)
    assert "waiting for its head Pod" in serving_obstacle(view, desired_serve(snapshot, view))


# ── the head's label ─────────────────────────────────────────────────────────────────────


def label(view: ClusterView, **spec: Any) -> str | None:
    """The label that is written; None if none is."""
    actions = plan_head_label(serving(spec=spec, active=view), view).actions
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
        (OUT, True, DashboardReply({"app": AppStatus(status="DEPLOYING")}), None),
        (IN, True, DashboardReply({"app": AppStatus(status="DEPLOYING")}), None),
        (IN, False, running(), "false"),
        (IN, True, EMPTY, "false"),
        (IN, True, DashboardUnreachable("frozen"), None),
        (IN, None, NotQueried(), None),
    ],
)
def test_c53_a_head_is_in_service_while_its_proxy_answers_and_it_has_something_to_serve(
    head: Any, proxy: Any, answer: Any, written: str | None
) -> None:
    view = a_view("demo-a", head_pod=head, proxy_healthy=proxy, answer=answer)
    assert label(view) == written


def test_an_excluded_head_is_excluded_without_a_query() -> None:
    view = a_view("demo-a", head_pod=IN, proxy_healthy=None, answer=NotQueried())
    assert label(view, excludeHeadPodFromServeSvc=True) == "false"


def test_the_end_of_a_long_traceback_is_kept() -> None:
    text = "Traceback (most recent call last):\n" + "  File x\n" * 200 + "ModuleNotFoundError: demo"
    told_ = why_not(answer=DashboardReply({"app": AppStatus(status="DEPLOY_FAILED", message=text)}))
    assert "Traceback (most recent call last)" in told_
    assert told_.endswith("ModuleNotFoundError: demo")
    assert len(told_) < 700
