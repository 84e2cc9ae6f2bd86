"""Every endpoint that Ray's frontend asks for answers for a session that is gone, in the shape of Ray's dashboard."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec
import pytest

from manta.history.layout import answer_key
from manta.history.serve.access import OwnerAccess
from manta.history.serve.server import HistoryHandler
from manta.httpserver.messages import HttpRequest, HttpResponse
from support.history import FAILED_TASK, NODE, SESSION, WHO, recorded_session

KEY = WHO.session(SESSION)
DRIVER_LOG = "job-driver-sub-1.log"
GROUPS = {"result": True, "msg": "", "data": {"result": {"total": 1, "result": [{"name": "pg"}]}}}


class Server:
    def __init__(self, directory: Path) -> None:
        catalog = recorded_session(directory)
        for at, body in (
            (1, b"{}"),
            (3, msgspec.json.encode(GROUPS)),
            (2, b"{}"),
            (4, b"cut off {"),
        ):
            uri = "api/v0/placement_groups?detail=1&limit=10000"
            catalog.store.create(answer_key(KEY, uri, at), gzip.compress(body))
        kept = b'{"datasets": [{"dataset": "d1"}]}'
        catalog.store.create(answer_key(KEY, "/api/data/datasets/02000000", 1), gzip.compress(kept))
        self.access = OwnerAccess()
        self.handler = HistoryHandler(catalog, self.access, [], secure=False)

    def get(self, path: str) -> tuple[HttpResponse, bytes]:
        async def read() -> tuple[HttpResponse, bytes]:
            name, _, query = path.partition("?")
            headers = {"authorization": f"Bearer {self.access.token}"}
            request = HttpRequest(
                "GET", f"/history/{KEY.path}/{name}", tuple(parse_qsl(query)), headers
            )
            response = await self.handler.handle(request)
            if isinstance(response.body, bytes):
                return response, response.body
            return response, b"".join([part async for part in response.body])

        return asyncio.run(read())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    return Server(tmp_path_factory.mktemp("history"))


def listed(answer: Any) -> Any:
    """The rows of an answer of the state API."""
    found = answer["data"]["result"]
    assert {"total", "num_after_truncation", "num_filtered", "partial_failure_warning"} <= set(found)  # fmt: skip
    return found["result"]


SHAPES: dict[str, Callable[[Any], object]] = {
    "nodes?view=summary": lambda a: [one["raylet"]["nodeId"] for one in a["data"]["summary"]] == [NODE],
    "nodes?view=hostNameList": lambda a: len(a["data"]["hostNameList"]) == 1,
    f"nodes/{NODE}": lambda a: a["data"]["detail"]["raylet"]["state"] and a["data"]["detail"]["workers"],
    "api/jobs/": lambda a: [one["submission_id"] for one in a] == ["sub-1"],
    "api/jobs/sub-1": lambda a: a["status"] == "SUCCEEDED" and a["driver_info"]["id"] == "02000000",
    "api/jobs/02000000": lambda a: a["submission_id"] == "sub-1",
    "api/v0/jobs": lambda a: listed(a)[0]["job_id"] == "02000000",
    "api/v0/tasks?detail=1&limit=10000": lambda a: {"events", "profiling_data", "task_log_info"} <= set(listed(a)[0]),
    f"api/v0/tasks?filter_keys=task_id&filter_predicates=%3D&filter_values={FAILED_TASK}": lambda a: listed(a)[0]["state"] == "FAILED",
    "api/v0/tasks/summarize": lambda a: listed(a)["node_id_to_summary"]["cluster"]["summary"]["f"]["state_counts"]["FAILED"] == 1,
    "api/v0/tasks/summarize?summary_by=lineage": lambda a: {"name", "children", "state_counts"} <= set(listed(a)["node_id_to_summary"]["cluster"]["summary"][0]),
    "api/v0/tasks/timeline": lambda a: {one["ph"] for one in a} == {"X", "M"},
    "api/v0/tasks/timeline?job_id=02000000&download=1": lambda a: all({"name", "pid", "tid", "ph"} <= set(one) for one in a),
    "logical/actors": lambda a: {one["className"] for one in a["data"]["actors"].values()} >= {"JobSupervisor"},
    "api/v0/actors": lambda a: {"actor_id", "class_name", "state"} <= set(listed(a)[0]),
    "api/v0/workers": lambda a: len(listed(a)) == 7,
    "api/v0/nodes": lambda a: listed(a)[0]["node_id"] == NODE,
    "api/v0/placement_groups?detail=1&limit=10000": lambda a: a == GROUPS,
    "api/v0/placement_groups": lambda a: a == GROUPS,
    "api/serve/applications/": lambda a: a["applications"] == {},
    "api/data/datasets/02000000": lambda a: a["datasets"][0]["dataset"] == "d1",
    "api/data/datasets/01000000": lambda a: a["datasets"] == [],
    "api/cluster_status": lambda a: "clusterStatus" in a["data"],
    "api/cluster_status?format=1": lambda a: "CPU" in a["data"]["clusterStatus"],
    "events": lambda a: {one["eventId"] for one in a["data"]["events"]["global"]} == {"1", "2"},
    "events?job_id=02000000": lambda a: a["data"] == {"jobId": "02000000", "events": []},
    "events?job_id=global": lambda a: len(a["data"]["events"]) == 2,
    "api/v0/platform_events": lambda a: a["data"]["events"] == [],
    f"api/v0/logs?node_id={NODE}&glob=*": lambda a: a["data"]["result"]["raylet"] == ["raylet.out"],
    "api/v0/cluster_metadata": lambda a: a["data"]["rayVersion"] == "2.60.0",
    "timezone": lambda a: a["value"] and a["offset"],
    "api/authentication_mode": lambda a: a["authentication_mode"] == "disabled",
    "api/profiling_enabled": lambda a: a["data"]["profilingEnabled"] is False,
    "api/v0/runtime_env_redaction": lambda a: a["data"]["redactionEnabled"] is False,
    "api/train/v2/runs/v1": lambda a: a["train_runs"] == [],
    "api/version": lambda a: a["session_name"] == SESSION,
}  # fmt: skip


@pytest.mark.parametrize("path", SHAPES)
def test_an_endpoint_answers_in_rays_shape(server: Server, path: str) -> None:
    response, body = server.get(path)
    assert response.status == 200, body
    assert SHAPES[path](msgspec.json.decode(body)), body


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("api/grafana_health", 500),
        ("api/prometheus_health", 500),
        ("api/v0/logs/stream", 501),
        ("worker/traceback", 404),
        ("worker/cpu_profile", 404),
        ("memory_profile", 404),
        ("api/v0/nothing", 404),
        ("logical/actors/00", 404),
    ],
)
def test_what_only_a_live_cluster_has_is_refused(server: Server, path: str, status: int) -> None:
    assert server.get(path)[0].status == status


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (f"node_id={NODE}&filename={DRIVER_LOG}", b"the driver says hello\nand goodbye\n"),
        (f"node_ip=192.0.2.2&filename={DRIVER_LOG}&lines=1", b"and goodbye\n"),
        ("submission_id=sub-1&lines=1", b"and goodbye\n"),
        (f"task_id={FAILED_TASK}", b"task 7\n"),
        (f"task_id={FAILED_TASK}&suffix=err", b""),
        (f"task_id={FAILED_TASK}&attempt_number=0&suffix=out", b"task 7\n"),
        (f"node_id={NODE}&pid=29268&suffix=out&lines=2", b"task 7\nafter\n"),
        ("actor_id=fc9ba9d05a362235ccff48da02000000", b"the actor prints\n"),
        (f"node_id={NODE}&filename=raylet.out&lines=0", b""),
        (f"node_id={NODE}&filename=raylet.out&lines=2", b"two\nthree\n"),
        (f"node_id={NODE}&filename=raylet.out&lines=-1", b"one\ntwo\nthree\n"),
    ],
)
def test_a_log_is_found_by_file_task_actor_pid_suffix_and_tail(
    server: Server, query: str, text: bytes
) -> None:
    response, body = server.get(f"api/v0/logs/file?{query}")
    assert (response.status, body) == (200, text)
