"""The token with which a dashboard is queried about a job."""

from __future__ import annotations

import base64
from typing import Any, cast

from manta.controllers.rayjob.dashboard_client import DashboardClient
from manta.controllers.rayjob.dashboard_query import DashboardQuery
from manta.kube.client import Client
from manta.ray.dashboard import Dashboard
from manta.ray.models import JobInfo, Target
from manta.ray.transport import Reply

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
