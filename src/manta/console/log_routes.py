"""The logs of Pods and RayJobs: as a page, as a stream that follows the log, and as a download."""

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
from manta.console.pages.logs import SHOWN_LINES, ContainerChoice, log_page
from manta.console.pages.page import Page
from manta.console.pages.parts import PLURALS, address, plain
from manta.console.snapshot import Snapshot
from manta.console.views import Pod
from manta.console.visitors import Visitor
from manta.httpserver.messages import HttpResponse
from manta.kube.client import Client
from manta.kube.errors import MantaError

END_EVENT: Final = b"event: end\ndata:\n\n"
"""The log is complete. A browser whose stream ends without it connects again."""
LOG_END_EVENT: Final = b"event: log-end\ndata:\n\n"
"""The log is complete, but the stream continues with the messages of the page."""
LAST_LINES_TIMEOUT: Final = 20.0
"""Seconds that a page waits for the last lines of its log."""


@dataclass(frozen=True, slots=True)
class LogRef:
    """Names one log: the object, and for a Pod the container."""

    plural: str
    key: Key
    container: str = ""
    """Empty: the first container of the Pod."""
    previous: bool = False
    """The log before the last restart of the container, as in `kubectl logs --previous`."""


def parse_log_ref(parts: Sequence[str], query: Mapping[str, str]) -> LogRef:
    """The log of the object at `parts`: plural, namespace, name. Raises UsageError if such objects have no log."""
    if parts[0] not in (PLURALS["RayJob"], PODS.plural):
        raise UsageError(f"{parts[0]} have no log: open the log of one of its Pods")
    key = Key(parts[1], parts[2])
    return LogRef(parts[0], key, query.get("container", ""), bool(query.get("previous")))


async def fetch_log_page(visitor: Visitor, log: LogRef) -> Page:
    """A page with the last lines of a log, or with the reason why there are none."""
    snapshot, path = visitor.watch.snapshot(), quote(f"/{log.plural}/{log.key}/log")
    title, back, containers = f"Log of {log.key.name}", (str(log.key), "/"), ContainerChoice()
    if log.plural == PLURALS["RayJob"]:
        back = (str(log.key), address("RayJob", log.key))
    elif (pod := _pod(snapshot, log)) is not None:
        back = _cluster_link(snapshot, pod) or back
        containers = _containers(pod, log)
        log = replace(log, container=containers.requested)
    try:
        text = await _last_lines(_chunks(visitor.client, log, tail=SHOWN_LINES))
    except MantaError as error:
        return log_page(title, back, path, "", str(error), containers)
    return log_page(title, back, path, text, "", containers)


def _pod(snapshot: Snapshot, log: LogRef) -> Pod | None:
    found = (one for one in snapshot.pods if one.metadata.key == log.key)
    return next(found, None) if log.plural == PODS.plural else None


def _cluster_link(snapshot: Snapshot, pod: Pod) -> tuple[str, str] | None:
    owner = Key(pod.metadata.namespace, pod.metadata.labels.get(LABEL_CLUSTER, ""))
    there = snapshot.get("RayCluster", owner) is not None
    return (str(owner), address("RayCluster", owner)) if there else None


def _containers(pod: Pod, log: LogRef) -> ContainerChoice:
    names = tuple(one.name for one in pod.spec.containers)
    restarted = frozenset(one.name for one in pod.status.container_statuses if one.restart_count)
    requested = log.container if log.container in names else ""
    return ContainerChoice(names, requested, restarted, log.previous)


async def log_as_file(visitor: Visitor, log: LogRef) -> HttpResponse:
    """A response with the whole log, which a browser saves. Raises the error of the first read."""
    name = "".join(one for one in log.key.name if one.isalnum() or one in "-.")
    headers = (
        ("Content-Disposition", f'attachment; filename="{name}.log"'),
        ("Content-Security-Policy", "sandbox"),
    )
    whole = await _with_first_chunk(_chunks(visitor.client, log))
    return HttpResponse(200, whole, headers, "text/plain; charset=utf-8")


