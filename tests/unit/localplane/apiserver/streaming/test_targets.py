"""Which Pod, container and port is meant."""

from __future__ import annotations

import pytest

from manta.api.resources import ENDPOINT_SLICES, PODS, SERVICES
from manta.localplane.apiserver.status_errors import StatusError
from manta.localplane.apiserver.streaming.targets import (
    Address,
    choose_container,
    pod_address,
    service_address,
)
from support.plane import memory_plane


def pod(*names, init=()):
    spec = {
        "containers": [{"name": name} for name in names],
        "initContainers": [{"name": name} for name in init],
    }
    return {"metadata": {"name": "p"}, "spec": spec}


def test_the_only_container_need_not_be_named() -> None:
    assert choose_container(pod("c"), "") == "c"
    assert choose_container(pod("c", "d", init=("i",)), "i") == "i"


def test_a_pod_with_several_containers_needs_a_name() -> None:
    with pytest.raises(StatusError, match=r"choose one of: \[c d\] or one of the init containers"):
        choose_container(pod("c", "d", init=("i",)), "")
    with pytest.raises(StatusError, match="container x is not valid for pod p"):
        choose_container(pod("c"), "x")


async def test_addresses_are_found() -> None:
    ports = [{"name": "web", "containerPort": 8000}]
    spec = {"containers": [{"name": "c", "image": "i", "ports": ports}]}
    async with memory_plane() as plane:
        core = plane.app.core
        await plane.client.create(PODS, "default", {"metadata": {"name": "p"}, "spec": spec})
        for text in ("p", "p:web", "p:8000", "http:p:8000"):
            assert pod_address(core, "default", text) == Address("default", "p", 8000)
        with pytest.raises(StatusError):
            pod_address(core, "default", "https:p:8000")
        with pytest.raises(StatusError):
            pod_address(core, "default", "p:nope")
        service = {"metadata": {"name": "s"}, "spec": {"ports": [{"name": "h", "port": 80}]}}
        await plane.client.create(SERVICES, "default", service)
        with pytest.raises(StatusError, match="no endpoints available"):
            service_address(core, "default", "s:80")
        await plane.client.create(
            ENDPOINT_SLICES,
            "default",
            {
                "metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}},
                "addressType": "IPv4",
                "ports": [{"name": "h", "port": 8000}],
                "endpoints": [
                    {"addresses": ["10.0.0.1"], "targetRef": {"kind": "Pod", "name": "p"}},
                    {
                        "addresses": ["10.0.0.2"],
                        "conditions": {"ready": False},
                        "targetRef": {"kind": "Pod", "name": "q"},
                    },
                ],
            },
        )
        for text in ("s:80", "s:h", "s"):
            assert service_address(core, "default", text) == Address("default", "p", 8000)
        with pytest.raises(StatusError, match="no service port"):
            service_address(core, "default", "s:81")
