"""What runs goes before what the spec says: an edit of the port of Serve moves nothing that leads to a running head."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from manta.api.core import Pod
from manta.controllers.rayservice.dashboard_query import dashboard_query
from manta.controllers.rayservice.facts.canary import canary_obstacle
from manta.controllers.rayservice.planners.gateway import plan_route
from manta.controllers.rayservice.planners.services import plan_cluster_serve_service
from manta.controllers.rayservice.snapshot import ClusterView, ServiceSnapshot
from manta.manifests.head_pod import build_head_pod
from manta.reconcile.actions import Create
from manta.rules.settings import Settings
from support.rayservice_objects import (
    a_cluster,
    a_view,
    cluster_config,
    listening,
    serving,
    upgrading,
)

TOKEN = {"mode": "token"}


def config(port: int) -> dict[str, Any]:
    found = cluster_config()
    ray = found["headGroupSpec"]["template"]["spec"]["containers"][0]
    ray["ports"] = [{"name": "serve", "containerPort": port}]
    return found


def edited(name: str = "demo-a", head: Pod | None = None) -> ClusterView:
    """The spec says 9000, and the head listens at 8000."""
    cluster = a_cluster(name, rayClusterConfig=config(9000))
    return a_view(name, cluster, head_pod=head or listening(8000))


def snapshot(head: Pod | None = None) -> ServiceSnapshot:
    return serving(active=edited(head=head))


@pytest.mark.parametrize("port", [8000, 9000])
def test_requests_are_routed_to_where_the_running_head_listens(port: int) -> None:
    one = snapshot(listening(port))
    assert one.active is not None
    [route] = plan_route(one, 100, None).actions
    [service] = plan_cluster_serve_service(one, one.active).actions
    assert isinstance(route, Create)
    assert isinstance(service, Create)
    [backend] = route.manifest["spec"]["rules"][0]["backendRefs"]
    assert backend["port"] == port
    assert [one["port"] for one in service.manifest["spec"]["ports"]] == [port]


@pytest.mark.parametrize("port", [8000, 9000])
def test_the_proxy_is_probed_where_the_running_head_listens(port: int) -> None:
    one = snapshot(listening(port))
    assert one.active is not None
    query = dashboard_query(one, one.active)
    assert query is not None
    assert query.proxy_port == port


def test_one_service_can_split_traffic_between_heads_that_listen_alike() -> None:
    one = upgrading(active=edited(), pending=edited("demo-b", listening(8000)))
    assert "serve ports" not in canary_obstacle(one)
    one = replace(one, pending=edited("demo-b", listening(9000)))
    assert "the serve ports" in canary_obstacle(one)


@pytest.mark.parametrize(
    ("before", "after", "secret"), [(TOKEN, None, "demo-a"), (None, TOKEN, "")]
)
def test_the_dashboard_gets_the_token_that_the_running_head_knows(
    before: Any, after: Any, secret: str
) -> None:
    """An edit of a RayCluster beneath its RayService."""
    started, cluster = (
        a_cluster("demo-a", rayClusterConfig=cluster_config(authOptions=one))
        for one in (before, after)
    )
    head = msgspec.convert(build_head_pod(started, Settings(), spec_hash=""), Pod)
    one = serving(active=a_view("demo-a", cluster, head_pod=head))
    assert one.active is not None
    query = dashboard_query(one, one.active)
    assert query is not None
    assert query.secret == secret
