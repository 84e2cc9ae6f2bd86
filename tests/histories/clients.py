"""Clients that record their requests and the answers to them.

They speak through the plain transport: nothing is repeated behind their back, and an answer that
did not come is written down as such.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from manta.kube.errors import Unreachable
from manta.kube.transport import Request, Response, Transport
from support.histories import (
    UNANSWERED,
    Call,
    Event,
    Held,
    History,
    Kind,
    Outcome,
    Session,
    Snapshot,
    Watch,
)

NAMESPACE = "histories"
PATH = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
PAUSE = 0.05
"""Before the next try, while the server is away."""
CALL_SECONDS = 20.0


class Unexpected(Exception):  # noqa: N818
    """An answer that no client may get here."""


@dataclass(slots=True)
class Stop:
    """Set when the clients shall end."""

    clients: bool = False


def object_named(key: str, value: str, expected: int = 0) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": key}
    if expected:
        meta["resourceVersion"] = str(expected)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"v": value}}


def held(body: dict[str, Any]) -> tuple[str, Held]:
    meta = body["metadata"]
    return meta["name"], Held(body["data"]["v"], int(meta["resourceVersion"]))


class Writer:
    """One client: reads, lists, creates, updates and deletes, with and without conditions."""

    def __init__(
        self, number: int, transport: Transport, history: History, random: Random, keys: int
    ) -> None:
        self._number = number
        self._transport = transport
        self._history = history
        self._random = random
        self._keys = [f"x{index}" for index in range(keys)]
        self._known: dict[str, int] = {}
        self._written = 0

    async def run(self, stop: Stop) -> None:
        calls: list[Callable[[str], Any]] = [
            *[self._get] * 6,
            *[self._create] * 5,
            *[self._update] * 4,
            *[self._update_if_same] * 6,
            *[self._delete] * 2,
            *[self._delete_if_same] * 2,
            *[self._list],
        ]
        while not stop.clients:
            try:
                await self._random.choice(calls)(self._random.choice(self._keys))
            except Unreachable:
                await asyncio.sleep(PAUSE)

    def _value(self) -> str:
        self._written += 1
        return f"{self._number}.{self._written}"

    async def _get(self, key: str) -> None:
        await self._called("get", key, "GET", f"{PATH}/{key}")

    async def _create(self, key: str) -> None:
        value = self._value()
        await self._called("create", key, "POST", PATH, object_named(key, value), value)

    async def _update(self, key: str) -> None:
        value = self._value()
        body = object_named(key, value)
        await self._called("update", key, "PUT", f"{PATH}/{key}", body, value)

    async def _update_if_same(self, key: str) -> None:
        expected = self._known.get(key)
        if not expected:
            await self._get(key)
            return
        value = self._value()
        body = object_named(key, value, expected)
        await self._called("update", key, "PUT", f"{PATH}/{key}", body, value, expected)

    async def _delete(self, key: str) -> None:
        await self._called("delete", key, "DELETE", f"{PATH}/{key}")

    async def _delete_if_same(self, key: str) -> None:
        expected = self._known.get(key)
        if not expected:
            await self._get(key)
            return
        body = {"preconditions": {"resourceVersion": str(expected)}}
        await self._called("delete", key, "DELETE", f"{PATH}/{key}", body, "", expected)

    async def _list(self, _: str) -> None:
        self._history.snapshots.append(await listed(self._transport))

    async def _called(
        self,
        kind: Kind,
        key: str,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        value: str = "",
        expected: int = 0,
    ) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        outcome: Outcome = "unknown"
        end, revision = UNANSWERED, 0
        try:
            answer = await self._transport.send(request(method, path, body))
            end = loop.time()
            outcome = outcome_of(kind, answer)
            if outcome == "ok" and kind != "delete":
                _, (value, revision) = held(json.loads(answer.body))
                self._known[key] = revision
        except Unreachable as lost:
            if lost.sent and kind != "get":
                self._note(Call(kind, key, begin, end, outcome, value, 0, expected, self._number))
            raise
        self._note(Call(kind, key, begin, end, outcome, value, revision, expected, self._number))

    def _note(self, call: Call) -> None:
        self._history.calls.append(call)


def request(method: str, path: str, body: dict[str, Any] | None = None) -> Request:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Accept": "application/json", "User-Agent": "histories/1"}
    if data is not None:
        headers["Content-Type"] = "application/json"
    return Request(method, path, (), headers, data, CALL_SECONDS)


def outcome_of(kind: Kind, answer: Response) -> Outcome:
    if answer.status in (200, 201):
        return "ok"
    if answer.status == 404:
        return "absent"
    if answer.status == 409:
        return "exists" if kind == "create" else "conflict"
    if answer.status >= 500:
        return "unknown"
    raise Unexpected(f"{kind}: {answer.status} {answer.body[:300]!r}")


async def listed(transport: Transport) -> Snapshot:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    answer = await transport.send(request("GET", PATH))
    if answer.status != 200:
        raise Unexpected(f"list: {answer.status} {answer.body[:300]!r}")
    body = json.loads(answer.body)
    objects = dict(held(one) for one in body["items"] if one["metadata"]["name"][0] == "x")
    return Snapshot(int(body["metadata"]["resourceVersion"]), objects, begin, loop.time())


class Expired(Exception):  # noqa: N818
    """The server says that it has forgotten the revision."""


class Watcher:
    """A watch that goes on from where it was, over any number of connections.

    `streaming` begins every connection with the whole state; `patience` is how long one
    connection may last before the client itself drops it.
    """

    def __init__(
        self,
        name: str,
        transport: Transport,
        random: Random,
        *,
        streaming: bool = False,
        patience: float = 60.0,
    ) -> None:
        self.observed = Watch(name)
        self.position = 0
        self._transport = transport
        self._random = random
        self._streaming = streaming
        self._patience = patience

    async def run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._random.uniform(0.2, 1) * self._patience):
                    await self._connected()
            except Unreachable:
                await asyncio.sleep(PAUSE)
            except Expired:
                self.position = 0
            except TimeoutError:
                continue

    async def _connected(self) -> None:
        if self._streaming:
            await self._stream()
            return
        if not self.position:
            whole = await listed(self._transport)
            self.observed.sessions.append(Session(whole.revision, whole.objects))
            self.position = whole.revision
        else:
            self.observed.sessions.append(Session(self.position))
        query = (("resourceVersion", str(self.position)),)
        async for kind, body in self._lines(query):
            self._note(kind, body)

    async def _stream(self) -> None:
        query = (("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan"))
        initial: dict[str, Held] = {}
        begun = False
        async for kind, body in self._lines(query):
            if begun:
                self._note(kind, body)
            elif kind == "BOOKMARK":
                begun = True
                self.position = int(body["metadata"]["resourceVersion"])
                self.observed.sessions.append(Session(self.position, initial))
            elif body["metadata"]["name"][0] == "x":
                key, value = held(body)
                initial[key] = value

    def _note(self, kind: Any, body: dict[str, Any]) -> None:
        meta = body["metadata"]
        self.position = int(meta["resourceVersion"])
        key, value = "", ""
        if kind != "BOOKMARK":
            if meta["name"][0] != "x":
                return
            key, (value, _) = held(body)
        self.observed.sessions[-1].events.append(Event(kind, self.position, key, value))

    async def _lines(
        self, query: tuple[tuple[str, str], ...]
    ) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        pairs = (("watch", "1"), ("allowWatchBookmarks", "true"), *query)
        asked = Request("GET", PATH, pairs, {"Accept": "application/json"}, None, CALL_SECONDS)
        rest = b""
        async with self._transport.stream(asked) as response:
            if response.status != 200:
                raise Unexpected(f"watch: {response.status}")
            async for chunk in response.chunks():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        raise Expired(event["object"]["message"])
                    yield event["type"], event["object"]
