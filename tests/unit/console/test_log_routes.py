"""The pages of logs: the end of a log, in bounded time and memory, and the one before a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import cast

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_JOBS
from manta.api.resources import PODS
from manta.console import log_routes
from manta.console.stream import RETRY
from manta.httpserver.messages import HttpResponse
from manta.kube.client import Client
from manta.kube.errors import Unreachable
from manta.localplane.apiserver.streaming.connector import LogOptions
from support.connector import LocalConnector
from support.console import running_console


def text(answer: HttpResponse) -> str:
    return cast("bytes", answer.body).decode()


async def test_the_page_of_a_jobs_log_asks_for_its_last_lines_only() -> None:
    asked: list[int | None] = []

    class Named(LocalConnector):
        async def logs(
            self, namespace: str, pod: str, container: str, options: LogOptions
        ) -> AsyncIterator[bytes]:
            asked.append(options.tail_lines)
            return await super().logs(namespace, pod, container, options)

    async with running_console() as console:
        console.plane.app.connector = Named()
        await a_job_with_a_submitter(console.plane.client)
        assert "line 4" in text(await console.get("/rayjobs/default/train/log"))
        assert asked == [500]


async def a_job_with_a_submitter(client: Client) -> None:
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "train"}, "spec": {"entrypoint": "x", "clusterSelector": {"ray.io/cluster": "demo"}}}  # fmt: skip
    await client.create(RAY_JOBS, "default", job)
    labels = {"ray.io/originated-from-cr-name": "train", "batch.kubernetes.io/job-name": "train"}
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    await client.create(
        PODS, "default", {"metadata": {"name": "submitter", "labels": labels}, "spec": spec}
    )
    status = {"containerStatuses": [{"name": "c", "state": {"running": {}}, "ready": True, "image": "i", "imageID": "", "restartCount": 0}]}  # fmt: skip
    await client.patch(PODS, Key("default", "submitter"), {"status": status}, subresource="status")


async def test_the_end_of_a_log_that_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_routes, "LAST_LINES_TIMEOUT", 0.1)

    class Endless(LocalConnector):
        async def logs(
            self, namespace: str, pod: str, container: str, options: LogOptions
        ) -> AsyncIterator[bytes]:
            async def lines() -> AsyncIterator[bytes]:
                yield b"and so on\n"
                await asyncio.Event().wait()

            return lines()

    async with running_console() as console:
        console.plane.app.connector = Endless()
        await a_job_with_a_submitter(console.plane.client)
        assert "its end did not come" in text(await console.get("/rayjobs/default/train/log"))


async def test_what_has_no_log_is_refused_and_breaks_no_stream() -> None:
    async with running_console(kinds=False) as console:
        for query in ("", "download=1", "follow=1"):
            answer = await console.get("/rayservices/default/demo/log", query)
            assert (answer.status, "rayservices have no log" in text(answer)) == (400, True), query
        tab = await console.get("/stream", "page=/rayservices/default/demo/log")
        messages = cast("AsyncGenerator[bytes]", tab.body)
        assert await anext(messages) == RETRY
        assert b"rayservices have no log" in await anext(messages)
        await messages.aclose()


async def test_the_log_before_a_restart_is_there_for_a_container_that_restarted() -> None:
    class Restarted(LocalConnector):
        async def logs(
            self, namespace: str, pod: str, container: str, options: LogOptions
        ) -> AsyncIterator[bytes]:
            async def lines() -> AsyncIterator[bytes]:
                yield b"why it died\n" if options.previous else b"it lives\n"

            return lines()

    async with running_console() as console:
        console.plane.app.connector = Restarted()
        await a_job_with_a_submitter(console.plane.client)
        here, before = "/pods/default/submitter/log", "previous=1"
        assert before not in text(await console.get(here))
        status = {"containerStatuses": [{"name": "c", "state": {"running": {}}, "ready": True, "image": "i", "imageID": "", "restartCount": 1}]}  # fmt: skip
        await console.plane.client.patch(
            PODS, Key("default", "submitter"), {"status": status}, subresource="status"
        )
        async with asyncio.timeout(20):
            while before not in (shown := text(await console.get(here))):
                await asyncio.sleep(0.02)
        assert "it lives" in shown
        shown = text(await console.get(here, before))
        assert "why it died" in shown
        assert "data-follow" not in shown  # it does not grow
        answer = await console.get(here, f"{before}&download=1")
        assert (
            b"".join([one async for one in cast("AsyncIterator[bytes]", answer.body)])
            == b"why it died\n"
        )


# ── one stream of a page and its log ─────────────────────────────────────────────────────


async def given(*messages: bytes, then: asyncio.Event | None = None) -> AsyncIterator[bytes]:
    for one in messages:
        yield one
    if then is not None:
        await then.wait()


async def test_a_page_and_its_log_come_as_one_stream() -> None:
    over = asyncio.Event()
    found = []
    async for message in log_routes._merge(given(b"page", then=over), given(b"log", b"end")):
        found.append(message)
        if message == b"end":
            over.set()
    assert sorted(found) == [b"end", b"log", b"page"]


async def test_the_stream_ends_with_its_page_and_leaves_nothing_behind() -> None:
    left: list[str] = []

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"log"
                await asyncio.sleep(0)
        finally:
            left.append("closed")

    over = asyncio.Event()
    async for _ in log_routes._merge(given(b"page", then=over), endless()):
        over.set()
    assert left == ["closed"]


async def test_the_error_of_a_page_reaches_who_reads_the_stream() -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"page"
        raise Unreachable("the line is cut", sent=True)

    with pytest.raises(Unreachable, match="the line is cut"):
        async for _ in log_routes._merge(broken(), given(then=asyncio.Event())):
            pass


async def test_only_the_page_of_a_job_has_a_log_in_its_stream() -> None:
    async with running_console() as console:
        await a_job_with_a_submitter(console.plane.client)
        answer = await console.get("/stream", "page=/rayjobs/default/train&log=1")
        async with asyncio.timeout(20):
            async for message in cast("AsyncIterator[bytes]", answer.body):
                if message == log_routes.LOG_END_EVENT:
                    break
        for page in ("/", "/rayclusters/default/demo"):
            answer = await console.get("/stream", f"page={page}&log=1")
            assert answer.status == 400
