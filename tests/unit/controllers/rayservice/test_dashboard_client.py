"""Queries of a head's dashboard and proxy, with their token."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from manta.controllers.rayservice.dashboard_client import DashboardClient, DashboardError
from manta.controllers.rayservice.dashboard_query import (
    DashboardQuery,
    DashboardTarget,
    dashboard_query,
)
from manta.ray.dashboard import Dashboard
from manta.ray.models import ServeStatus, Target, Unreachable
from manta.ray.transport import Reply
from support.rayservice_objects import serving

WHERE = DashboardTarget("default", "demo-a-head-svc", "host", 8265, "head/0", "")


def due_query(**changes: Any) -> DashboardQuery:
    base: dict[str, Any] = {
        "secret": "",
        "pod": "demo-a-head",
        "pod_ip": "10.0.0.1",
        "proxy_port": 8000,
        "applications": ("app",),
        "is_probed": False,
    }
    return DashboardQuery(WHERE, **{**base, **changes})


class FakeTransport:
    def __init__(self, body: bytes = b"{}", status: int = 200, probes: Any = (200,)) -> None:
        self.reply = Reply(status, body)
        self.probes = list(probes)
        self.urls: list[str] = []
        self.tokens: list[str] = []

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply:
        self.tokens.append(target.token)
        return self.reply

    async def probe(self, url: str) -> Reply:
        self.urls.append(url)
        return Reply(self.probes.pop(0), b"")

    async def close(self) -> None: ...


class Secrets:
    """A client with one Secret that counts its reads."""

    reads = 0

    def __init__(self, token: bytes = b"let-me-in") -> None:
        self._token = token

    async def get(self, resource: Any, key: Any, *, into: Any) -> Any:
        self.reads += 1
        return into(data={"auth_token": base64.b64encode(self._token).decode()})


def dashboard_client(
    transport: FakeTransport, client: Any = None, *, through_api_server: bool = False
) -> DashboardClient:
    return DashboardClient(Dashboard(transport), client, through_api_server=through_api_server)


RUNNING = b'{"applications": {"app": {"status": "RUNNING"}}}'


async def test_a_pending_clusters_proxy_is_checked_only_when_applications_run() -> None:
    transport = FakeTransport(b'{"applications": {"app": {"status": "DEPLOYING"}}}')
    result = await dashboard_client(transport).query_dashboard(due_query())
    assert (result.proxy_healthy, transport.urls) == (None, [])
    result = await dashboard_client(FakeTransport(RUNNING)).query_dashboard(due_query())
    assert result.proxy_healthy is True


@pytest.mark.parametrize(("is_excluded", "is_probed"), [(False, True), (True, False)])
def test_the_proxy_of_a_head_that_takes_no_requests_is_not_probed(
    *, is_excluded: bool, is_probed: bool
) -> None:
    snapshot = serving(spec={"excludeHeadPodFromServeSvc": is_excluded})
    assert snapshot.active is not None
    query = dashboard_query(snapshot, snapshot.active)
    assert query is not None
    assert query.is_probed is is_probed


async def test_a_serving_clusters_proxy_is_probed_apart_from_its_dashboard() -> None:
    transport = FakeTransport(b"nonsense", probes=(503, 503))
    query = due_query(is_probed=True)
    result = await dashboard_client(transport).query_dashboard(query)
    assert isinstance(result.serve, Unreachable)
    assert (result.proxy_healthy, transport.urls) == (None, [])
    assert await dashboard_client(transport).proxy_healthy(query) is False


async def test_one_failed_check_of_a_proxy_is_repeated() -> None:
    result = await dashboard_client(FakeTransport(RUNNING, probes=(503, 200))).query_dashboard(
        due_query()
    )
    assert result.proxy_healthy is True


@pytest.mark.parametrize(
    ("ip", "through_api_server", "url"),
    [
        ("10.0.0.1", False, "http://10.0.0.1:8000/-/healthz"),
        ("fd00::1", False, "http://[fd00::1]:8000/-/healthz"),
        ("10.0.0.1", True, "/api/v1/namespaces/default/pods/demo-a-head:8000/proxy/-/healthz"),
    ],
)
async def test_the_url_of_the_proxy(ip: str, through_api_server: bool, url: str) -> None:
    transport = FakeTransport(RUNNING)
    await dashboard_client(transport, through_api_server=through_api_server).query_dashboard(
        due_query(pod_ip=ip)
    )
    assert transport.urls == [url]


async def test_a_token_is_read_once_and_again_when_it_is_refused() -> None:
    transport, secrets = FakeTransport(RUNNING, probes=(200,) * 5), Secrets()
    one = dashboard_client(transport, secrets)
    query = due_query(secret="demo-a")
    for _ in range(2):
        assert isinstance((await one.query_dashboard(query)).serve, ServeStatus)
    assert (secrets.reads, transport.tokens) == (1, ["let-me-in", "let-me-in"])
    transport.reply = Reply(401, b"no")
    await one.query_dashboard(query)
    await one.query_dashboard(query)
    assert secrets.reads == 2


async def test_the_newline_at_the_end_of_a_token_is_no_part_of_it() -> None:
    transport = FakeTransport(RUNNING)
    await dashboard_client(transport, Secrets(b"let-me-in\n")).query_dashboard(
        due_query(secret="demo-a")
    )
    assert transport.tokens == ["let-me-in"]


async def test_a_refusal_has_rays_message() -> None:
    with pytest.raises(DashboardError, match="bad import_path"):
        await dashboard_client(FakeTransport(b"bad import_path", 400)).submit(due_query(), {})
