"""The first failed task of a job, as its RayJob's message names it."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from manta.controllers.rayjob import dashboard_client
from manta.controllers.rayjob.dashboard_client import DashboardClient
from manta.controllers.rayjob.dashboard_query import DashboardQuery
from manta.controllers.rayjob.first_failure import first_failure
from manta.kube.client import Client
from manta.ray.dashboard import Dashboard
from manta.ray.models import JobInfo, Target, TaskInfo, Unreachable
from manta.ray.transport import Reply

QUERY = DashboardQuery("sub-1", "default", "demo-head-svc", "host", 8265, "head/0", secret="")
TRACEBACK = """ray::work() (pid=7, ip=10.0.0.1)
  File "/job.py", line 3, in work
    raise ValueError("number seven")
ValueError: number seven"""


class FakeTransport:
    """A dashboard with a failed job, and an answer about its tasks."""

    def __init__(self, tasks: Reply | Unreachable | str, job_id: str | None = "02000000") -> None:
        self.job = Reply(200, json.dumps({"status": "FAILED", "message": "exit code 1", "job_id": job_id}).encode())  # fmt: skip
        self.tasks = tasks
        self.asked: list[str] = []

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable:
        if path.startswith("/api/jobs/"):
            return self.job
        self.asked.append(path)
        if self.tasks == "hang":
            await asyncio.Event().wait()
        assert not isinstance(self.tasks, str)
        return self.tasks

    async def probe(self, url: str) -> Reply:
        raise AssertionError(url)

    async def close(self) -> None: ...


def rows(*tasks: dict[str, Any]) -> Reply:
    whole = {"result": True, "data": {"result": {"total": 9, "result": tasks}}}
    return Reply(200, json.dumps(whole).encode())


FAILED = {
    "task_id": "1",
    "name": "work",
    "error_type": "TASK_EXECUTION_EXCEPTION",
    "error_message": TRACEBACK,
    "end_time_ms": 5.25,
}


async def ask(transport: FakeTransport, times: int = 1) -> JobInfo:
    own = DashboardClient(Dashboard(transport), cast("Client", None))
    for _ in range(times - 1):
        await own.query_dashboard(QUERY)
    answer = await own.query_dashboard(QUERY)
    assert isinstance(answer, JobInfo)
    assert answer.status == "FAILED"
    return answer


async def test_a_failed_job_names_the_task_that_failed_first() -> None:
    later = {**FAILED, "name": "other", "error_message": "KeyError: 1", "end_time_ms": 6}
    transport = FakeTransport(rows(later, FAILED))
    assert (await ask(transport)).first_failure == "work: ValueError: number seven"
    query = parse_qs(urlsplit(transport.asked[0]).query)
    assert query["filter_values"] == ["FAILED", "02000000"]


async def test_ray_is_asked_once_for_a_job() -> None:
    transport = FakeTransport(rows(FAILED))
    assert (await ask(transport, times=3)).first_failure == "work: ValueError: number seven"
    assert len(transport.asked) == 1


@pytest.mark.parametrize(
    "fault",
    [
        rows(),
        Reply(500, b"Internal Server Error"),
        Reply(404, b""),
        Reply(200, b"<html>"),
        Reply(200, b'{"result": false, "msg": "GCS is down", "data": null}'),
        Unreachable("connection reset"),
        "hang",
    ],
)
async def test_what_ray_does_not_say_changes_nothing_of_the_jobs_end(
    fault: Reply | Unreachable | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard_client, "_FAILURE_SECONDS", 0.01)
    answer = await ask(FakeTransport(fault))
    assert (answer.message, answer.first_failure) == ("exit code 1", "")


async def test_a_driver_that_never_connected_has_no_tasks() -> None:
    transport = FakeTransport(rows(FAILED), job_id=None)
    assert (await ask(transport)).first_failure == ""
    assert transport.asked == []


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        ("TASK_EXECUTION_EXCEPTION", TRACEBACK, "ValueError: number seven"),
        ("TASK_EXECUTION_EXCEPTION", "a.b.OwnError: two\nlines of it", "a.b.OwnError: two"),
        ("TASK_EXECUTION_EXCEPTION", "   \n", "TASK_EXECUTION_EXCEPTION"),
        ("WORKER_DIED", "The worker died.\nMore words.", "WORKER_DIED: The worker died."),
        ("OUT_OF_MEMORY", None, "OUT_OF_MEMORY"),
        (None, "KeyError: 'password=hunter2'", "KeyError: 'password=<redacted>"),
        (None, "x" * 100_000, "x" * 299 + "…"),
        (None, "Error: \x1b[31m\u202e\0red", "Error: [31m red"),
    ],
)
def test_an_error_is_one_bounded_line_without_secrets(
    kind: str | None, text: str | None, line: str
) -> None:
    task = TaskInfo(name="work", error_type=kind, error_message=text)
    assert first_failure([task]) == f"work: {line}"
