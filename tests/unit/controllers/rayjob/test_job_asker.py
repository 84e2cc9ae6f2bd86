"""With which token a dashboard is asked about a job."""

from __future__ import annotations

import base64
from typing import Any, cast

from manta.controllers.rayjob.asker import Asker
from manta.controllers.rayjob.inquire import Question
from manta.kube.client import Client
from manta.ray.dashboard import Dashboard
from manta.ray.models import JobInfo, Target
from manta.ray.transport import Reply

ASKED = Question("id", "default", "demo-head-svc", "host", 8265, "head/0", secret="demo")


class Courier:
    """Knows a running job, and remembers by which token it was asked."""

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
    """A client that knows one Secret, made from a file with a newline at its end."""

    async def get(self, resource: Any, key: Any, *, into: Any) -> Any:
        return into(data={"auth_token": base64.b64encode(b"let-me-in\n").decode()})


async def test_the_newline_at_the_end_of_a_token_is_no_part_of_it() -> None:
    courier = Courier()
    answer = await Asker(Dashboard(courier), cast("Client", Secrets())).ask(ASKED)
    assert isinstance(answer, JobInfo)
    assert courier.tokens == ["let-me-in"]
