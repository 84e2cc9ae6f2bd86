"""What is asked of a head, by whom, and with which token."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from manta.controllers.rayservice.asker import Asker, DashboardError
from manta.controllers.rayservice.inquire import Question, Whereabouts
from manta.ray.dashboard import Dashboard
from manta.ray.models import ServeStatus, Target, Unreachable
from manta.ray.transport import Reply

WHERE = Whereabouts("default", "demo-a-head-svc", "host", 8265, "head/0", "")


def question(**changes: Any) -> Question:
    base: dict[str, Any] = {
        "secret": "",
        "pod": "demo-a-head",
        "pod_ip": "10.0.0.1",
        "proxy_port": 8000,
        "applications": ("app",),
        "is_probed": False,
    }
    return Question(WHERE, **{**base, **changes})


class Courier:
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
    """A client that knows one Secret and counts how often it is read."""

    reads = 0

    def __init__(self, token: bytes = b"let-me-in") -> None:
        self._token = token

    async def get(self, resource: Any, key: Any, *, into: Any) -> Any:
        self.reads += 1
        return into(data={"auth_token": base64.b64encode(self._token).decode()})


def asker(courier: Courier, client: Any = None, *, through_server: bool = False) -> Asker:
    return Asker(Dashboard(courier), client, through_server=through_server)


RUNNING = b'{"applications": {"app": {"status": "RUNNING"}}}'


async def test_a_pending_clusters_proxy_is_asked_only_when_it_could_matter() -> None:
    courier = Courier(b'{"applications": {"app": {"status": "DEPLOYING"}}}')
    heard = await asker(courier).ask(question())
    assert (heard.proxy_answers, courier.urls) == (None, [])
    heard = await asker(Courier(RUNNING)).ask(question())
    assert heard.proxy_answers is True


async def test_a_serving_clusters_proxy_is_asked_apart_from_its_dashboard() -> None:
    courier = Courier(b"nonsense", probes=(503, 503))
    asked = question(is_probed=True)
    heard = await asker(courier).ask(asked)
    assert isinstance(heard.serve, Unreachable)
    assert (heard.proxy_answers, courier.urls) == (None, [])
    assert await asker(courier).proxy_answers(asked) is False


async def test_one_silence_of_a_proxy_is_no_silence() -> None:
    heard = await asker(Courier(RUNNING, probes=(503, 200))).ask(question())
    assert heard.proxy_answers is True


@pytest.mark.parametrize(
    ("ip", "through_server", "url"),
    [
        ("10.0.0.1", False, "http://10.0.0.1:8000/-/healthz"),
        ("fd00::1", False, "http://[fd00::1]:8000/-/healthz"),
        ("10.0.0.1", True, "/api/v1/namespaces/default/pods/demo-a-head:8000/proxy/-/healthz"),
    ],
)
async def test_the_way_to_the_proxy(ip: str, through_server: bool, url: str) -> None:
    courier = Courier(RUNNING)
    await asker(courier, through_server=through_server).ask(question(pod_ip=ip))
    assert courier.urls == [url]


async def test_a_token_is_read_once_and_anew_when_it_no_longer_works() -> None:
    courier, secrets = Courier(RUNNING, probes=(200,) * 5), Secrets()
    one = asker(courier, secrets)
    asked = question(secret="demo-a")
    for _ in range(2):
        assert isinstance((await one.ask(asked)).serve, ServeStatus)
    assert (secrets.reads, courier.tokens) == (1, ["let-me-in", "let-me-in"])
    courier.reply = Reply(401, b"no")
    await one.ask(asked)
    await one.ask(asked)
    assert secrets.reads == 2


async def test_the_newline_at_the_end_of_a_token_is_no_part_of_it() -> None:
    courier = Courier(RUNNING)
    await asker(courier, Secrets(b"let-me-in\n")).ask(question(secret="demo-a"))
    assert courier.tokens == ["let-me-in"]


async def test_a_refusal_is_told_in_rays_words() -> None:
    with pytest.raises(DashboardError, match="bad import_path"):
        await asker(Courier(b"bad import_path", 400)).submit(question(), {})
