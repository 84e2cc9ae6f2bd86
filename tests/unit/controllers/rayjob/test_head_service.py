"""`<rayjob>-head-svc` leads to the head that runs, by its ports and in the type that the spec asks for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.api.core import Service
from manta.api.ray.cluster import RayCluster
from manta.controllers.rayjob.events import Cause
from manta.controllers.rayjob.head_service import plan_head_service
from manta.controllers.rayjob.snapshot import JobSnapshot
from manta.localplane.apiserver.builtin_kinds.defaults.services import default_service
from manta.manifests.head_pod import build_head_pod
from manta.manifests.job_cluster import build_job_head_service
from manta.reconcile.actions import Delete, Patch
from manta.rules.settings import Settings
from support.raycluster import container, ray_cluster, template
from support.rayjob import a_cluster, a_head, a_job, running

Json = dict[str, Any]


def with_head(port: int = 8265, **head: Any) -> RayCluster:
    """The dashboard listens at this port."""
    ports = [{"name": "dashboard", "containerPort": port}]
    group = {"template": template(container(ports=ports)), **head}
    spec = msgspec.convert(ray_cluster("demo-abcde", head=group), RayCluster).spec
    return msgspec.structs.replace(a_cluster(), spec=spec)


def head_of(cluster: RayCluster) -> Any:
    pod = msgspec.convert(build_head_pod(cluster, Settings(), spec_hash=""), type(a_head()))
    return msgspec.structs.replace(pod, metadata=a_head().metadata)


def service_of(cluster: RayCluster, uid: str = "svc") -> Service:
    made = build_job_head_service(a_job(), cluster, Settings(), head_of(cluster))
    made["metadata"]["uid"] = uid
    return msgspec.convert(made, Service)


def running_on(cluster: RayCluster, service: Service, **facts: Any) -> JobSnapshot:
    return running(
        cluster=cluster, job_head_service=service, **{"head_pod": head_of(cluster), **facts}
    )


def change(snapshot: JobSnapshot) -> Json:
    [patch] = plan_head_service(snapshot).actions
    assert isinstance(patch, Patch)
    assert patch.cause is Cause.HEAD_SERVICE_DRIFT
    return dict(patch.patch["spec"])


def without_nulls(value: Any) -> Any:
    """The API server stores none."""
    if isinstance(value, list):
        return [without_nulls(one) for one in value]
    if isinstance(value, dict):
        return {name: without_nulls(one) for name, one in value.items() if one is not None}
    return value


def ports(spec: Json) -> dict[str, int]:
    return {one["name"]: one["port"] for one in spec["ports"]}


@pytest.mark.parametrize("type_", ["ClusterIP", "NodePort", "LoadBalancer"])
def test_nothing_is_written_while_it_is_right(type_: str) -> None:
    cluster = with_head(serviceType=type_)
    assert plan_head_service(running_on(cluster, service_of(cluster))).actions == ()


@pytest.mark.parametrize(
    "spec",
    [
        {"type": ""},
        {"type": None},
        {"sessionAffinity": ""},
        {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {}}},
        {"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": None}},
        {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 5}}},
        {"ports": [{"name": "dashboard", "port": 8265, "targetPort": 0}]},
        {"ports": [{"name": "dashboard", "port": 8265, "targetPort": ""}]},
        {"ports": [{"name": "dashboard", "port": 8265, "targetPort": None}]},
        {"ports": [{"name": "dashboard", "port": 8265, "protocol": ""}]},
        {"ports": [{"name": "dashboard", "port": 8265, "appProtocol": None}]},
        {"ports": [{"name": "dashboard", "port": 8265, "fieldOfTheFuture": 1}]},
    ],
    ids=str,
)
def test_nothing_is_written_for_the_defaults_of_the_api_server(spec: Json) -> None:
    """They would otherwise be written back in every reconcile."""
    cluster = with_head(headService={"spec": spec})
    stored = without_nulls(build_job_head_service(a_job(), cluster, Settings(), head_of(cluster)))
    default_service(stored)
    live = msgspec.convert(stored, Service)
    assert plan_head_service(running_on(cluster, live)).actions == ()


def test_a_subfield_that_the_spec_names_is_followed() -> None:
    config = {"clientIP": {"timeoutSeconds": 5}}
    spec = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": config}
    live = service_of(with_head(headService={"spec": {"sessionAffinity": "ClientIP"}}))
    found = change(running_on(with_head(headService={"spec": spec}), live))
    assert found == {"sessionAffinityConfig": config}


def test_a_port_that_the_api_server_will_refuse_stops_no_rayjob() -> None:
    wrong = with_head(headService={"spec": {"ports": [{"name": "dashboard"}]}})
    live = service_of(with_head(headService={"spec": {"type": "ClusterIP"}}))
    assert {"name": "dashboard"} in change(running_on(wrong, live))["ports"]


def test_the_ports_of_the_next_attempt_take_the_place_of_those_of_the_last() -> None:
    """A suspended RayJob may be edited."""
    edited = with_head(9265)
    assert ports(change(running_on(edited, service_of(with_head())))) == {
        "dashboard": 9265,
        "metrics": 8080,
    }
    assert ports(change(running_on(edited, service_of(with_head()), head_pod=None))) == {
        "dashboard": 9265,
        "metrics": 8080,
    }


def test_an_edit_of_the_cluster_moves_nothing_while_its_head_runs() -> None:
    edited, before = with_head(9265), with_head()
    snapshot = running_on(edited, service_of(before), head_pod=head_of(before))
    assert plan_head_service(snapshot).actions == ()


def test_another_type_is_taken_over() -> None:
    node_port = service_of(with_head(serviceType="NodePort"))
    spec = change(running_on(with_head(serviceType="LoadBalancer"), node_port))
    assert spec["type"] == "LoadBalancer"


def test_a_service_that_moves_to_another_cluster_says_so() -> None:
    """The Event is how a user sees that a retry runs elsewhere."""
    cluster, live = with_head(), service_of(with_head())
    selector = {**live.spec.selector, "ray.io/cluster": "demo-before"}
    live = msgspec.structs.replace(live, spec=msgspec.structs.replace(live.spec, selector=selector))
    [patch] = plan_head_service(running_on(cluster, live)).actions
    assert isinstance(patch, Patch)
    assert patch.why == "it now selects RayCluster demo-abcde"


@pytest.mark.parametrize("types", [("ClusterIP", "NodePort"), ("NodePort", "ClusterIP")])
def test_a_service_that_becomes_headless_or_not_is_made_again(types: tuple[str, str]) -> None:
    """Kubernetes refuses the change."""
    old, new = (with_head(serviceType=one) for one in types)
    live = service_of(old)
    [delete] = plan_head_service(running_on(new, live)).actions
    assert isinstance(delete, Delete)
    assert (delete.uid, delete.cause) == ("svc", Cause.DELETE_HEAD_SERVICE)
    meta = msgspec.structs.replace(live.metadata, deletion_timestamp="2026-01-01T12:00:00Z")
    leaving = msgspec.structs.replace(live, metadata=meta)
    assert plan_head_service(running_on(new, leaving)).actions == ()
