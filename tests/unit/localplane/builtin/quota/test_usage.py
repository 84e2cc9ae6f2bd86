"""Counting what a quota limits."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from manta.localplane.builtin.quota.usage import Holdings, next_status
from manta.localplane.builtin.views import Pod, Quota, Service
from support.plane_objects import a_pod


def used(hard: dict[str, str], held: Holdings, **spec: Any) -> dict[str, Any]:
    quota = msgspec.convert({"spec": {"hard": hard, **spec}}, Quota)
    return dict(next_status(quota, held).used or {})


def test_requests_and_limits_of_living_pods_add_up() -> None:
    limits: dict[str, Any] = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}
    pods = (
        a_pod("a", cpu="500m", memory="1Gi"),
        a_pod("b", cpu="1"),
        a_pod("done", cpu="9", phase="Succeeded"),
        a_pod("limited", **limits),
    )
    hard = {"cpu": "9", "requests.cpu": "9", "memory": "9", "limits.cpu": "9", "pods": "9"}
    assert used(hard, Holdings(pods)) == {
        "cpu": "1500m",
        "requests.cpu": "1500m",
        "memory": "1Gi",
        "limits.cpu": "2",
        "pods": "3",
    }


def test_nothing_used_is_zero() -> None:
    assert used({"cpu": "1", "count/jobs.batch": "2"}, Holdings()) == {
        "cpu": "0",
        "count/jobs.batch": "0",
    }


def test_objects_are_counted_by_kind() -> None:
    services = tuple(
        msgspec.convert({"spec": {"type": one, "ports": [{"port": 1}, {"port": 2}]}}, Service)
        for one in ("ClusterIP", "NodePort", "LoadBalancer")
    )
    held = Holdings(services=services, counts={"secrets": 4, "rayclusters.ray.io": 2})
    hard = {
        "services": "9",
        "services.nodeports": "9",
        "services.loadbalancers": "9",
        "secrets": "9",
        "count/rayclusters.ray.io": "9",
    }
    assert list(used(hard, held).values()) == ["3", "4", "1", "4", "2"]


def test_storage_is_summed_over_claims() -> None:
    held = Holdings(claims=({"storage": "1Gi"}, {"storage": "512Mi"}))
    assert used({"requests.storage": "9Gi"}, held) == {"requests.storage": "1536Mi"}


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        ("BestEffort", 1),
        ("NotBestEffort", 2),
        ("Terminating", 1),
        ("NotTerminating", 2),
    ],
)
def test_scopes_choose_which_pods_count(scope: str, names: int) -> None:
    pods = (
        a_pod("plain"),
        a_pod("greedy", cpu="1"),
        a_pod("brief", cpu="1", activeDeadlineSeconds=5),
    )
    assert used({"pods": "9"}, Holdings(pods), scopes=[scope]) == {"pods": str(names)}


def test_a_priority_class_is_a_scope_too() -> None:
    pods = (a_pod("a", priorityClassName="high"), a_pod("b"))
    expression = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    selector = {"matchExpressions": [expression]}
    assert used({"pods": "9"}, Holdings(pods), scopeSelector=selector) == {"pods": "1"}


def test_an_init_container_counts_where_it_is_the_greediest() -> None:
    spec = {
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "3"}}}],
    }
    pod = msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)
    assert used({"cpu": "9"}, Holdings((pod,))) == {"cpu": "3"}
