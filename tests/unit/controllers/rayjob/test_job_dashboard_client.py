"""The token with which a dashboard is queried about a job."""

from __future__ import annotations

import base64
import json
from typing import Any, cast

import pytest

from manta.controllers.rayjob.dashboard_client import DashboardClient, DashboardError
from manta.controllers.rayjob.dashboard_query import DashboardQuery
from manta.controllers.rayjob.submission import SubmissionRefusedError
from manta.kube.client import Client
from manta.ray.dashboard import Dashboard
from manta.ray.models import JobInfo, Target
from manta.ray.transport import Reply
from support.rayjob import running
from support.virtual import virtually

ASKED = DashboardQuery("id", "default", "demo-head-svc", "host", 8265, "head/0", secret="demo")


class FakeTransport:
    """Replies with a running job, and records the tokens of requests."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply:
        self.tokens.append(target.token)
        return Reply(200, b'{"status": "RUNNING"}')

    async def probe(self, url: str) -> Reply:
        raise AssertionError(url)

    async def close(self) -> None: ...


class Secrets:
    """A client with one Secret whose token ends with a newline."""

    async def get(self, resource: Any, key: Any, *, into: Any) -> Any:
        return into(data={"auth_token": base64.b64encode(b"let-me-in\n").decode()})


async def test_the_newline_at_the_end_of_a_token_is_no_part_of_it() -> None:
    transport = FakeTransport()
    answer = await DashboardClient(Dashboard(transport), cast("Client", Secrets())).query_dashboard(
        ASKED
    )
    assert isinstance(answer, JobInfo)
    assert transport.tokens == ["let-me-in"]


class Submissions(FakeTransport):
    """Answers a submission with this status, and records its body."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status
        self.sent: dict[str, Any] = {}

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply:
        self.sent = json.loads(body or b"{}")
        return Reply(self.status, b'{"submission_id": "demo-12345"}')


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, SubmissionRefusedError), (422, SubmissionRefusedError), (403, DashboardError), (503, DashboardError)],
)  # fmt: skip
async def test_only_an_answer_that_cannot_change_refuses_a_job_for_good(
    status: int, error: type[Exception]
) -> None:
    client = DashboardClient(Dashboard(Submissions(status)), cast("Client", Secrets()))
    with pytest.raises(error):
        await client.submit(ASKED, running())


async def test_a_submission_asks_for_the_resources_of_the_entrypoint() -> None:
    transport = Submissions(200)
    asked = running(spec={"entrypointNumGpus": 0.5, "entrypointNumCpus": 2, "entrypointResources": '{"slot": 1}'})  # fmt: skip
    client = DashboardClient(Dashboard(transport), cast("Client", Secrets()))
    await client.submit(ASKED, asked)
    found = {
        name: value for name, value in transport.sent.items() if name.startswith("entrypoint_")
    }
    assert found == {
        "entrypoint_num_cpus": 2,
        "entrypoint_num_gpus": 0.5,
        "entrypoint_resources": {"slot": 1},
    }


class FailedJob(FakeTransport):
    """Replies with a failed job, whose failed task Ray knows only after some requests."""

    def __init__(self, known_after: int) -> None:
        super().__init__()
        self.known_after = known_after
        self.asked = 0

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply:
        if not path.startswith("/api/v0/tasks?"):
            return Reply(200, b'{"status": "FAILED", "job_id": "01000000"}')
        self.asked += 1
        # Ray 2.60 writes times as 1795009613698.0.
        task = {"name": "work", "error_message": "ValueError: seven", "end_time_ms": 1.5e12}
        found = [task] if self.asked > self.known_after else []
        return Reply(200, json.dumps({"data": {"result": {"result": found}}}).encode())


@virtually
async def test_a_failed_task_that_ray_reports_a_moment_later_is_named() -> None:
    client = DashboardClient(Dashboard(FailedJob(known_after=2)), cast("Client", Secrets()))
    answer = await client.query_dashboard(ASKED)
    assert isinstance(answer, JobInfo)
    assert answer.first_failure == "work: ValueError: seven"


@virtually
async def test_a_job_without_failed_tasks_is_asked_about_only_when_it_ends() -> None:
    transport = FailedJob(known_after=1000)
    client = DashboardClient(Dashboard(transport), cast("Client", Secrets()))
    for _ in range(3):
        answer = await client.query_dashboard(ASKED)
        assert isinstance(answer, JobInfo)
        assert answer.first_failure == ""
    assert transport.asked == 4
