"""The same requests to the embedded server and to a real kube-apiserver: a status class that differs is shown.

Both start equal and stay equal: after an answer that differs, and after a write, what one of them may have and
the other not is removed from both, so that one difference is shown once and not again by all that follows it.
"""

from __future__ import annotations

import asyncio
import json
import re
from random import Random
from typing import Any

from fuzz.apiserver import Report, discover, is_unparsable, make_namespace
from fuzz.corpus import Kind
from fuzz.differences import reason_for
from fuzz.requests import NAMES, NAMESPACE, Request, generate
from fuzz.wire import CLOSED, Answer, Connection, Target

JSON_HEADERS = {"Content-Type": "application/json", "Accept": "application/json"}
THINGS = "things.fuzz.example"
DEFINITIONS = Kind(
    "apiextensions.k8s.io/v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    verbs=("create",),
)
ACCOUNTS = Kind("v1", "serviceaccounts", "ServiceAccount", namespaced=True, verbs=("create",))
ESTABLISHED = 10.0
"""Seconds within which a definition is served, or gone."""
BUSY = 429
SKIPPED = ("resourceVersion", "continue")
"""The servers number their changes differently."""


class Pair:
    """Both servers: one request after the other."""

    def __init__(self, ours: Target, real: Target, seed: int) -> None:
        self.ours, self.real = Connection(ours, Random(seed)), Connection(real, Random(seed))

    async def send(self, request: Request) -> tuple[Answer, Answer]:
        return await self.ours.send(request), await self.real.send(request)

    async def ask(
        self, kind: Kind, method: str, path: str, body: Any = None
    ) -> tuple[Answer, Answer]:
        data = b"" if body is None else json.dumps(body).encode()
        headers = dict(JSON_HEADERS)
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        return await self.send(Request(0, "", kind, method, path, headers, data))

    async def close(self) -> None:
        await self.ours.close()
        await self.real.close()


async def compare(ours: Target, real: Target, seed: int, count: int) -> Report:
    """`count` requests, less those whose answers cannot be equal."""
    for target in (ours, real):
        await make_namespace(target)
    kinds = await _shared_kinds(ours, real)
    report, pair = Report(seed), Pair(ours, real, seed)
    await _make_account(pair)
    for index in range(count):
        request = generate(seed, index, kinds)
        if _is_comparable(request):
            await _compare_one(pair, report, request)
    await pair.close()
    return report


async def _shared_kinds(ours: Target, real: Target) -> list[Kind]:
    served = {(one.group_version, one.plural) for one in await discover(real)}
    return [
        one
        for one in await discover(ours)
        if (one.group_version, one.plural) in served and not one.subresource
    ]


def _is_comparable(request: Request) -> bool:
    """A bearer token says who asks on our side, a certificate on the other: no header may."""
    return not (
        request.is_stream
        or any(name in request.target for name in SKIPPED)
        or "Authorization" in request.headers
    )


async def _compare_one(pair: Pair, report: Report, request: Request) -> None:
    answer, other = await pair.send(request)
    while other.status == BUSY:  # a definition that has just changed
        await asyncio.sleep(1)
        other = await pair.real.send(request)
    report.add(request, answer)
    differs = answer.status // 100 != other.status // 100
    if differs and other.status == CLOSED and is_unparsable(request):
        differs = answer.status != 400
    if differs:
        name = f"{request.verb} {request.kind.plural}: ours {answer.status}, real {other.status}"
        said = f"{request.text()}\n    ours: {answer.body[:300]!r}\n    real: {other.body[:300]!r}"
        known = reason_for(request, answer, other)
        counter = report.known if known else report.different
        counter[known or name] += 1
        report.examples.setdefault(known or name, said)
    if request.method in ("POST", "PUT", "PATCH", "DELETE"):
        await _settle(pair, request, differs=differs)


async def _settle(pair: Pair, request: Request, *, differs: bool) -> None:
    """Equal state again, as far as this request can have changed it."""
    if request.kind.plural == "customresourcedefinitions":
        await _settle_definition(pair, differs=differs)
    elif differs:
        await _clear(pair, request)
    if request.kind.plural == "serviceaccounts":
        await _make_account(pair)


async def _clear(pair: Pair, request: Request) -> None:
    """What this request may have written or left is removed from both."""
    named = re.findall(r'"name": "([a-z0-9.-]+)"', request.body[:500].decode(errors="replace"))[:1]
    for name in dict.fromkeys((*NAMES, *named)):
        path = request.kind.path(NAMESPACE, name)
        answers = await pair.ask(request.kind, "DELETE", path + "?gracePeriodSeconds=0")
        if any(one.status == 200 for one in answers):
            released = {"metadata": {"finalizers": None}}
            await pair.ask(request.kind, "PATCH", path, released)
            if request.kind.plural == "namespaces":
                body = {"metadata": {"name": name}, "spec": {"finalizers": []}}
                await pair.ask(request.kind, "PUT", path + "/finalize", body)


async def _settle_definition(pair: Pair, *, differs: bool) -> None:
    """A definition is served, or gone, a moment after the answer."""
    path = DEFINITIONS.path("", THINGS)
    if differs:
        await pair.ask(DEFINITIONS, "DELETE", path)
        await _until(pair, path, 404)
        return
    if all(one.status == 200 for one in await pair.ask(DEFINITIONS, "GET", path)):
        await asyncio.sleep(1)


async def _until(pair: Pair, path: str, status: int) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + ESTABLISHED
    while loop.time() < end:
        answers = await pair.ask(DEFINITIONS, "GET", path)
        if all(one.status == status for one in answers):
            return
        await asyncio.sleep(0.2)


async def _make_account(pair: Pair) -> None:
    """Without controllers nobody makes the ServiceAccount that Pods need."""
    body = {"metadata": {"name": "default"}}
    await pair.ask(ACCOUNTS, "POST", ACCOUNTS.path(NAMESPACE), body)
