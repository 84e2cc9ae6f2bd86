"""The verbs over scripted bytes: what is asked, repeated, decoded and reported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from manta.api.meta import Key, Object
from manta.api.resources import NODES, PODS
from manta.kube import errors
from manta.kube.client import Client
from manta.kube.rate_limiter import RateLimiter
from manta.kube.retry import RetryPolicy
from manta.kube.transport import Response
from manta.kube.watch_stream import WatchEvent
from support.http_fixtures import (
    LOST_AFTER,
    LOST_BEFORE,
    Scripted,
    ScriptedStream,
    ScriptedTransport,
    answer,
    refusal,
)

KEY = Key("ns", "a")
POD = {"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7"}}


class Bench:
    """A client over a script, with the sleeps and observations that it caused."""

    def __init__(
        self, *script: Scripted, attempts: int = 5, limiter: RateLimiter | None = None
    ) -> None:
        self.transport = ScriptedTransport(*script)
        self.sleeps: list[float] = []
        self.seen: list[tuple[str, str, int]] = []
        self.client = Client(
            self.transport,
            sleep=self._sleep,
            observer=lambda verb, resource, code, _: self.seen.append((verb, resource, code)),
            retry=RetryPolicy(attempts=attempts),
            limiter=limiter,
            timeout=12.0,
        )

    async def _sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)

    @property
    def queries(self) -> list[dict[str, str]]:
        return [dict(request.query) for request in self.transport.requests]


# ── reads ────────────────────────────────────────────────────────────────────────────────────
async def test_get_decodes_into_what_was_asked_for() -> None:
    bench = Bench(answer(body=POD), answer(body=POD))
    assert await bench.client.get(PODS, KEY) == POD
    assert (await bench.client.get(PODS, KEY, into=Object)).metadata.uid == "u"
    [request, _] = bench.transport.requests
    assert (request.method, request.path) == ("GET", "/api/v1/namespaces/ns/pods/a")
    assert request.headers["user-agent"].startswith("manta/")
    assert bench.seen == [("get", "pods", 200)] * 2


async def test_a_header_is_sent_once_however_it_is_written() -> None:
    bench = Bench(answer(body=POD))
    await bench.client.send("GET", "/api", headers={"Accept": "application/yaml"})
    [request] = bench.transport.requests
    named = [name for name in request.headers if name.lower() == "accept"]
    assert [request.headers[name] for name in named] == ["application/yaml"]


async def test_a_read_is_repeated_through_loss_5xx_and_429() -> None:
    bench = Bench(
        LOST_AFTER,
        answer(503, b"starting"),
        refusal(429, "TooManyRequests", retryAfterSeconds=4),
        answer(body=POD),
    )
    assert await bench.client.get(PODS, KEY) == POD
    assert [code for _, _, code in bench.seen] == [0, 503, 429, 200]
    assert len(bench.sleeps) == 3
    assert bench.sleeps[2] >= 4


async def test_a_read_gives_up_with_the_last_error() -> None:
    bench = Bench(LOST_BEFORE, LOST_BEFORE, answer(500, b"still"), attempts=3)
    with pytest.raises(errors.Unavailable, match="still"):
        await bench.client.get(PODS, KEY)
    assert len(bench.sleeps) == 2


async def test_an_answer_that_says_no_is_not_asked_again() -> None:
    bench = Bench(refusal(404, "NotFound", name="a"))
    with pytest.raises(errors.NotFound):
        await bench.client.get(PODS, KEY)
    assert bench.sleeps == []


# ── lists ────────────────────────────────────────────────────────────────────────────────────
def page(*names: str, token: str = "", version: str = "10") -> Response:
    meta = {"resourceVersion": version} | ({"continue": token} if token else {})
    return answer(body={"metadata": meta, "items": [{"metadata": {"name": n}} for n in names]})


async def test_pages_are_followed_and_the_version_is_asked_for_once() -> None:
    bench = Bench(page("a", "b", token="t1"), page("c", token="t2"), page("d"))
    listing = await bench.client.list(
        PODS, "ns", labels="x=y", page_size=2, resource_version="5", into=Object
    )
    assert [item.metadata.name for item in listing.items] == ["a", "b", "c", "d"]
    assert listing.resource_version == "10"
    assert bench.queries == [
        {"labelSelector": "x=y", "resourceVersion": "5", "limit": "2"},
        {"labelSelector": "x=y", "limit": "2", "continue": "t1"},
        {"labelSelector": "x=y", "limit": "2", "continue": "t2"},
    ]


async def test_pages_that_expire_are_replaced_by_one_whole_list() -> None:
    bench = Bench(page("a", token="t1"), refusal(410, "Expired"), page("b", "c", version="20"))
    listing = await bench.client.list(PODS, page_size=1, into=Object)
    assert [item.metadata.name for item in listing.items] == ["b", "c"]
    assert listing.resource_version == "20"
    assert bench.queries[-1] == {}


async def test_a_first_page_that_is_gone_is_the_callers_business() -> None:
    bench = Bench(refusal(410, "Expired", "too old"))
    with pytest.raises(errors.Gone, match="too old"):
        await bench.client.list(PODS, resource_version="1", resource_version_match="Exact")


async def test_a_lost_page_is_asked_for_again_not_the_whole_list() -> None:
    bench = Bench(page("a", token="t1"), LOST_AFTER, page("b"))
    listing = await bench.client.list(PODS, into=Object)
    assert [item.metadata.name for item in listing.items] == ["a", "b"]
    assert [query.get("continue") for query in bench.queries] == [None, "t1", "t1"]


# ── watches ──────────────────────────────────────────────────────────────────────────────────
def event(type_: str, name: str, version: str) -> bytes:
    meta = {"name": name, "resourceVersion": version}
    return msgspec.json.encode({"type": type_, "object": {"metadata": meta}}) + b"\n"


async def collect(events: AsyncIterator[WatchEvent[Any]], types: list[str]) -> None:
    async for each in events:
        types.append(each.type)


async def test_a_watch_yields_events_until_the_server_ends_it() -> None:
    stream = ScriptedStream([event("ADDED", "a", "1") + event("DELETED", "a", "2")[:9], b""])
    stream.parts = [*stream.parts, event("DELETED", "a", "2")[9:], event("BOOKMARK", "", "9")]
    bench = Bench(stream)
    got = [e async for e in bench.client.watch(PODS, "ns", into=Object, resource_version="0")]
    assert [(e.type, e.resource_version) for e in got] == [
        ("ADDED", "1"),
        ("DELETED", "2"),
        ("BOOKMARK", "9"),
    ]
    assert stream.closed
    assert bench.queries[0]["allowWatchBookmarks"] == "true"
    assert bench.queries[0]["timeoutSeconds"] == "300"
    assert bench.seen == [("watch", "pods", 200)]


async def test_the_start_of_a_watch_is_repeated_but_not_its_middle() -> None:
    bench = Bench(
        LOST_BEFORE, answer(503, b"no"), ScriptedStream([event("ADDED", "a", "1"), LOST_AFTER])
    )
    got: list[str] = []
    with pytest.raises(errors.Unreachable):
        await collect(bench.client.watch(PODS, into=Object), got)
    assert got == ["ADDED"]
    assert [code for _, _, code in bench.seen] == [0, 503, 200]


async def test_a_watch_refused_with_410_is_gone() -> None:
    bench = Bench(refusal(410, "Expired", "too old"))
    with pytest.raises(errors.Gone):
        [e async for e in bench.client.watch(PODS, resource_version="1")]


async def test_a_410_inside_the_stream_is_gone_and_closes_it() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    stream = ScriptedStream([msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n"])
    bench = Bench(stream)
    with pytest.raises(errors.Gone):
        [e async for e in bench.client.watch(PODS, resource_version="1")]
    assert stream.closed


async def test_an_end_inside_an_event_is_a_loss_not_an_end() -> None:
    bench = Bench(ScriptedStream([event("ADDED", "a", "1"), b'{"type":"ADDED","obj']))
    with pytest.raises(errors.Unreachable, match="inside an event"):
        [e async for e in bench.client.watch(PODS)]


async def test_leaving_a_watch_early_closes_its_stream() -> None:
    stream = ScriptedStream([event("ADDED", "a", "1"), event("ADDED", "b", "2")])
    watch = Bench(stream).client.watch(PODS)
    await anext(watch)
    await watch.aclose()
    assert stream.closed


async def test_silence_longer_than_the_read_timeout_ends_a_watch() -> None:
    class Silent(ScriptedStream):
        async def chunks(self) -> AsyncIterator[bytes]:
            yield event("ADDED", "a", "1")
            await asyncio.Event().wait()

    stream = Silent([])
    bench = Bench(stream)
    got: list[str] = []
    with pytest.raises(errors.Unreachable, match="no data"):
        await collect(bench.client.watch(PODS, read_timeout=0.001), got)
    assert got == ["ADDED"]
    assert stream.closed


# ── writes ───────────────────────────────────────────────────────────────────────────────────
async def test_create_posts_to_the_collection_and_returns_identity() -> None:
    bench = Bench(answer(201, POD))
    written = await bench.client.create(
        PODS, "ns", {"kind": "Pod"}, field_manager="me", dry_run=True
    )
    assert isinstance(written, Object)
    assert written.metadata.resource_version == "7"
    [request] = bench.transport.requests
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/ns/pods")
    assert dict(request.query) == {"dryRun": "All", "fieldManager": "me"}
    assert request.headers["content-type"] == "application/json"
    assert request.body == b'{"kind":"Pod"}'


async def test_a_write_with_a_lost_reply_is_unknown_and_not_repeated() -> None:
    bench = Bench(LOST_AFTER)
    with pytest.raises(errors.Unreachable) as caught:
        await bench.client.create(PODS, "ns", {})
    assert caught.value.unknown
    assert len(bench.transport.requests) == 1


async def test_a_write_that_never_left_us_is_repeated() -> None:
    bench = Bench(LOST_BEFORE, answer(201, POD))
    assert (await bench.client.create(PODS, "ns", {})).metadata.uid == "u"


async def test_a_write_that_met_a_5xx_is_unknown_and_not_repeated() -> None:
    bench = Bench(answer(504, b"gateway timeout"))
    with pytest.raises(errors.Unavailable) as caught:
        await bench.client.patch(PODS, KEY, {})
    assert caught.value.unknown
    assert len(bench.transport.requests) == 1


async def test_a_write_turned_away_with_429_is_repeated() -> None:
    bench = Bench(refusal(429, "TooManyRequests", retryAfterSeconds=1), answer(body=POD))
    await bench.client.replace(PODS, KEY, {}, subresource="status")
    assert bench.transport.requests[1].path.endswith("/pods/a/status")
    assert [verb for verb, _, _ in bench.seen] == ["update", "update"]


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        ("merge", "application/merge-patch+json"),
        ("json", "application/json-patch+json"),
        ("strategic", "application/strategic-merge-patch+json"),
        ("apply", "application/apply-patch+yaml"),
    ],
)
async def test_each_kind_of_patch_has_its_type(kind, content_type) -> None:
    bench = Bench(answer(body=POD))
    await bench.client.patch(PODS, KEY, {}, kind=kind, field_manager="me")
    assert bench.transport.requests[0].headers["content-type"] == content_type


async def test_an_apply_patch_needs_a_manager() -> None:
    with pytest.raises(ValueError, match="field_manager"):
        await Bench().client.patch(PODS, KEY, {}, kind="apply")


async def test_delete_sends_its_preconditions() -> None:
    bench = Bench(answer(body=POD))
    assert await bench.client.delete(PODS, KEY, uid="u", grace_seconds=0) is True
    [request] = bench.transport.requests
    assert request.method == "DELETE"
    options = msgspec.json.decode(request.body or b"")
    assert options["preconditions"] == {"uid": "u"}
    assert options["gracePeriodSeconds"] == 0


async def test_deleting_what_is_gone_says_so() -> None:
    assert await Bench(refusal(404, "NotFound", name="a")).client.delete(PODS, KEY) is False


async def test_deleting_another_of_the_same_name_is_a_conflict() -> None:
    bench = Bench(refusal(409, "Conflict", "the UID in the precondition does not match"))
    with pytest.raises(errors.Conflict, match="UID"):
        await bench.client.delete(PODS, KEY, uid="old")


async def test_deleting_a_collection_needs_a_namespace_unless_it_has_none() -> None:
    bench = Bench(answer(), answer())
    await bench.client.delete_collection(PODS, "ns", labels="a=b")
    await bench.client.delete_collection(NODES, "", fields="metadata.name=n")
    assert bench.queries[0] == {"labelSelector": "a=b"}
    assert bench.seen[0] == ("deletecollection", "pods", 200)
    with pytest.raises(ValueError, match="namespace"):
        await bench.client.delete_collection(PODS, "")


async def test_a_subresource_is_created_below_its_object() -> None:
    bench = Bench(answer(201))
    await bench.client.create(PODS, "ns", {}, subresource=("a", "eviction"))
    assert bench.transport.requests[0].path == "/api/v1/namespaces/ns/pods/a/eviction"


# ── raw requests ─────────────────────────────────────────────────────────────────────────────
async def test_send_maps_errors_unless_disabled() -> None:
    bench = Bench(answer(404, b"no such app"), answer(404, b"no such app"))
    with pytest.raises(errors.NotFound, match="no such app"):
        await bench.client.send("GET", "/version")
    assert (await bench.client.send("GET", "/version", check=False)).status == 404


async def test_every_request_has_a_limit_of_its_own_or_of_the_client() -> None:
    bench = Bench(answer(), answer(), answer(body=POD))
    await bench.client.send("GET", "/version", timeout=2)
    await bench.client.send("GET", "/version")
    await bench.client.get(PODS, KEY)
    assert [request.timeout for request in bench.transport.requests] == [2, 12, 12]


async def test_a_raw_stream_is_read_chunk_by_chunk() -> None:
    bench = Bench(ScriptedStream([b"one", b"two"]))
    async with bench.client.stream("/log", query=(("follow", "true"),)) as stream:
        assert [chunk async for chunk in stream.chunks()] == [b"one", b"two"]


class Counter:
    """A limiter that never brakes."""

    asked = 0
    refusals = 0

    async def acquire(self) -> None:
        self.asked += 1

    def refused(self) -> None:
        self.refusals += 1


async def test_the_limiter_hears_of_every_429_of_a_busy_server() -> None:
    counter = Counter()
    busy = answer(429, retry_after="1")
    no_stream = ScriptedStream([b"Too many requests, please try again later."], status=429)
    bench = Bench(busy, answer(body=POD), no_stream, ScriptedStream([]), limiter=counter)
    await bench.client.get(PODS, KEY)
    assert counter.refusals == 1
    assert [e async for e in bench.client.watch(PODS)] == []
    assert counter.refusals == 2


async def test_the_limiter_does_not_hear_of_a_429_that_is_about_one_kind() -> None:
    """A new CRD answers so for a second, and all other requests would be held back for long."""
    counter = Counter()
    not_yet = refusal(429, "TooManyRequests", "storage is (re)initializing", retryAfterSeconds=1)
    bench = Bench(not_yet, answer(body=POD), limiter=counter)
    await bench.client.get(PODS, KEY)
    assert counter.refusals == 0


async def test_the_limiter_is_asked_before_every_attempt() -> None:
    counter = Counter()
    bench = Bench(LOST_BEFORE, answer(body=POD), ScriptedStream([]), limiter=counter)
    await bench.client.get(PODS, KEY)
    assert [e async for e in bench.client.watch(PODS)] == []
    assert counter.asked == 3


async def test_closing_the_client_closes_its_transport() -> None:
    bench = Bench()
    async with bench.client:
        pass
    assert bench.transport.closed
