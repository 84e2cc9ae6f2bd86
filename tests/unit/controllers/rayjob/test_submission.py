"""The dashboard's address as the submitter reaches it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.api.core import Service
from manta.api.ray.cluster import RayCluster
from manta.controllers.rayjob.head_service import plan_head_service
from manta.controllers.rayjob.submission import submission
from manta.manifests.job_cluster import build_job_head_service
from manta.reconcile.actions import Patch
from support.raycluster import ray_cluster
from support.rayjob import a_cluster, a_snapshot, running


@pytest.mark.parametrize(
    ("ports", "params", "port"),
    [
        ([{"name": "dashboard", "containerPort": 8299}], {}, 8299),
        ([{"name": "dashboard", "containerPort": 8299}], {"dashboard-port": "9"}, 8299),
        ([], {"dashboard-port": "8301"}, 8301),
        ([], {}, 8265),
    ],
)
def test_a_sidecar_finds_the_dashboard_by_the_containers_port(
    ports: list[Any], params: dict[str, str], port: int
) -> None:
    """S13."""
    spec = ray_cluster()["spec"]
    spec["headGroupSpec"]["rayStartParams"] = params
    spec["headGroupSpec"]["template"]["spec"]["containers"][0]["ports"] = ports
    snapshot = a_snapshot(spec={"submissionMode": "SidecarMode", "rayClusterSpec": spec})
    assert submission(snapshot).address == f"127.0.0.1:{port}"


def test_the_jobs_head_service_has_the_users_annotations() -> None:
    """S4."""
    document = ray_cluster("demo-abcde")
    internal = {"cloud.example/load-balancer": "internal"}
    custom = {"metadata": {"annotations": internal}}
    document["spec"]["headGroupSpec"]["headService"] = custom
    spec = msgspec.convert(document, RayCluster).spec
    cluster = msgspec.structs.replace(a_cluster(), spec=spec)
    snapshot = running(cluster=cluster)
    made = build_job_head_service(snapshot.job, cluster, snapshot.settings, snapshot.head_pod)
    assert internal.items() <= made["metadata"]["annotations"].items()
    made["metadata"]["annotations"] = {"by": "others"}
    (patch,) = plan_head_service(
        running(cluster=cluster, job_head_service=msgspec.convert(made, Service))
    ).actions
    assert isinstance(patch, Patch)
    assert internal.items() <= patch.patch["metadata"]["annotations"].items()
    assert "by" not in patch.patch["metadata"]["annotations"]
