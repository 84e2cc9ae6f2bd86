"""Objects with a RayJob's name, or named in its status, may have another owner."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.api.core import Service, ServiceSpec
from manta.api.meta import ObjectMeta
from manta.api.ray.cluster import RayCluster
from manta.api.ray.resources import RAY_CLUSTERS
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.plan import stage_step
from manta.reconcile.actions import Patch
from support.rayjob import a_cluster, a_head, a_job, a_snapshot, planned, status_after

RUNNING = {
    "jobDeploymentStatus": "Running",
    "jobStatus": "RUNNING",
    "jobId": "demo-12345",
    "rayClusterName": "demo-abcde",
}
ENDED = {
    **RUNNING,
    "jobDeploymentStatus": "Complete",
    "jobStatus": "SUCCEEDED",
    "endTime": "2026-01-01T11:59:00Z",
}


def shared_cluster() -> RayCluster:
    cluster = a_cluster()
    meta = msgspec.structs.replace(cluster.metadata, owner_references=())
    return msgspec.structs.replace(cluster, metadata=meta)


@pytest.mark.parametrize(
    ("status", "spec"),
    [
        (ENDED, {"shutdownAfterJobFinishes": True}),
        ({**RUNNING, "jobDeploymentStatus": "Suspending"}, {"suspend": True}),
        ({**RUNNING, "jobDeploymentStatus": "Retrying"}, {"backoffLimit": 1}),
    ],
)
def test_an_edit_does_not_change_the_owner_of_a_borrowed_cluster(
    status: dict[str, Any], spec: dict[str, Any]
) -> None:
    """A clusterSelector borrowed it, and the spec no longer has that selector."""
    mine = planned(a_snapshot(status, spec=spec, cluster=a_cluster()))
    assert [one.resource for one in mine.actions if not isinstance(one, Patch)] == [RAY_CLUSTERS]
    assert planned(a_snapshot(status, spec=spec, cluster=shared_cluster())).actions == ()


def head_service(owner: str, selector: dict[str, str]) -> Service:
    reference = {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "name": "demo",
        "uid": owner,
        "controller": True,
    }
    meta = msgspec.convert(
        {"name": "demo-head-svc", "namespace": "default", "ownerReferences": [reference]},
        ObjectMeta,
    )
    return Service(metadata=meta, spec=ServiceSpec(selector=selector, cluster_ip="None"))


def service_patches(owner: str, selector: dict[str, str]) -> list[Any]:
    facts = a_snapshot(
        RUNNING,
        cluster=a_cluster(),
        head_pod=a_head(),
        runtime_env={},
        job_head_service=head_service(owner, selector),
    )
    return [one for one in planned(facts).actions if one.cause is Cause.HEAD_SERVICE_DRIFT]


def test_the_head_service_of_a_cluster_of_the_same_name_is_left_alone() -> None:
    assert service_patches("of-a-raycluster", {"ray.io/cluster": "demo"}) == []


def test_keys_that_left_the_selector_are_removed() -> None:
    [patch] = service_patches(a_job().metadata.uid, {"ray.io/cluster": "demo-old", "extra": "x"})
    selector = patch.patch["spec"]["selector"]
    assert selector["extra"] is None
    assert selector["ray.io/cluster"] == "demo-abcde"


def test_a_job_that_is_no_longer_interactive_gets_an_id_before_anything_else() -> None:
    begun = {"jobDeploymentStatus": "Initializing", "rayClusterName": "demo-abcde"}
    snapshot = a_snapshot(begun, cluster=a_cluster(), head_pod=a_head(), runtime_env={})
    assert stage_step(snapshot).plan.actions == ()
    assert status_after(snapshot).job_id.startswith("demo-")
