"""Views of core objects: what is read, what is skipped, what is never lost."""

from __future__ import annotations

import msgspec
import pytest

from manta.api.conditions import is_true
from manta.api.core import Pod, SecretData, Service, ServicePort
from support.builders_api import a_ray_worker_pod


def decoded() -> Pod:
    return msgspec.json.decode(msgspec.json.encode(a_ray_worker_pod(7)), type=Pod)


def test_a_pod_is_seen_by_its_needed_fields() -> None:
    pod = decoded()
    assert str(pod.metadata.key) == "default/raycluster-sample-small-group-worker-00007"
    assert pod.metadata.controller is not None
    assert pod.metadata.controller.kind == "RayCluster"
    assert pod.metadata.labels["ray.io/group"] == "small-group"
    assert pod.spec.node_name == "node-1"
    assert pod.spec.restart_policy == "Always"
    assert pod.spec.containers[0].resources.limits == {"cpu": "1", "memory": "1Gi"}
    assert pod.status.phase == "Running"
    assert pod.status.pod_ip == "10.0.0.8"
    assert is_true(pod.status.conditions, "Ready")


def test_a_container_status_tells_this_life_and_the_last() -> None:
    status = decoded().container_status("ray-worker")
    assert status is not None
    assert status.ready
    assert status.restart_count == 1
    assert status.state.running is not None
    assert status.last_state.terminated is not None
    assert status.last_state.terminated.exit_code == 137
    assert status.last_state.terminated.reason == "OOMKilled"


def test_init_containers_have_their_own_statuses() -> None:
    pod = decoded()
    assert pod.container_status("wait-gcs-ready") is None
    [status] = pod.status.init_container_statuses
    assert status.name == "wait-gcs-ready"
    assert status.state.terminated is not None
    assert status.state.terminated.exit_code == 0


def test_a_view_cannot_be_changed() -> None:
    pod = decoded()
    with pytest.raises(AttributeError):
        pod.status.phase = "Failed"  # type: ignore[misc]


def test_an_empty_object_decodes_to_empty_values() -> None:
    pod = msgspec.json.decode(b"{}", type=Pod)
    assert pod.status.phase == "Pending"
    assert pod.metadata.name == ""


def test_a_service_port_is_found_by_name_and_may_point_at_a_name() -> None:
    service = msgspec.convert(
        {
            "spec": {
                "clusterIP": "None",
                "ports": [
                    {"name": "dashboard", "port": 8265, "targetPort": 8265},
                    {"name": "serve", "port": 8000, "targetPort": "serve"},
                ],
            }
        },
        Service,
    )
    assert service.headless
    assert service.port("serve") == ServicePort(name="serve", port=8000, target_port="serve")
    assert service.port("absent") is None


def test_secret_data_does_not_show_in_a_log() -> None:
    secret = SecretData(data={"auth_token": "c2VjcmV0"})
    assert "c2VjcmV0" not in repr(secret)
    assert "auth_token" in repr(secret)