def followed_log(visitor: Visitor, log: LogRef) -> HttpResponse:
    """A stream of events: the last lines of the log, then each new piece."""

    async def events() -> AsyncIterator[bytes]:
        async for text in _follow(visitor, log):
            yield b"data: %b\n\n" % text
        yield END_EVENT

    return HttpResponse(200, events(), content_type="text/event-stream")


def with_job_log(page: AsyncIterator[bytes], visitor: Visitor, path: str) -> AsyncIterator[bytes]:
    """Merge the messages of a RayJob's page and those of its log into one stream: a browser opens at most six
    connections to a server. The stream ends when `page` ends. Raises UsageError if `path` is no RayJob."""
    parts = path.strip("/").split("/")
    if len(parts) != 3 or parts[0] != PLURALS["RayJob"]:
        raise UsageError(f"{path} shows no log")
    log = parse_log_ref(parts, {})

    async def events() -> AsyncIterator[bytes]:
        async for text in _follow(visitor, log):
            yield b"event: log\ndata: %b\n\n" % text
        yield LOG_END_EVENT

    return _merge(page, events())


async def _merge(
    main: AsyncIterator[bytes], other: AsyncIterator[bytes]
) -> AsyncGenerator[bytes, None]:
    """The messages of both in the order of their arrival, until `main` ends. Raises the error of either."""
    waiting = {asyncio.create_task(_next(one)): one for one in (main, other)}
    try:
        while True:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                source = waiting.pop(task)
                if (message := task.result()) is not None:
                    waiting[asyncio.create_task(_next(source))] = source
                    yield message
                elif source is main:
                    return
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for one in (main, other):
            if isinstance(one, AsyncGenerator):
                await one.aclose()


async def _next(messages: AsyncIterator[bytes]) -> bytes | None:
    return await anext(messages, None)


def _chunks(
    client: Client, log: LogRef, *, follow: bool = False, tail: int = 0
) -> AsyncIterator[bytes]:
    """The log, beginning with its last `tail` lines; 0: with its first line."""
    if log.plural == PLURALS["RayJob"]:
        return job_log(client, log.key, follow=follow, tail=tail)
    return _pod_log_chunks(client, log, follow=follow, tail=tail)


async def _pod_log_chunks(
    client: Client, log: LogRef, *, follow: bool, tail: int
) -> AsyncIterator[bytes]:
    """The default is the Pod's first container, which runs Ray. Kubernetes requires a name if the Pod has several."""
    container = log.container
    if not container:
        pod = await client.get(PODS, log.key)
        container = pod["spec"]["containers"][0]["name"]
    async for chunk in pod_log(
        client, log.key, container=container, follow=follow, tail=tail, previous=log.previous
    ):
        yield chunk


async def _with_first_chunk(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Wait for the first chunk. Raises its error while the response can still be an error page."""
    try:
        first = await anext(chunks)
    except StopAsyncIteration:
        first = b""

    async def rest() -> AsyncIterator[bytes]:
        yield first
        async for chunk in chunks:
            yield chunk

    return rest()


async def _last_lines(chunks: AsyncIterator[bytes]) -> str:
    """The last lines as text. Raises NoLogError after a timeout: Ray sends a log from its first line, however long."""
    try:
        async with asyncio.timeout(LAST_LINES_TIMEOUT):
            tail = (await tail_of(chunks, SHOWN_LINES)).text()
    except TimeoutError as error:
        raise NoLogError(
            f"its end did not come within {LAST_LINES_TIMEOUT:g} s: it is long, or what has it is slow; download it"
        ) from error
    return plain("\n".join([*tail.decode("utf-8", "replace").splitlines(), ""])) if tail else ""


async def _follow(visitor: Visitor, log: LogRef) -> AsyncIterator[bytes]:
    """The last lines, then each new piece, as JSON strings. The first replaces the text of the page."""
    visitor.streams += 1
    # A chunk may end in the middle of a character.
    decode = getincrementaldecoder("utf-8")("replace").decode
    try:
        async for chunk in _chunks(visitor.client, log, follow=True, tail=SHOWN_LINES):
            yield msgspec.json.encode(plain(decode(chunk)))
    except MantaError as error:
        yield msgspec.json.encode(f"\n[the log cannot be followed: {error}]\n")
    finally:
        visitor.streams -= 1
