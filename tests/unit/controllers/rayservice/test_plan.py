"""The phase of a RayService, and what a reconcile does in it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from manta.api.core import Service, ServicePort, ServiceSpec
from manta.api.meta import Condition, ObjectMeta, Uid
from manta.api.ray.names import ANNOTATION_DELETE_AFTER
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.ray.service import AppStatus
from manta.api.resources import SERVICES
from manta.api.times import format_time
from manta.controllers.rayservice.facts.phase import Phase, phase
from manta.controllers.rayservice.plan import plan
from manta.controllers.rayservice.planners.lifecycle import MAX_DELETION_WAIT
from manta.controllers.rayservice.planners.services import ensure_service
from manta.controllers.rayservice.snapshot import (
    DashboardReply,
    DashboardUnreachable,
    NotQueried,
    ServiceSnapshot,
)
from manta.controllers.rayservice.status_events import status_events
from manta.manifests.serve_services import build_serve_service
from manta.reconcile.actions import Call, Create, Delete, Patch
from manta.reconcile.outcome import UNTRIED, Failure, Outcome
from manta.rules.validation.violation import Violation
from support.rayservice_objects import (
    NOW,
    a_cluster,
    a_service,
    a_snapshot,
    a_view,
    cluster_config,
    incremental,
    planned,
    serving,
    status_after,
    upgrading,
    with_submission,
)


def actions(snapshot: ServiceSnapshot, kind: Any, resource: Any = None) -> list[Any]:
    found = [one for one in planned(snapshot).actions if isinstance(one, kind)]
    return [one for one in found if resource is None or one.resource == resource]


def conditions(snapshot: ServiceSnapshot, outcome: Outcome = UNTRIED) -> dict[str, tuple[str, str]]:
    found = status_after(snapshot, outcome).conditions
    return {one.type: (one.status, one.reason) for one in found}


def says(*pairs: tuple[str, str, str], minutes: int = 0, generation: int = 1) -> dict[str, Any]:
    when = format_time(NOW - timedelta(minutes=minutes))
    return {
        "conditions": [
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "lastTransitionTime": when,
                "observedGeneration": generation,
            }
            for type_, status, reason in pairs
        ]
    }


def with_meta(snapshot: ServiceSnapshot, **meta: Any) -> ServiceSnapshot:
    changed = msgspec.structs.replace(snapshot.service.metadata, **meta)
    return replace(snapshot, service=msgspec.structs.replace(snapshot.service, metadata=changed))


def serve_service(cluster: str, **spec: Any) -> Service:
    ports = (ServicePort(name="serve", port=8000, target_port=8000),)
    selector = {"ray.io/cluster": cluster, "ray.io/serve": "true"}
    labels = {
        "ray.io/originated-from-cr-name": "demo",
        "ray.io/originated-from-crd": "RayService",
        "ray.io/serve": "demo-serve",
    }
    meta = ObjectMeta(name="demo-serve-svc", namespace="default", uid=Uid("svc-uid"), labels=labels)
    return Service(
        metadata=meta, spec=ServiceSpec(**{"selector": selector, "ports": ports, **spec})
    )


def unlabelled(service: Service) -> Service:
    meta = msgspec.structs.replace(service.metadata, labels={})
    return msgspec.structs.replace(service, metadata=meta)


# ── phases ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (with_meta(a_snapshot(), finalizers=()), Phase.NEW),
        (with_meta(a_snapshot(), deletion_timestamp=format_time(NOW)), Phase.DELETING),
        (a_snapshot(), Phase.SERVING),
        (a_snapshot(violations=(Violation("spec", 1, "no"),)), Phase.INVALID),
        (a_snapshot(spec={"suspend": True}), Phase.SUSPEND_REQUESTED),
        (a_snapshot(says(("Suspending", "True", "SuspendRequested"))), Phase.SUSPENDING),
        (a_snapshot(says(("Suspended", "True", "SuspendComplete"))), Phase.RESUMING),
        (
            a_snapshot(says(("Suspended", "True", "SuspendComplete")), spec={"suspend": True}),
            Phase.SUSPENDED,
        ),
        (a_snapshot(says(("Ready", "False", "InitializingTimeout"))), Phase.TIMED_OUT),
        (
            a_snapshot(says(("Ready", "False", "InitializingTimeout"), generation=0)),
            Phase.RECOVERING,
        ),
    ],
)
def test_every_phase_follows_from_the_object_alone(snapshot: Any, expected: Phase) -> None:
    assert phase(snapshot) is expected


@pytest.mark.parametrize(
    "snapshot", [a_snapshot(says(("Suspended", "True", "x")), spec={"suspend": True})]
)
def test_c32_nothing_at_all_happens_while_suspended(snapshot: ServiceSnapshot) -> None:
    assert planned(snapshot).stages == ()
    assert plan(snapshot).wakeup is None


def test_the_finalizer_comes_first_and_alone() -> None:
    (patch,) = planned(with_meta(a_snapshot(), finalizers=("other",))).actions
    assert isinstance(patch, Patch)
    assert patch.resource == RAY_SERVICES
    assert patch.patch["metadata"]["finalizers"] == ["other", "ray.io/rayservice-finalizer"]


# ── leaving ──────────────────────────────────────────────────────────────────────────────


def leaving(since: timedelta = timedelta(0), **facts: Any) -> ServiceSnapshot:
    return with_meta(serving(**facts), deletion_timestamp=format_time(NOW - since))


def test_a_deleted_service_deletes_its_clusters_first() -> None:
    (delete,) = planned(leaving()).actions
    assert isinstance(delete, Delete)
    assert delete.resource == RAY_CLUSTERS


def test_the_finalizer_is_removed_when_no_cluster_is_left() -> None:
    (patch,) = planned(leaving(active=None, clusters=())).actions
    assert isinstance(patch, Patch)
    assert patch.patch == {"metadata": {"finalizers": []}}


def test_the_finalizer_waits_only_a_limited_time() -> None:
    stuck = leaving(MAX_DELETION_WAIT)
    (patch,) = planned(stuck).actions
    assert isinstance(patch, Patch)
    assert plan(leaving(timedelta(minutes=1))).wakeup == MAX_DELETION_WAIT - timedelta(minutes=1)


# ── old clusters ─────────────────────────────────────────────────────────────────────────


def old(**annotations: str) -> Any:
    return a_cluster("demo-old", {key.replace("_", "/"): text for key, text in annotations.items()})


def with_old(cluster: Any, **facts: Any) -> ServiceSnapshot:
    base = serving(**facts)
    return replace(base, clusters=(*base.clusters, cluster))


def test_an_old_cluster_gets_a_deletion_time() -> None:
    (note,) = [one for one in actions(with_old(old()), Patch) if one.key.name == "demo-old"]
    due = format_time(NOW + timedelta(seconds=62))
    assert note.patch["metadata"]["annotations"] == {ANNOTATION_DELETE_AFTER: due}


def test_no_delay_deletes_at_once() -> None:
    snapshot = with_old(old(), spec={"rayClusterDeletionDelaySeconds": 0})
    assert [one.key.name for one in actions(snapshot, Delete)] == ["demo-old"]


def test_a_cluster_is_deleted_at_its_time_and_a_timer_set_before() -> None:
    past = a_cluster("demo-old", {ANNOTATION_DELETE_AFTER: format_time(NOW)})
    assert [one.key.name for one in actions(with_old(past), Delete)] == ["demo-old"]
    coming = a_cluster(
        "demo-old", {ANNOTATION_DELETE_AFTER: format_time(NOW + timedelta(seconds=9))}
    )
    assert actions(with_old(coming), Delete) == []
    assert plan(with_old(coming)).wakeup == timedelta(seconds=9)


def test_an_invalid_deletion_time_is_replaced() -> None:
    odd = a_cluster("demo-old", {ANNOTATION_DELETE_AFTER: "tomorrow"})
    (note,) = [one for one in actions(with_old(odd), Patch) if one.key.name == "demo-old"]
    assert ANNOTATION_DELETE_AFTER in note.patch["metadata"]["annotations"]


def test_the_scheduled_deletion_of_a_wanted_cluster_is_cancelled() -> None:
    wanted = a_cluster("demo-a", {ANNOTATION_DELETE_AFTER: format_time(NOW)})
    snapshot = serving(active=a_view("demo-a", wanted))
    assert actions(snapshot, Delete) == []
    patches = [one.patch for one in actions(snapshot, Patch, RAY_CLUSTERS)]
    assert {"metadata": {"annotations": {ANNOTATION_DELETE_AFTER: None}}} in patches


def test_old_clusters_are_deleted_on_time_although_the_spec_is_invalid() -> None:
    due = a_cluster("demo-old", {ANNOTATION_DELETE_AFTER: format_time(NOW)})
    snapshot = with_old(due, violations=(Violation("spec", 1, "no"),))
    assert [one.key.name for one in planned(snapshot).actions] == ["demo-old"]


# ── the Services ─────────────────────────────────────────────────────────────────────────


def ready_to_switch() -> ServiceSnapshot:
    snapshot = upgrading(serve_service=serve_service("demo-a"))
    assert snapshot.pending is not None
    return replace(snapshot, pending=with_submission(snapshot, snapshot.pending))


def test_a_pending_cluster_that_can_serve_gets_the_services_and_is_promoted() -> None:
    snapshot = ready_to_switch()
    patches = actions(snapshot, Patch, SERVICES)
    assert [one.key.name for one in patches] == ["demo-serve-svc"]
    assert patches[0].patch["spec"]["selector"]["ray.io/cluster"] == "demo-b"
    assert "clusterIP" not in patches[0].patch["spec"]
    status = status_after(snapshot, UNTRIED)
    assert status.active_service_status.ray_cluster_name == "demo-b"
    assert status.pending_service_status.ray_cluster_name == ""


def test_c47_a_failing_head_service_promotes_nevertheless_and_a_failing_serve_service_does_not() -> (
    None
):
    snapshot = ready_to_switch()
    head = next(one for one in actions(snapshot, Create, SERVICES))
    assert head.key.name == "demo-head-svc"
    failed = Outcome(failures=(Failure(head, RuntimeError("immutable")),))
    assert status_after(snapshot, failed).active_service_status.ray_cluster_name == "demo-b"
    (serve,) = actions(snapshot, Patch, SERVICES)
    failed = Outcome(failures=(Failure(serve, RuntimeError("denied")),))
    assert status_after(snapshot, failed).active_service_status.ray_cluster_name == "demo-a"


def test_an_unrecorded_switch_is_recorded_first() -> None:
    """Even when the spec has changed meanwhile: the cluster serves, and must not be deleted."""
    third = {"image": "rayproject/ray:2.62.0"}
    snapshot = upgrading(spec={"serveConfigV2": "applications: []"}, active=a_view("demo-a"))
    snapshot = replace(snapshot, serve_service=serve_service("demo-b"), cluster_spec=third)
    assert planned(snapshot).actions == ()
    assert status_after(snapshot, UNTRIED).active_service_status.ray_cluster_name == "demo-b"


def test_an_outdated_pending_cluster_gets_no_traffic() -> None:
    """Otherwise one reconcile would delete it and make the Services select it."""
    third = a_view("demo-b", a_cluster("demo-b", rayClusterConfig=cluster_config("ray:2.62.0")))
    snapshot = upgrading(serve_service=serve_service("demo-a"), pending=third)
    snapshot = replace(snapshot, pending=with_submission(snapshot, third))
    assert [one.key.name for one in actions(snapshot, Delete, RAY_CLUSTERS)] == ["demo-b"]
    assert actions(snapshot, Patch, SERVICES) == []
    status = status_after(snapshot, UNTRIED)
    assert status.active_service_status.ray_cluster_name == "demo-a"
    assert status.pending_service_status.ray_cluster_name not in ("", "demo-b")


def test_the_switch_comes_before_everything_else() -> None:
    first = planned(ready_to_switch()).stages[0].actions
    assert [one.key.name for one in first] == ["demo-serve-svc"]


def test_a_pending_cluster_that_cannot_serve_gets_nothing() -> None:
    snapshot = upgrading(serve_service=serve_service("demo-a"))
    assert actions(snapshot, Patch, SERVICES) == []


def test_deleted_services_of_the_active_cluster_are_created_again() -> None:
    names = [one.key.name for one in actions(serving(), Create, SERVICES)]
    assert names == ["demo-serve-svc", "demo-head-svc"]


def test_a_correct_service_is_not_written() -> None:
    wanted = build_serve_service(a_service(), a_cluster("demo-a"))
    assert ensure_service(serve_service("demo-a"), wanted) is None


@pytest.mark.parametrize(
    ("has", "why"),
    [
        (serve_service("demo-b"), "it now selects RayCluster demo-a"),
        (serve_service("demo-a", type="NodePort"), "the spec changes its ports, type"),
        (unlabelled(serve_service("demo-a")), "the spec changes its labels"),
    ],
    ids=["selector", "type", "labels"],
)
def test_a_service_that_is_changed_says_what_changes(has: Service, why: str) -> None:
    wanted = build_serve_service(a_service(), a_cluster("demo-a"))
    patch = ensure_service(has, wanted)
    assert isinstance(patch, Patch)
    assert patch.why == why


def renamed(*, is_going: bool = False) -> ServiceSnapshot:
    """The spec gives the serve Service another name: the one under the old name is still there."""
    live, going = serve_service("demo-a"), format_time(NOW) if is_going else None
    meta = msgspec.structs.replace(
        live.metadata, name="demo-before", uid=Uid("old-uid"), deletion_timestamp=going
    )
    old = msgspec.structs.replace(live, metadata=meta)
    return serving(serve_service=live, own_services=(live, old))


def test_a_serve_service_under_an_earlier_name_is_deleted_once_the_new_one_is_there() -> None:
    [delete] = actions(renamed(), Delete, SERVICES)
    assert (delete.key.name, delete.uid) == ("demo-before", "old-uid")
    assert actions(renamed(is_going=True), Delete, SERVICES) == []
    assert actions(replace(renamed(), serve_service=None), Delete, SERVICES) == []


def test_node_ports_keep_their_numbers() -> None:
    exposed = a_service(serveService={"spec": {"type": "NodePort"}})
    wanted = build_serve_service(exposed, a_cluster("demo-a"))
    known = (ServicePort(name="serve", port=80, target_port=80, node_port=30123),)
    patch = ensure_service(serve_service("demo-a", ports=known), wanted)
    assert isinstance(patch, Patch)
    (port,) = patch.patch["spec"]["ports"]
    assert (port["port"], port["nodePort"]) == (8000, 30123)


def test_an_unknown_selector_key_is_removed() -> None:
    wanted = build_serve_service(a_service(), a_cluster("demo-a"))
    stray = {"ray.io/cluster": "demo-a", "ray.io/serve": "true", "mine": "x"}
    patch = ensure_service(serve_service("demo-a", selector=stray), wanted)
    assert isinstance(patch, Patch)
    assert patch.patch["spec"]["selector"]["mine"] is None


# ── conditions ───────────────────────────────────────────────────────────────────────────


def test_a_new_service_initializes() -> None:
    assert conditions(a_snapshot()) == {
        "Ready": ("False", "Initializing"),
        "UpgradeInProgress": ("False", "Initializing"),
    }


def test_endpoints_make_it_ready_and_their_loss_is_reported() -> None:
    facts = {
        "serve_service": serve_service("demo-a"),
        "endpoints": {"demo-serve-svc": frozenset("ab")},
    }
    up = serving(**facts)
    status = status_after(up, UNTRIED)
    assert (status.num_serve_endpoints, status.service_status) == (2, "Running")
    assert conditions(up)["Ready"] == ("True", "NonZeroServeEndpoints")
    down = serving(status=says(("Ready", "True", "NonZeroServeEndpoints")))
    assert conditions(down)["Ready"] == ("False", "ZeroServeEndpoints")
    assert status_after(down, UNTRIED).service_status == ""
    still_down = serving(status=says(("Ready", "False", "ZeroServeEndpoints")))
    assert conditions(still_down)["Ready"] == ("False", "ZeroServeEndpoints")


def test_both_clusters_are_an_upgrade_in_progress() -> None:
    assert conditions(upgrading())["UpgradeInProgress"] == (
        "True",
        "BothActivePendingClustersExist",
    )
    assert conditions(serving())["UpgradeInProgress"] == ("False", "NoPendingCluster")


def test_no_active_cluster_where_one_should_be_is_unknown() -> None:
    said = says(("Ready", "True", "x"), ("UpgradeInProgress", "False", "NoPendingCluster"))
    assert conditions(a_snapshot(said))["UpgradeInProgress"] == ("Unknown", "NoActiveCluster")


def test_an_invalid_spec_is_reported_and_an_edit_recovers() -> None:
    invalid = a_snapshot(violations=(Violation("spec.x", 1, "must be 2"),))
    assert conditions(invalid) == {"Ready": ("False", "ValidationFailed")}
    corrected = a_snapshot(says(("Ready", "False", "ValidationFailed"), minutes=90))
    assert conditions(corrected)["Ready"] == ("False", "Initializing")
    (ready, _) = status_after(corrected, UNTRIED).conditions
    assert ready.last_transition_time == format_time(NOW)  # the time to become ready starts again


def test_an_invalid_service_has_no_service_status() -> None:
    runs = says(("Ready", "True", "NonZeroServeEndpoints")) | {"serviceStatus": "Running"}
    invalid = a_snapshot(runs, violations=(Violation("spec.x", 1, "must be 2"),))
    assert invalid.status.service_status == "Running"
    assert status_after(invalid).service_status == ""


def test_event_and_condition_name_field_value_and_cure() -> None:
    wrong = (Violation("spec.a", -1, "must be zero or more"), Violation("spec.b", "x", "remove it"))
    invalid = a_snapshot(violations=wrong)
    new = status_after(invalid, UNTRIED)
    [event] = status_events(invalid, new)
    [ready] = new.conditions
    said = 'spec.a: -1: must be zero or more; spec.b: "x": remove it'
    assert (event.type, event.note, ready.message) == ("Warning", said, said)


def test_a_service_that_does_not_become_ready_times_out() -> None:
    spec = {"annotations": {"ray.io/initializing-timeout": "30m"}}
    initializing = ("Ready", "False", "Initializing")
    pending = {"pendingServiceStatus": {"rayClusterName": "demo-b"}}
    late = a_snapshot({**says(initializing, minutes=30), **pending}, spec=spec)
    status = status_after(late, UNTRIED)
    assert conditions(late)["Ready"] == ("False", "InitializingTimeout")
    assert status.pending_service_status.ray_cluster_name == ""
    early = a_snapshot({**says(initializing, minutes=29), **pending}, spec=spec)
    assert conditions(early)["Ready"] == ("False", "Initializing")
    assert plan(early).wakeup == timedelta(minutes=1)


def test_a_service_that_was_ready_once_does_not_time_out() -> None:
    spec = {"annotations": {"ray.io/initializing-timeout": "30m"}}
    down = serving(spec=spec, status=says(("Ready", "False", "ZeroServeEndpoints"), minutes=90))
    assert conditions(down)["Ready"] == ("False", "ZeroServeEndpoints")


def test_suspension_writes_the_status_before_it_deletes() -> None:
    query = upgrading(spec={"suspend": True})
    assert planned(query).actions == ()
    status = status_after(query, UNTRIED)
    assert status.active_service_status == status.pending_service_status
    assert conditions(query)["Suspending"] == ("True", "SuspendRequested")
    said = says(("Suspending", "True", "SuspendRequested"))
    doing = replace(serving(status=said), own_services=(serve_service("demo-a"),))
    kinds = [one.resource for one in planned(doing).actions if isinstance(one, Delete)]
    assert kinds == [SERVICES, RAY_CLUSTERS]
    assert conditions(doing)["Suspending"] == ("True", "SuspendInProgress")
    done = a_snapshot(said)
    assert conditions(done)["Suspended"] == ("True", "SuspendComplete")
    assert conditions(done)["Suspending"] == ("False", "SuspendComplete")


def test_a_suspension_remembers_that_traffic_was_split_until_all_objects_are_gone() -> None:
    """Or a Gateway that could not be deleted before would never be looked for again."""
    split = {"activeServiceStatus": {"rayClusterName": "demo-a", "targetCapacity": 100}}
    requested = status_after(serving(spec={"suspend": True}, status=split))
    assert requested.active_service_status.ray_cluster_name == ""
    kept = {"activeServiceStatus": {"targetCapacity": 100}}
    said = says(("Suspending", "True", "SuspendRequested"))
    waits = a_snapshot({**kept, **said}, own_services=(serve_service("demo-a"),))
    for status in (requested, status_after(waits)):
        assert status.active_service_status.target_capacity == 100
    done = status_after(a_snapshot({**kept, **said}))
    assert done.active_service_status.target_capacity is None


def test_resuming_starts_as_new() -> None:
    said = says(("Suspended", "True", "x"), ("Suspending", "False", "x"), ("Ready", "False", "x"))
    assert conditions(a_snapshot(said)) == {
        "Suspended": ("False", "RayServiceResumed"),
        "Suspending": ("False", "x"),
        "Ready": ("False", "Initializing"),
        "UpgradeInProgress": ("False", "Initializing"),
    }


def test_conditions_have_the_observed_generation() -> None:
    snapshot = with_meta(serving(), generation=5)
    status = status_after(snapshot, UNTRIED)
    assert status.observed_generation == 5
    assert {one.observed_generation for one in status.conditions} == {5}


def test_an_unchanged_status_keeps_its_time() -> None:
    snapshot = serving()
    first = status_after(snapshot, UNTRIED)
    service = msgspec.structs.replace(snapshot.service, status=first)
    later = replace(snapshot, service=service, now=NOW + timedelta(hours=1))
    assert status_after(later, UNTRIED) == first


def test_c28_the_clusters_own_status_is_shown() -> None:
    snapshot = serving()
    assert snapshot.active is not None
    shown = status_after(snapshot, UNTRIED).active_service_status.ray_cluster_status
    assert shown == snapshot.active.cluster.status


def test_without_an_answer_the_last_application_statuses_stay() -> None:
    app = {"app": {"status": "RUNNING"}}
    side = {"rayClusterName": "demo-a", "applicationStatuses": app}
    snapshot = serving(
        status={"activeServiceStatus": side}, active=a_view("demo-a", answer=NotQueried())
    )
    shown = status_after(snapshot, UNTRIED).active_service_status.application_statuses
    assert shown["app"].status == "RUNNING"


def test_submissions_come_last() -> None:
    """A refused config must not delay the Services."""
    snapshot = serving(
        spec={"serveConfigV2": "applications: [{name: new}]"}, active=serving().active
    )
    stages = planned(snapshot).stages
    at = next(n for n, stage in enumerate(stages) if isinstance(stage.actions[0], Call))
    assert all(stage.independent for stage in stages[:at])
    assert len(stages) == at + 1


def test_a_condition_of_another_owner_is_left_alone() -> None:
    theirs = Condition(type="Theirs", status="True")
    snapshot = serving()
    status = msgspec.structs.replace(snapshot.status, conditions=(theirs,))
    service = msgspec.structs.replace(snapshot.service, status=status)
    assert theirs in status_after(replace(snapshot, service=service), UNTRIED).conditions


def test_an_application_that_fails_in_place_is_named_although_requests_are_taken() -> None:
    failing = DashboardReply({"app": AppStatus(status="DEPLOY_FAILED", message="boom")})
    facts = {
        "serve_service": serve_service("demo-a"),
        "endpoints": {"demo-serve-svc": frozenset("a")},
    }
    snapshot = serving(active=a_view("demo-a", answer=failing), **facts)
    status = status_after(snapshot, UNTRIED)
    ready = status.conditions[0]
    assert (ready.type, ready.status) == ("Ready", "True")
    assert 'application "app" is DEPLOY_FAILED: boom' in ready.message
    quiet = serving(active=a_view("demo-a", answer=NotQueried()), **facts)
    assert status_after(quiet, UNTRIED).conditions[0].message == "1 Pod takes requests"


def test_a_rollback_without_the_old_cluster_is_announced() -> None:
    """The old cluster is gone, and the pending one is replaced: nothing is left to roll back to."""
    snapshot = upgrading(spec={"upgradeStrategy": incremental()}, active=None)
    third = msgspec.structs.replace(
        snapshot.status,
        pending_service_status=msgspec.structs.replace(
            snapshot.status.pending_service_status, ray_cluster_name="demo-c"
        ),
    )
    [event] = [one for one in status_events(snapshot, third) if one.reason == "RollbackImpossible"]
    assert event.type == "Warning"
    assert "demo-a" in event.note
    same = [one.reason for one in status_events(snapshot, snapshot.status)]
    assert "RollbackImpossible" not in same


def test_a_service_whose_active_cluster_is_down_speaks_of_it_and_not_only_of_its_successor() -> (
    None
):
    down = a_view("demo-a", answer=DashboardUnreachable("connection refused"))
    [ready] = [
        one for one in status_after(upgrading(active=down)).conditions if one.type == "Ready"
    ]
    assert ready.status == "False"
    assert "the dashboard of RayCluster demo-a does not answer: connection refused" in ready.message
    [ready] = [
        one for one in status_after(upgrading(active=None)).conditions if one.type == "Ready"
    ]
    assert "RayCluster demo-a is gone" in ready.message
