"""Dashboards and nodes are asked while somebody looks, with that person's rights, and never for long."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from manta.api.core import Node
from manta.api.ray.names import ANNOTATION_STARTED_WITH
from manta.api.resources import PODS, SECRETS
from manta.console.live import AutoscalerReport, TaskList, Unreachable
from manta.console.live_queries import LiveQueries
from manta.console.rights import Rights, Rule
from manta.kube.client import Client
from manta.kube.transport import Request, Response
from manta.runtime.clock import SystemClock
from support.console import condition, ray, snapshot

STATUS = "Pending Demands:\n {'CPU': 1.0}: 2+ pending tasks/actors\n"
ANY = frozenset(("*",))
ALL = Rights((Rule(ANY, ANY, ANY, frozenset()),))
READY = {
    "conditions": [condition("HeadPodReady", True)],
    "head": {"serviceName": "demo-head-svc"},
}
CLUSTER = ray("RayCluster", "demo", READY, spec={"enableInTreeAutoscaling": True})
PROXY = "/api/v1/namespaces/default/services/demo-head-svc:dashboard/proxy"


@dataclass
class Server:
    """Answers by path, without any network."""

    answers: dict[str, Any]
    asked: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    """That came with questions to the dashboard."""
    delay: float = 0.0

    async def send(self, request: Request, timeout: float | None = None) -> Response:
        self.asked.append(request.path)
        if request.path.startswith(PROXY):
            self.tokens.append(request.headers.get("x-ray-authorization", ""))
        await asyncio.sleep(self.delay)
        found = self.answers.get(request.path)
        body = msgspec.json.encode(found if found is not None else {"kind": "Status", "message": "none", "code": 404})  # fmt: skip
        return Response(200 if found is not None else 404, {}, body)

    async def close(self) -> None:
        pass


def queries(server: Server) -> LiveQueries:
    return LiveQueries(Client(server), SystemClock(), lambda: None)  # type: ignore[arg-type]


async def test_the_demands_of_the_autoscaler_are_asked_once_for_many_tabs() -> None:
    server = Server({f"{PROXY}/api/cluster_status": {"data": {"clusterStatus": STATUS}}})
    live_queries = queries(server)
    found = [await live_queries.about(snapshot(CLUSTER), CLUSTER, ALL) for _ in range(20)]
    assert isinstance(found[-1].autoscaler, AutoscalerReport)
    assert found[-1].autoscaler.waiting == 2
    assert found[-1].waiting[0].values == (2.0, 0.0)
    assert server.asked == [f"{PROXY}/api/cluster_status"]
    await live_queries.close()


@pytest.mark.parametrize("runs_with_token", [True, False])
async def test_the_token_is_that_with_which_the_head_was_started(runs_with_token: bool) -> None:
    """An edit of `authOptions` reaches only the next head."""
    started = {"port": "6379", "tokenSecret": "own" if runs_with_token else ""}
    note = {ANNOTATION_STARTED_WITH: msgspec.json.encode(started).decode()}
    server = Server({
        f"{PROXY}/api/cluster_status": {"data": {"clusterStatus": STATUS}},
        PODS.path("default", "demo-head"): {"metadata": {"name": "demo-head", "annotations": note}},
        SECRETS.path("default", "own"): {"data": {"auth_token": b64encode(b"rays").decode()}},
    })  # fmt: skip
    status = {**READY, "head": {"serviceName": "demo-head-svc", "podName": "demo-head"}}
    spec: dict[str, Any] = {"enableInTreeAutoscaling": True, "headGroupSpec": {"template": {}}}
    if not runs_with_token:
        spec["authOptions"] = {"mode": "token"}
    cluster = ray("RayCluster", "demo", status, spec=spec)
    live = await queries(server).about(snapshot(cluster), cluster, ALL)
    assert isinstance(live.autoscaler, AutoscalerReport)
    assert server.tokens == ["Bearer rays" if runs_with_token else ""]


async def test_a_visitor_without_the_right_asks_nothing_and_is_told_why() -> None:
    server = Server({})
    live = await queries(server).about(snapshot(CLUSTER), CLUSTER, Rights())
    assert isinstance(live.autoscaler, Unreachable)
    assert "you may not get services/proxy" in live.autoscaler.why
    assert server.asked == []


async def test_a_slow_dashboard_does_not_hold_the_page() -> None:
    server = Server({}, delay=60)
    live_queries = queries(server)
    async with asyncio.timeout(20):
        assert (await live_queries.about(snapshot(CLUSTER), CLUSTER, ALL)).autoscaler is None
    await live_queries.close()


async def test_a_dashboard_that_refuses_is_shown_with_its_reason() -> None:
    live_queries = queries(Server({}))
    live = await live_queries.about(snapshot(CLUSTER), CLUSTER, ALL)
    assert isinstance(live.autoscaler, Unreachable)
    assert "none" in live.autoscaler.why


async def test_a_cluster_without_autoscaler_or_without_head_is_not_asked() -> None:
    server = Server({})
    for one in (
        ray("RayCluster", "a", READY),
        ray("RayCluster", "b", {}, spec={"enableInTreeAutoscaling": True}),
    ):
        assert (await queries(server).about(snapshot(one), one, ALL)).autoscaler is None
    assert server.asked == []


async def test_the_errors_of_failed_tasks_are_found_by_the_id_of_ray() -> None:
    status = {"rayClusterName": "demo", "jobId": "s-1", "jobDeploymentStatus": "Failed"}
    job = ray("RayJob", "train", status)
    task = {"name": "load", "error_message": "ValueError"}
    server = Server({
        f"{PROXY}/api/jobs/s-1": {"status": "FAILED", "job_id": "02000000"},
        f"{PROXY}/api/v0/tasks": {"data": {"result": {"result": [task]}}},
    })  # fmt: skip
    live_queries = queries(server)
    live = await live_queries.about(snapshot(job, CLUSTER), job, ALL)
    assert isinstance(live.failed_tasks, TaskList)
    assert [one.name for one in live.failed_tasks.tasks] == ["load"]


async def test_only_nodes_with_gpus_are_asked() -> None:
    def node(name: str, **capacity: str) -> Node:
        document = {"metadata": {"name": name}, "status": {"capacity": capacity}}
        return msgspec.convert(document, Node)

    gpu = {"index": 0, "model": "H200", "id": "g", "memory": 8}
    state = {"gpu": gpu, "reading": {"busy": 5, "used": 4, "error": ""}, "pod": "a/b", "processes": []}  # fmt: skip
    path = "/api/v1/nodes/big/proxy/gpus"
    server = Server({path: [state]})
    nodes = (node("small", cpu="1"), node("big", **{"nvidia.com/gpu": "1"}))
    [row] = await queries(server).gpus(nodes, ALL)
    assert (row.pod, row.busy, server.asked) == ("a/b", 5, [path])


async def test_a_mistake_of_the_console_is_shown_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    live_queries = queries(Server({}))

    async def broken() -> Any:
        raise KeyError("a field that is missing")

    found = await live_queries.last("broken", broken)
    assert found == Unreachable("the console failed: KeyError: 'a field that is missing'")
    assert "the query 'broken' failed" in caplog.text
    assert "Traceback" in caplog.text


async def test_nodes_are_asked_at_the_same_time() -> None:
    gpu = {"capacity": {"nvidia.com/gpu": "8"}}
    nodes = [
        msgspec.convert({"metadata": {"name": f"n{at}"}, "status": gpu}, Node) for at in range(4)
    ]
    server = Server({}, delay=60)
    live_queries = queries(server)
    asking = asyncio.create_task(live_queries.gpus(nodes, ALL))
    async with asyncio.timeout(20):
        while len(server.asked) < 4 and not asking.done():
            await asyncio.sleep(0)
    assert len(server.asked) == 4
    assert not asking.done()  # it waits for the first answers of all of them
    await asking
    await live_queries.close()
