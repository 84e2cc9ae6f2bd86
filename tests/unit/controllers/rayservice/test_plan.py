"""Where a RayService stands, and what a round does there."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from manta.api.core import Service, ServicePort, ServiceSpec
from manta.api.meta import Condition, ObjectMeta, Uid
from manta.api.ray.resources import RAY_CLUSTERS, RAY_SERVICES
from manta.api.ray.service import AppStatus
from manta.api.resources import SERVICES
from manta.api.times import format_time
from manta.controllers.rayservice.announce import announcements
from manta.controllers.rayservice.plan import Phase, phase, plan
from manta.controllers.rayservice.planners.lifecycle import LONGEST_FAREWELL
from manta.controllers.rayservice.planners.services import ensure_service
from manta.controllers.rayservice.snapshot import DELETE_AFTER, NotAsked, ServiceSnapshot, Told
from manta.controllers.rayservice.status import next_status
from manta.manifests.serve_services import build_serve_service
from manta.reconcile.actions import Call, Create, Delete, Patch
from manta.reconcile.outcome import UNTRIED, Failure, Outcome
from manta.rules.validation.violation import Violation
from support.rayservice_objects import (
    NOW,
    a_cluster,
    a_service,
    a_sight,
    cluster_config,
    seen,
    serving,
    told,
    upgrading,
)


def actions(snapshot: ServiceSnapshot, kind: Any, resource: Any = None) -> list[Any]:
    found = [one for one in plan(snapshot).actions if isinstance(one, kind)]
    return [one for one in found if resource is None or one.resource == resource]


def conditions(snapshot: ServiceSnapshot, outcome: Outcome = UNTRIED) -> dict[str, tuple[str, str]]:
    found = next_status(snapshot, outcome).conditions
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


# ── phases ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (with_meta(seen(), finalizers=()), Phase.BEGINNING),
        (with_meta(seen(), deletion_timestamp=format_time(NOW)), Phase.LEAVING),
        (seen(), Phase.SERVING),
        (seen(violations=(Violation("spec", 1, "no"),)), Phase.INVALID),
        (seen(spec={"suspend": True}), Phase.SUSPEND_REQUESTED),
        (seen(says(("Suspending", "True", "SuspendRequested"))), Phase.SUSPENDING),
        (seen(says(("Suspended", "True", "SuspendComplete"))), Phase.RESUMING),
        (
            seen(says(("Suspended", "True", "SuspendComplete")), spec={"suspend": True}),
            Phase.SUSPENDED,
        ),
        (seen(says(("Ready", "False", "InitializingTimeout"))), Phase.TIMED_OUT),
        (seen(says(("Ready", "False", "InitializingTimeout"), generation=0)), Phase.RECOVERING),
    ],
)
def test_every_phase_is_told_from_the_object_alone(snapshot: Any, expected: Phase) -> None:
    assert phase(snapshot) is expected


@pytest.mark.parametrize(
    "snapshot", [seen(says(("Suspended", "True", "x")), spec={"suspend": True})]
)
def test_c32_nothing_at_all_happens_while_suspended(snapshot: ServiceSnapshot) -> None:
    assert plan(snapshot).stages == ()
    assert plan(snapshot).wait is None


def test_the_finalizer_comes_first_and_alone() -> None:
    (patch,) = plan(with_meta(seen(), finalizers=("other",))).actions
    assert isinstance(patch, Patch)
    assert patch.resource == RAY_SERVICES
    assert patch.patch["metadata"]["finalizers"] == ["other", "ray.io/rayservice-finalizer"]


# ── leaving ──────────────────────────────────────────────────────────────────────────────


def leaving(since: timedelta = timedelta(0), **facts: Any) -> ServiceSnapshot:
    return with_meta(serving(**facts), deletion_timestamp=format_time(NOW - since))


def test_a_service_that_leaves_takes_its_clusters_first() -> None:
    (delete,) = plan(leaving()).actions
    assert isinstance(delete, Delete)
    assert delete.resource == RAY_CLUSTERS


def test_the_finalizer_goes_when_no_cluster_is_left() -> None:
    (patch,) = plan(leaving(active=None, clusters=())).actions
    assert isinstance(patch, Patch)
    assert patch.patch == {"metadata": {"finalizers": None}}


def test_the_finalizer_is_bounded() -> None:
    stuck = leaving(LONGEST_FAREWELL)
    (patch,) = plan(stuck).actions
    assert isinstance(patch, Patch)
    wait = plan(leaving(timedelta(minutes=1))).wait
    assert wait is not None
    assert wait.retry_in == LONGEST_FAREWELL - timedelta(minutes=1)


# ── old clusters ─────────────────────────────────────────────────────────────────────────


def old(**annotations: str) -> Any:
    return a_cluster("demo-old", {key.replace("_", "/"): text for key, text in annotations.items()})


def with_old(cluster: Any, **facts: Any) -> ServiceSnapshot:
    base = serving(**facts)
    return replace(base, clusters=(*base.clusters, cluster))


def test_an_old_cluster_is_given_a_date() -> None:
    (note,) = [one for one in actions(with_old(old()), Patch) if one.key.name == "demo-old"]
    due = format_time(NOW + timedelta(seconds=60))
    assert note.patch["metadata"]["annotations"] == {DELETE_AFTER: due}


def test_no_delay_deletes_at_once() -> None:
    snapshot = with_old(old(), spec={"rayClusterDeletionDelaySeconds": 0})
    assert [one.key.name for one in actions(snapshot, Delete)] == ["demo-old"]


def test_a_date_that_has_come_deletes_and_one_that_has_not_sets_a_timer() -> None:
    past = a_cluster("demo-old", {DELETE_AFTER: format_time(NOW)})
    assert [one.key.name for one in actions(with_old(past), Delete)] == ["demo-old"]
    coming = a_cluster("demo-old", {DELETE_AFTER: format_time(NOW + timedelta(seconds=9))})
    assert actions(with_old(coming), Delete) == []
    wait = plan(with_old(coming)).wait
    assert wait is not None
    assert wait.retry_in == timedelta(seconds=9)


def test_a_date_that_makes_no_sense_is_written_anew() -> None:
    odd = a_cluster("demo-old", {DELETE_AFTER: "tomorrow"})
    (note,) = [one for one in actions(with_old(odd), Patch) if one.key.name == "demo-old"]
    assert DELETE_AFTER in note.patch["metadata"]["annotations"]


def test_a_cluster_that_is_wanted_again_loses_its_date() -> None:
    wanted = a_cluster("demo-a", {DELETE_AFTER: format_time(NOW)})
    snapshot = serving(active=a_sight("demo-a", wanted))
    assert actions(snapshot, Delete) == []
    patches = [one.patch for one in actions(snapshot, Patch, RAY_CLUSTERS)]
    assert {"metadata": {"annotations": {DELETE_AFTER: None}}} in patches


def test_old_clusters_go_on_time_although_the_spec_is_invalid() -> None:
    due = a_cluster("demo-old", {DELETE_AFTER: format_time(NOW)})
    snapshot = with_old(due, violations=(Violation("spec", 1, "no"),))
    assert [one.key.name for one in plan(snapshot).actions] == ["demo-old"]


# ── the Services ─────────────────────────────────────────────────────────────────────────


def ready_to_switch() -> ServiceSnapshot:
    snapshot = upgrading(serve_service=serve_service("demo-a"))
    assert snapshot.pending is not None
    return replace(snapshot, pending=told(snapshot, snapshot.pending))


def test_a_pending_cluster_that_can_serve_gets_the_services_and_is_promoted() -> None:
    snapshot = ready_to_switch()
    patches = actions(snapshot, Patch, SERVICES)
    assert [one.key.name for one in patches] == ["demo-serve-svc"]
    assert patches[0].patch["spec"]["selector"]["ray.io/cluster"] == "demo-b"
    assert "clusterIP" not in patches[0].patch["spec"]
    status = next_status(snapshot, UNTRIED)
    assert status.active_service_status.ray_cluster_name == "demo-b"
    assert status.pending_service_status.ray_cluster_name == ""


def test_c47_a_failing_head_service_promotes_nevertheless_and_a_failing_serve_service_does_not() -> (
    None
):
    snapshot = ready_to_switch()
    head = next(one for one in actions(snapshot, Create, SERVICES))
    assert head.key.name == "demo-head-svc"
    failed = Outcome(failures=(Failure(head, RuntimeError("immutable")),))
    assert next_status(snapshot, failed).active_service_status.ray_cluster_name == "demo-b"
    (serve,) = actions(snapshot, Patch, SERVICES)
    failed = Outcome(failures=(Failure(serve, RuntimeError("denied")),))
    assert next_status(snapshot, failed).active_service_status.ray_cluster_name == "demo-a"


def test_a_switch_that_nobody_wrote_down_is_written_down_before_anything_else() -> None:
    """Even when the spec has changed meanwhile: the cluster serves, and must not be deleted."""
    third = {"image": "rayproject/ray:2.62.0"}
    snapshot = upgrading(spec={"serveConfigV2": "applications: []"}, active=a_sight("demo-a"))
    snapshot = replace(snapshot, serve_service=serve_service("demo-b"), cluster_spec=third)
    assert plan(snapshot).actions == ()
    assert next_status(snapshot, UNTRIED).active_service_status.ray_cluster_name == "demo-b"


def test_a_pending_cluster_that_can_serve_but_is_no_longer_wanted_gets_no_traffic() -> None:
    """Else it would be deleted in the very round that points the Services at it."""
    third = a_sight("demo-b", a_cluster("demo-b", rayClusterConfig=cluster_config("ray:2.62.0")))
    snapshot = upgrading(serve_service=serve_service("demo-a"), pending=third)
    snapshot = replace(snapshot, pending=told(snapshot, third))
    assert [one.key.name for one in actions(snapshot, Delete, RAY_CLUSTERS)] == ["demo-b"]
    assert actions(snapshot, Patch, SERVICES) == []
    status = next_status(snapshot, UNTRIED)
    assert status.active_service_status.ray_cluster_name == "demo-a"
    assert status.pending_service_status.ray_cluster_name not in ("", "demo-b")


def test_the_switch_comes_before_everything_else() -> None:
    first = plan(ready_to_switch()).stages[0].actions
    assert [one.key.name for one in first] == ["demo-serve-svc"]


def test_a_pending_cluster_that_cannot_serve_gets_nothing() -> None:
    snapshot = upgrading(serve_service=serve_service("demo-a"))
    assert actions(snapshot, Patch, SERVICES) == []


def test_the_services_of_the_active_cluster_come_back_if_they_are_gone() -> None:
    names = [one.key.name for one in actions(serving(), Create, SERVICES)]
    assert names == ["demo-serve-svc", "demo-head-svc"]


def test_a_service_that_is_right_is_not_written() -> None:
    wanted = build_serve_service(a_service(), a_cluster("demo-a"))
    assert ensure_service(serve_service("demo-a"), wanted) is None


def test_ports_that_every_node_knows_keep_their_numbers() -> None:
    exposed = a_service(serveService={"spec": {"type": "NodePort"}})
    wanted = build_serve_service(exposed, a_cluster("demo-a"))
    known = (ServicePort(name="serve", port=80, target_port=80, node_port=30123),)
    patch = ensure_service(serve_service("demo-a", ports=known), wanted)
    assert isinstance(patch, Patch)
    (port,) = patch.patch["spec"]["ports"]
    assert (port["port"], port["nodePort"]) == (8000, 30123)


def test_a_stray_selector_is_taken_out() -> None:
    wanted = build_serve_service(a_service(), a_cluster("demo-a"))
    stray = {"ray.io/cluster": "demo-a", "ray.io/serve": "true", "mine": "x"}
    patch = ensure_service(serve_service("demo-a", selector=stray), wanted)
    assert isinstance(patch, Patch)
    assert patch.patch["spec"]["selector"]["mine"] is None


# ── conditions ───────────────────────────────────────────────────────────────────────────


def test_a_new_service_initializes() -> None:
    assert conditions(seen()) == {
        "Ready": ("False", "Initializing"),
        "UpgradeInProgress": ("False", "Initializing"),
    }


def test_endpoints_make_it_ready_and_their_loss_is_said() -> None:
    facts = {
        "serve_service": serve_service("demo-a"),
        "endpoints": {"demo-serve-svc": frozenset("ab")},
    }
    up = serving(**facts)
    status = next_status(up, UNTRIED)
    assert (status.num_serve_endpoints, status.service_status) == (2, "Running")
    assert conditions(up)["Ready"] == ("True", "NonZeroServeEndpoints")
    down = serving(status=says(("Ready", "True", "NonZeroServeEndpoints")))
    assert conditions(down)["Ready"] == ("False", "ZeroServeEndpoints")
    assert next_status(down, UNTRIED).service_status == ""
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
    assert conditions(seen(said))["UpgradeInProgress"] == ("Unknown", "NoActiveCluster")


def test_an_invalid_spec_is_said_and_recovered_from() -> None:
    invalid = seen(violations=(Violation("spec.x", 1, "must be 2"),))
    assert conditions(invalid) == {"Ready": ("False", "ValidationFailed")}
    mended = seen(says(("Ready", "False", "ValidationFailed"), minutes=90))
    assert conditions(mended)["Ready"] == ("False", "Initializing")
    (ready, _) = next_status(mended, UNTRIED).conditions
    assert ready.last_transition_time == format_time(NOW)  # the time to become ready starts anew


def test_field_value_and_cure_are_told_by_event_and_condition() -> None:
    wrong = (Violation("spec.a", -1, "must be zero or more"), Violation("spec.b", "x", "remove it"))
    invalid = seen(violations=wrong)
    new = next_status(invalid, UNTRIED)
    [event] = announcements(invalid, new)
    [ready] = new.conditions
    said = 'spec.a: -1: must be zero or more; spec.b: "x": remove it'
    assert (event.type, event.note, ready.message) == ("Warning", said, said)


def test_the_time_to_become_ready_runs_out() -> None:
    spec = {"annotations": {"ray.io/initializing-timeout": "30m"}}
    initializing = ("Ready", "False", "Initializing")
    pending = {"pendingServiceStatus": {"rayClusterName": "demo-b"}}
    late = seen({**says(initializing, minutes=30), **pending}, spec=spec)
    status = next_status(late, UNTRIED)
    assert conditions(late)["Ready"] == ("False", "InitializingTimeout")
    assert status.pending_service_status.ray_cluster_name == ""
    early = seen({**says(initializing, minutes=29), **pending}, spec=spec)
    assert conditions(early)["Ready"] == ("False", "Initializing")
    wait = plan(early).wait
    assert wait is not None
    assert wait.retry_in == timedelta(minutes=1)


def test_a_service_that_was_ready_once_does_not_time_out() -> None:
    spec = {"annotations": {"ray.io/initializing-timeout": "30m"}}
    down = serving(spec=spec, status=says(("Ready", "False", "ZeroServeEndpoints"), minutes=90))
    assert conditions(down)["Ready"] == ("False", "ZeroServeEndpoints")


def test_suspension_says_first_and_deletes_then() -> None:
    asked = upgrading(spec={"suspend": True})
    assert plan(asked).actions == ()
    status = next_status(asked, UNTRIED)
    assert status.active_service_status == status.pending_service_status
    assert conditions(asked)["Suspending"] == ("True", "SuspendRequested")
    said = says(("Suspending", "True", "SuspendRequested"))
    doing = replace(serving(status=said), own_services=(serve_service("demo-a"),))
    kinds = [one.resource for one in plan(doing).actions if isinstance(one, Delete)]
    assert kinds == [SERVICES, RAY_CLUSTERS]
    assert conditions(doing)["Suspending"] == ("True", "SuspendInProgress")
    done = seen(said)
    assert conditions(done)["Suspended"] == ("True", "SuspendComplete")
    assert conditions(done)["Suspending"] == ("False", "SuspendComplete")


def test_resuming_starts_as_new() -> None:
    said = says(("Suspended", "True", "x"), ("Suspending", "False", "x"), ("Ready", "False", "x"))
    assert conditions(seen(said)) == {
        "Suspended": ("False", "RayServiceResumed"),
        "Suspending": ("False", "x"),
        "Ready": ("False", "Initializing"),
        "UpgradeInProgress": ("False", "Initializing"),
    }


def test_conditions_carry_the_generation_that_they_speak_of() -> None:
    snapshot = with_meta(serving(), generation=5)
    status = next_status(snapshot, UNTRIED)
    assert status.observed_generation == 5
    assert {one.observed_generation for one in status.conditions} == {5}


def test_an_unchanged_status_keeps_its_time() -> None:
    snapshot = serving()
    first = next_status(snapshot, UNTRIED)
    service = msgspec.structs.replace(snapshot.service, status=first)
    later = replace(snapshot, service=service, now=NOW + timedelta(hours=1))
    assert next_status(later, UNTRIED) == first


def test_c28_the_clusters_own_status_is_shown() -> None:
    snapshot = serving()
    assert snapshot.active is not None
    shown = next_status(snapshot, UNTRIED).active_service_status.ray_cluster_status
    assert shown == snapshot.active.cluster.status


def test_while_serve_says_nothing_its_last_words_stand() -> None:
    app = {"app": {"status": "RUNNING"}}
    side = {"rayClusterName": "demo-a", "applicationStatuses": app}
    snapshot = serving(
        status={"activeServiceStatus": side}, active=a_sight("demo-a", answer=NotAsked())
    )
    shown = next_status(snapshot, UNTRIED).active_service_status.application_statuses
    assert shown["app"].status == "RUNNING"


def test_what_is_submitted_comes_last() -> None:
    """A Ray that refuses a config must not hold up the Services."""
    snapshot = serving(
        spec={"serveConfigV2": "applications: [{name: new}]"}, active=serving().active
    )
    stages = plan(snapshot).stages
    at = next(n for n, stage in enumerate(stages) if isinstance(stage.actions[0], Call))
    assert all(stage.independent for stage in stages[:at])
    assert len(stages) == at + 1


def test_a_condition_of_another_owner_is_left_alone() -> None:
    theirs = Condition(type="Theirs", status="True")
    snapshot = serving()
    status = msgspec.structs.replace(snapshot.status, conditions=(theirs,))
    service = msgspec.structs.replace(snapshot.service, status=status)
    assert theirs in next_status(replace(snapshot, service=service), UNTRIED).conditions


def test_an_application_that_fails_in_place_is_named_although_requests_are_taken() -> None:
    failing = Told({"app": AppStatus(status="DEPLOY_FAILED", message="boom")})
    facts = {
        "serve_service": serve_service("demo-a"),
        "endpoints": {"demo-serve-svc": frozenset("a")},
    }
    snapshot = serving(active=a_sight("demo-a", answer=failing), **facts)
    status = next_status(snapshot, UNTRIED)
    ready = status.conditions[0]
    assert (ready.type, ready.status) == ("Ready", "True")
    assert 'application "app" is DEPLOY_FAILED: boom' in ready.message
    quiet = serving(active=a_sight("demo-a", answer=NotAsked()), **facts)
    assert next_status(quiet, UNTRIED).conditions[0].message == "1 Pod takes requests"
