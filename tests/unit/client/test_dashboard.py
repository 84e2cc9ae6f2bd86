"""Through the API server's proxy: whose words an answer is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from manta.client.dashboard import ProxyTransport
from manta.kube.client import Client
from manta.kube.cluster import Cluster
from manta.kube.retry import RetryPolicy
from manta.kube.transport import HttpTransport, Response
from manta.ray.models import Target, Unreachable
from manta.ray.transport import Reply
from support.http_fixtures import ScriptedTransport, refusal

TARGET = Target("default", "raycluster-head-svc", "raycluster-head-svc.default")


async def sent(answer: Response, target: Target = TARGET) -> Reply | Unreachable:
    transport = ProxyTransport(Client(ScriptedTransport(answer), retry=RetryPolicy(attempts=1)))
    return await transport.send(target, "POST", "/api/jobs/", b"{}")


@pytest.mark.parametrize("status", [200, 400, 404, 500])
async def test_an_answer_of_ray_is_passed_on(status: int) -> None:
    said = Response(status, {}, b"No job exists")
    assert await sent(said) == Reply(status, b"No job exists")


@pytest.mark.parametrize(
    "said",
    [
        refusal(404, "NotFound", 'services "raycluster-head-svc" not found'),
        refusal(503, "ServiceUnavailable", "no endpoints available"),
        Response(429, {"retry-after": "1"}, b"Too many requests, please try again later."),
    ],
    ids=["not-found", "no-endpoints", "too-busy"],
)
async def test_a_refusal_of_the_server_has_not_reached_ray(said: Response) -> None:
    given = await sent(said)
    assert isinstance(given, Unreachable)
    assert not given.sent


async def test_a_refusal_of_the_server_is_told_in_its_words() -> None:
    given = await sent(refusal(503, "ServiceUnavailable", "no endpoints available"))
    assert isinstance(given, Unreachable)
    assert given.why == "the API server did not reach the dashboard: no endpoints available"


async def test_a_token_that_no_header_can_hold_is_reported_and_not_raised() -> None:
    client = Client(HttpTransport(Cluster("http://127.0.0.1:1")), retry=RetryPolicy(attempts=1))
    odd = Target("default", "raycluster-head-svc", "host", token="two\nlines")
    given = await ProxyTransport(client).send(odd, "GET", "/api/version")
    await client.close()
    assert isinstance(given, Unreachable)
    assert not given.sent
    assert "x-ray-authorization" in given.why
    assert "two" not in given.why


async def test_an_encoded_query_reaches_ray_as_it_was_meant() -> None:
    scripted = ScriptedTransport(Response(200, {}, b"{}"))
    transport = ProxyTransport(Client(scripted, retry=RetryPolicy(attempts=1)))
    await transport.send(TARGET, "GET", "/api/v0/actors?filter_predicates=%21%3D&limit=1")
    (request,) = scripted.requests
    assert request.query == (("filter_predicates", "!="), ("limit", "1"))


async def test_a_service_whose_name_leads_elsewhere_is_not_asked() -> None:
    scripted = ScriptedTransport(Response(200, {}, b"{}"))
    transport = ProxyTransport(Client(scripted))
    target = replace(TARGET, service="x/../../../secrets")
    assert isinstance(await transport.send(target, "GET", "/api/version"), Unreachable)
    assert not scripted.requests
