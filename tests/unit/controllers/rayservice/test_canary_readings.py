"""Which figures of a canary are read, and what they say of requests that get no answer."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from manta.api.core import Container, ContainerPort, Pod, Service, ServiceSpec
from manta.api.meta import ObjectMeta
from manta.api.ray import names
from manta.controllers.rayservice.canary_readings import CanaryReadings
from manta.controllers.rayservice.canary_subjects import Subject, subjects
from manta.controllers.rayservice.snapshot import ServiceSnapshot
from manta.manifests.serve_services import shared_selector
from manta.ray.transport import Reply
from support.canary import canary
from support.rayservice_objects import a_pod, a_view, upgrading
from support.virtual import running, virtually
from support.virtual_time import virtual_clock

LIMITS = {"maxErrorPercent": 2, "windowSeconds": 60, "intervalSeconds": 10}


def serving_pod(name: str, *ports: ContainerPort) -> Pod:
    pod = a_pod(name)
    labels = {**pod.metadata.labels, names.LABEL_SERVING: "demo"}
    spec = msgspec.structs.replace(pod.spec, containers=(Container(name="ray", ports=ports),))
    meta = msgspec.structs.replace(pod.metadata, labels=labels)
    return msgspec.structs.replace(pod, metadata=meta, spec=spec)


def a_canary(*new: Pod) -> ServiceSnapshot:
    """The Service selects these Pods of the new cluster and one of the old."""
    one = upgrading(
        spec={"upgradeStrategy": canary(analysis=LIMITS)},
        status={"pendingServiceStatus": {"rayClusterName": "demo-b", "trafficRoutedPercent": 25}},
        active=a_view("demo-a", pods=(serving_pod("a1"),)),
    )
    assert one.pending is not None
    service = Service(
        metadata=ObjectMeta(name="demo-serve-svc"),
        spec=ServiceSpec(selector=shared_selector(one.service)),
    )
    return replace(one, serve_service=service, pending=replace(one.pending, pods=new))


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ((), 8080),
        ((ContainerPort(name="serve", container_port=8000),), 8080),
        (
            (
                ContainerPort(name="serve", container_port=8000),
                ContainerPort(name="metrics", container_port=9100),
            ),
            9100,
        ),
    ],
    ids=["none declared", "another one", "declared"],
)
def test_metrics_are_read_at_the_port_that_the_pod_names(ports: Any, expected: int) -> None:
    one = a_canary(serving_pod("b1", *ports))
    assert one.pending is not None
    assert [(found.name, found.port) for found in subjects(one, one.pending)] == [("b1", expected)]


@virtually
@pytest.mark.parametrize(
    ("waits_from", "hangs"), [(0.0, 3), (20.0, 0)], ids=["whole window", "part of the window"]
)
async def test_requests_hang_only_if_some_waited_through_a_whole_window(
    waits_from: float, hangs: int
) -> None:
    """A request that takes long is none yet that gets no answer."""
    clock = virtual_clock()
    began = clock.monotonic()

    async def read(subject: Subject) -> Reply:
        waits = 3.0 if clock.monotonic() - began >= waits_from else 0.0
        return Reply(200, f'ray_serve_num_ongoing_http_requests{{node_id="n"}} {waits}\n'.encode())

    async def ask(query: str) -> float | str:
        raise AssertionError(query)

    failures: list[Exception] = []
    readings = CanaryReadings(lambda _: None, read, ask, failures.append, clock)
    one, seen = a_canary(serving_pod("b1")), []
    async with running(readings.run()):
        for _ in range(66):
            found = readings.add_to(one).canary_reading
            seen.append(found.new.hangs if found is not None else 0)
            await asyncio.sleep(1)
    assert (set(seen[:55]), seen[-1]) == ({0}, hangs)
    assert failures == []
    readings.close()
