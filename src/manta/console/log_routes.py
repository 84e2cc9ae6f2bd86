"""The logs of Pods and of RayJobs: their pages, as they grow, and as files."""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import quote

import msgspec

from manta.api.meta import Key
from manta.api.ray.names import LABEL_CLUSTER
from manta.api.resources import PODS
from manta.api.usage import UsageError
from manta.client.job_logs import NoLogError, job_log, pod_log
from manta.client.log_tail import tail_of
from manta.console.pages.logs import SHOWN, Containers, log_page
from manta.console.pages.page import Page
from manta.console.pages.parts import PLURALS, address, plain
from manta.console.snapshot import Snapshot
from manta.console.views import Pod
from manta.console.visitors import Visitor
from manta.httpserver.messages import HttpResponse
from manta.kube.client import Client
from manta.kube.errors import MantaError

END: Final = b"event: end\ndata:\n\n"
"""Tells a browser that the log is whole; without it the connection was lost."""
LOG_END: Final = b"event: log-end\ndata:\n\n"
"""The same in a stream that goes on."""
END_SECONDS: Final = 20.0
"""How long the page of a log waits for its end."""


@dataclass(frozen=True, slots=True)
class Log:
    """Which log is wanted."""

    plural: str
    key: Key
    container: str = ""
    """Empty: the first one of a Pod."""
    previous: bool = False
    """The one before the last restart of the container."""


def wanted_log(parts: Sequence[str], query: Mapping[str, str]) -> Log:
    """The log at an address of four parts. Raises UsageError for something without a log."""
    if parts[0] not in (PLURALS["RayJob"], PODS.plural):
        raise UsageError(f"{parts[0]} have no log: open the log of one of its Pods")
    key = Key(parts[1], parts[2])
    return Log(parts[0], key, query.get("container", ""), bool(query.get("previous")))


async def page_of_log(visitor: Visitor, log: Log) -> Page:
    """The last lines of a log, or why there are none."""
    snapshot, path = visitor.watch.snapshot(), quote(f"/{log.plural}/{log.key}/log")
    title, back, containers = f"Log of {log.key.name}", (str(log.key), "/"), Containers()
    if log.plural == PLURALS["RayJob"]:
        back = (str(log.key), address("RayJob", log.key))
    elif (pod := _pod(snapshot, log)) is not None:
        back = _cluster_of(snapshot, pod) or back
        containers = _containers(pod, log)
        log = replace(log, container=containers.chosen)
    try:
        text = await _end_of(_chunks(visitor.client, log, tail=SHOWN))
    except MantaError as error:
        return log_page(title, back, path, "", str(error), containers)
    return log_page(title, back, path, text, "", containers)


def _pod(snapshot: Snapshot, log: Log) -> Pod | None:
    found = (one for one in snapshot.pods if one.metadata.key == log.key)
    return next(found, None) if log.plural == PODS.plural else None


def _cluster_of(snapshot: Snapshot, pod: Pod) -> tuple[str, str] | None:
    owner = Key(pod.metadata.namespace, pod.metadata.labels.get(LABEL_CLUSTER, ""))
    there = snapshot.get("RayCluster", owner) is not None
    return (str(owner), address("RayCluster", owner)) if there else None


def _containers(pod: Pod, log: Log) -> Containers:
    names = tuple(one.name for one in pod.spec.containers)
    restarted = frozenset(one.name for one in pod.status.container_statuses if one.restart_count)
    chosen = log.container if log.container in names else ""
    return Containers(names, chosen, restarted, log.previous)


async def log_as_file(visitor: Visitor, log: Log) -> HttpResponse:
    """The whole log, which a browser saves. Raises what keeps it from beginning."""
    name = "".join(one for one in log.key.name if one.isalnum() or one in "-.")
    headers = (
        ("Content-Disposition", f'attachment; filename="{name}.log"'),
        ("Content-Security-Policy", "sandbox"),
    )
    whole = await _begun(_chunks(visitor.client, log))
    return HttpResponse(200, whole, headers, "text/plain; charset=utf-8")


