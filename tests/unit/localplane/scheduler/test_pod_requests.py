"""What a Pod asks of a node."""

from __future__ import annotations

import msgspec

from manta.localplane.builtin.views import Pod
from manta.localplane.scheduler.node_cache import host_ports, pod_requests


def pod_with(**spec: object) -> Pod:
    return msgspec.convert({"spec": spec}, Pod)


def container(cpu: str, **more: object) -> dict[str, object]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


def test_containers_add_up() -> None:
    assert pod_requests(pod_with(containers=[container("500m"), container("1")])) == {"cpu": 1500}


def test_an_init_container_counts_only_where_it_needs_more_than_the_rest() -> None:
    small = pod_with(containers=[container("1")], initContainers=[container("500m")])
    large = pod_with(containers=[container("1")], initContainers=[container("3")])
    assert pod_requests(small) == {"cpu": 1000}
    assert pod_requests(large) == {"cpu": 3000}


def test_a_sidecar_adds_to_the_containers_and_to_later_init_containers() -> None:
    pod = pod_with(
        containers=[container("1")],
        initContainers=[container("1", restartPolicy="Always"), container("2")],
    )
    assert pod_requests(pod) == {"cpu": 3000}


def test_limits_stand_in_for_missing_requests_and_overhead_is_added() -> None:
    only_limits = {"name": "c", "resources": {"limits": {"memory": "1Gi"}}}
    pod = pod_with(containers=[only_limits], overhead={"memory": "1Mi"})
    assert pod_requests(pod) == {"memory": 1024**3 + 1024**2}


def test_host_ports_differ_by_protocol() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]
    assert host_ports(pod_with(containers=[{"name": "c", "ports": ports}])) == {("TCP", 8080)}
