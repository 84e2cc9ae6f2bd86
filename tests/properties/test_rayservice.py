"""The RayService controller on any snapshot: it always plans, deterministically and within bounds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from manta.api.ray.resources import RAY_CLUSTERS
from manta.api.times import format_time
from manta.controllers.rayservice.events import Cause
from manta.controllers.rayservice.facts.phase import Phase, phase
from manta.controllers.rayservice.snapshot import (
    ClusterView,
    DashboardReply,
    DashboardUnreachable,
    NotQueried,
    ServiceSnapshot,
)
from manta.reconcile.actions import Create, Delete
from manta.reconcile.outcome import UNTRIED, Failure, Outcome, Result
from support.canary import canary
from support.rayservice_objects import (
    NOW,
    a_cluster,
    a_pod,
    a_snapshot,
    a_view,
    incremental,
    planned,
    running,
    scaled_config,
    status_after,
)

IMAGES = ("rayproject/ray:2.60.0", "rayproject/ray:2.61.0")
GIVING_BACK = (Phase.DELETING, Phase.SUSPENDING, Phase.SUSPENDED, Phase.SUSPEND_REQUESTED)

shares = st.none() | st.sampled_from([0, 25, 50, 100])
moments = st.none() | st.integers(0, 60).map(lambda age: format_time(NOW - timedelta(seconds=age)))
specs = st.fixed_dictionaries(
    {"rayClusterConfig": st.sampled_from(IMAGES).map(scaled_config)},
    optional={
        "suspend": st.booleans(),
        "upgradeStrategy": st.sampled_from(
            [{"type": "NewCluster"}, {"type": "None"}, incremental(), canary()]
        ),
        "rayClusterDeletionDelaySeconds": st.sampled_from([0, 0, 0, 30]),
        "excludeHeadPodFromServeSvc": st.booleans(),
    },
)
answers = st.sampled_from(
    [
        NotQueried(),
        DashboardUnreachable("it hangs"),
        DashboardReply({}),
        running(),
        running("other"),
    ]
)


@st.composite
def views(draw: st.DrawFn, name: str) -> ClusterView | None:
    if not draw(st.integers(0, 4)):
        return None
    made = a_cluster(name, rayClusterConfig=scaled_config(draw(st.sampled_from(IMAGES))))
    head = a_pod(f"{name}-head", head=True, serves=draw(st.booleans()), ready=draw(st.booleans()))
    worker = a_pod(f"{name}-worker", ready=draw(st.booleans()))
    pods = (head, worker) if draw(st.booleans()) else (head,)
    is_there = draw(st.booleans())
    return a_view(
        name,
        made,
        head_pod=head if is_there else None,
        pods=pods if is_there else (),
        answer=draw(answers),
        proxy_healthy=draw(st.none() | st.booleans()),
    )


@st.composite
def sides(draw: st.DrawFn, name: str) -> dict[str, Any]:
    found = {
        "rayClusterName": draw(st.sampled_from(["", name, name])),
        "targetCapacity": draw(shares),
        "trafficRoutedPercent": draw(shares),
        "lastTrafficMigratedTime": draw(moments),
    }
    return {key: value for key, value in found.items() if value is not None}


@st.composite
def snapshots(draw: st.DrawFn) -> ServiceSnapshot:
    status = {
        "activeServiceStatus": draw(sides("demo-a")),
        "pendingServiceStatus": draw(sides("demo-b")),
    }
    active, pending = draw(views("demo-a")), draw(views("demo-b"))
    if not status["activeServiceStatus"]["rayClusterName"]:
        active = None
    if not status["pendingServiceStatus"]["rayClusterName"]:
        pending = None
    looked = a_snapshot(
        status, spec=draw(specs), active=active, pending=pending, seed=draw(st.integers(0, 3))
    )
    if draw(st.integers(0, 4)):
        return looked
    meta = msgspec.structs.replace(looked.service.metadata, deletion_timestamp=format_time(NOW))
    service = msgspec.structs.replace(looked.service, metadata=meta)
    return ServiceSnapshot(**{**looked.__dict__, "service": service})


@given(snapshots())
def test_two_plans_from_one_snapshot_agree(looked: ServiceSnapshot) -> None:
    assert planned(looked) == planned(looked)
    assert status_after(looked, UNTRIED) == status_after(looked, UNTRIED)


@given(snapshots(), st.booleans())
def test_every_outcome_has_a_status(looked: ServiceSnapshot, fails: bool) -> None:
    actions = planned(looked).actions
    failures = tuple(Failure(one, RuntimeError("injected")) for one in actions) if fails else ()
    done = () if fails else tuple(Result(one, one.key) for one in actions)
    status_after(looked, Outcome(done, failures))


@given(snapshots())
def test_nothing_is_created_or_deleted_out_of_bounds(looked: ServiceSnapshot) -> None:
    actions = planned(looked).actions
    deletes = [one for one in actions if isinstance(one, Delete)]
    assert all(one.uid for one in deletes)
    assert len({(one.resource, one.key) for one in deletes}) == len(deletes)
    made = [one for one in actions if isinstance(one, Create) and one.resource == RAY_CLUSTERS]
    assert len(made) + len(looked.clusters) <= max(2, len(looked.clusters))
    if phase(looked) in GIVING_BACK:
        assert made == []
    else:
        going = {one.key.name for one in deletes if one.resource == RAY_CLUSTERS}
        assert looked.active_name not in going, "the cluster that serves is deleted"


@given(snapshots())
def test_a_clusters_name_is_in_the_status_before_the_cluster_is_created(
    looked: ServiceSnapshot,
) -> None:
    known = {looked.active_name, looked.pending_name} - {""}
    for one in planned(looked).actions:
        if one.cause == Cause.CREATE_CLUSTER:
            assert one.key.name in known


@given(snapshots())
def test_traffic_and_capacity_stay_within_their_bounds(looked: ServiceSnapshot) -> None:
    status = status_after(looked, UNTRIED)
    sides = (status.active_service_status, status.pending_service_status)
    for side in sides:
        assert side.target_capacity is None or 0 <= side.target_capacity <= 100
        assert side.traffic_routed_percent is None or 0 <= side.traffic_routed_percent <= 100