def followed_log(visitor: Visitor, log: Log) -> HttpResponse:
    """Its last lines, and then the log as it grows, as a stream of events."""

    async def events() -> AsyncIterator[bytes]:
        async for text in _growing(visitor, log):
            yield b"data: %b\n\n" % text
        yield END

    return HttpResponse(200, events(), content_type="text/event-stream")


def with_log(page: AsyncIterator[bytes], visitor: Visitor, path: str) -> AsyncIterator[bytes]:
    """The messages of a page and the log of the RayJob that it shows, as one stream, which ends with the page's: a
    browser keeps at most six connections to a server. Raises UsageError for another page."""
    parts = path.strip("/").split("/")
    if len(parts) != 3 or parts[0] != PLURALS["RayJob"]:
        raise UsageError(f"{path} shows no log")
    log = wanted_log(parts, {})

    async def events() -> AsyncIterator[bytes]:
        async for text in _growing(visitor, log):
            yield b"event: log\ndata: %b\n\n" % text
        yield LOG_END

    return _together(page, events())


async def _together(
    first: AsyncIterator[bytes], other: AsyncIterator[bytes]
) -> AsyncGenerator[bytes, None]:
    """The messages of both as they come, until the first ends. Raises what either raises."""
    waiting = {asyncio.create_task(_next(one)): one for one in (first, other)}
    try:
        while True:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                source = waiting.pop(task)
                if (message := task.result()) is not None:
                    waiting[asyncio.create_task(_next(source))] = source
                    yield message
                elif source is first:
                    return
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for one in (first, other):
            if isinstance(one, AsyncGenerator):
                await one.aclose()


async def _next(messages: AsyncIterator[bytes]) -> bytes | None:
    return await anext(messages, None)


def _chunks(
    client: Client, log: Log, *, follow: bool = False, tail: int = 0
) -> AsyncIterator[bytes]:
    """With `tail` from its last lines on."""
    if log.plural == PLURALS["RayJob"]:
        return job_log(client, log.key, follow=follow, tail=tail)
    return _of_pod(client, log, follow=follow, tail=tail)


async def _of_pod(client: Client, log: Log, *, follow: bool, tail: int) -> AsyncIterator[bytes]:
    """Without a name that of Ray's container: the first one, also with an autoscaler. Kubernetes requires its name."""
    container = log.container
    if not container:
        pod = await client.get(PODS, log.key)
        container = pod["spec"]["containers"][0]["name"]
    async for chunk in pod_log(
        client, log.key, container=container, follow=follow, tail=tail, previous=log.previous
    ):
        yield chunk


async def _begun(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same chunks, of which the first has come. Raises what keeps it from coming: a page can still say that."""
    try:
        first = await anext(chunks)
    except StopAsyncIteration:
        first = b""

    async def rest() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    return rest()


async def _end_of(chunks: AsyncIterator[bytes]) -> str:
    """Its last lines, as text. Raises NoLogError if they do not come in time: Ray sends a log from its beginning."""
    try:
        async with asyncio.timeout(END_SECONDS):
            end = (await tail_of(chunks, SHOWN)).text()
    except TimeoutError as error:
        raise NoLogError(
            f"its end did not come within {END_SECONDS:g} s: it is long, or what has it is slow; download it"
        ) from error
    return plain("\n".join([*end.decode("utf-8", "replace").splitlines(), ""])) if end else ""


async def _growing(visitor: Visitor, log: Log) -> AsyncIterator[bytes]:
    """The log from its last lines on, as JSON texts, which replace the text of the page."""
    visitor.streams += 1
    decode = getincrementaldecoder("utf-8")(
        "replace"
    ).decode  # a chunk may end inside of a character
    try:
        async for chunk in _chunks(visitor.client, log, follow=True, tail=SHOWN):
            yield msgspec.json.encode(plain(decode(chunk)))
    except MantaError as error:
        yield msgspec.json.encode(f"\n[the log cannot be followed: {error}]\n")
    finally:
        visitor.streams -= 1
