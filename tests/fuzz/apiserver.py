"""The fuzzer of the API server: sends and judges."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from fuzz.corpus import Kind, kinds_of
from fuzz.requests import NAMESPACE, Request, generate
from fuzz.servers import Neighbour, Server
from fuzz.wire import CLOSED, GARBLED, HANGS, Answer, Connection, Target

FAULTS = {CLOSED: "connection closed without an answer", HANGS: "no answer", GARBLED: "not HTTP"}
CLASSES_OF_STREAMS = (500, 502, 503, 504)
"""A Pod that does not answer is a server error in Kubernetes too."""
AS_KUBERNETES = (
    b"resourceVersion: Invalid value",
    b"Too large resource version",
    b"target.name: Required value",
    b"target.kind: Unsupported value",
)
"""Messages of the 500s and 504s that kube-apiserver gives too."""
SAMPLES = 400


@dataclass
class Report:
    seed: int
    requests: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    different: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    """Differences that are meant, by their reason."""
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, request: Request, answer: Answer) -> None:
        self.requests += 1
        known = FAULTS.get(answer.status)
        self.statuses[known or f"{answer.status // 100}xx"] += 1
        if (finding := judge(request, answer)) and len(self.findings) < SAMPLES:
            self.findings.append(f"seed {self.seed}: {finding}: {request.text()}")


def judge(request: Request, answer: Answer) -> str:
    """What is wrong with this answer; empty: nothing."""
    if answer.status == CLOSED and is_unparsable(request):
        return ""
    if known := FAULTS.get(answer.status):
        return f"{known} {answer.body[:200]!r}"
    if answer.status < 500 or answer.status == 501:
        return ""
    if any(known in answer.body for known in AS_KUBERNETES):
        return ""
    if (
        request.is_stream
        and answer.status in CLASSES_OF_STREAMS
        and b"InternalError" not in answer.body
    ):
        return ""
    return f"status {answer.status} {answer.body[:300]!r}"


def is_unparsable(request: Request) -> bool:
    """Not HTTP at all: such a connection may be closed at once."""
    written = request.target + "".join(request.headers.values())
    return not request.method.isupper() or any(ord(one) < 32 or ord(one) == 127 for one in written)


async def discover(target: Target) -> list[Kind]:
    """Every served kind and subresource."""
    rng = Random(0)
    connection = Connection(target, rng)

    async def get(path: str) -> dict[str, object]:
        kind = Kind("v1", "x", "X", namespaced=False, verbs=())
        answer = await connection.send(
            Request(0, "get", kind, "GET", path, {"Accept": "application/json"})
        )
        assert answer.status == 200, (path, answer)
        document: dict[str, object] = json.loads(answer.body)
        return document

    versions = ["v1"]
    for group in (await get("/apis"))["groups"]:  # type: ignore[attr-defined]
        versions += [one["groupVersion"] for one in group["versions"]]
    kinds: list[Kind] = []
    for version in versions:
        path = "/api/v1" if version == "v1" else f"/apis/{version}"
        kinds += kinds_of(version, (await get(path))["resources"])  # type: ignore[arg-type]
    kinds.append(
        Kind(
            "fuzz.example/v1",
            "things",
            "Thing",
            True,
            ("create", "get", "patch", "update", "list", "watch"),
        )
    )
    await connection.close()
    return kinds


async def make_namespace(target: Target) -> None:
    kind = Kind("v1", "namespaces", "Namespace", namespaced=False, verbs=("create",))
    body = json.dumps({"metadata": {"name": NAMESPACE}}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    request = Request(0, "create", kind, "POST", "/api/v1/namespaces", headers, body)
    async with Connection(target, Random(0)) as connection:
        await connection.send(request)


async def fuzz(server: Server, seed: int, count: int, workers: int = 4) -> tuple[Report, Neighbour]:
    """Mutated requests from several connections at once, beside a client that does nothing odd."""
    await make_namespace(server.target)
    kinds = await discover(server.target)
    report, neighbour = Report(seed), Neighbour(server.target)
    waiting = iter(range(count))

    async def work(number: int) -> None:
        async with Connection(server.target, Random(f"{seed}/{number}")) as connection:
            for index in waiting:
                request = generate(seed, index, kinds)
                report.add(request, await connection.send(request))
                if not server.alive():
                    report.findings.append(
                        f"seed {seed}: the server died at or before {request.text()}"
                    )
                    return

    beside = asyncio.create_task(neighbour.run())
    try:
        await asyncio.gather(*(work(number) for number in range(workers)))
    finally:
        beside.cancel()
        with suppress(asyncio.CancelledError):
            await beside
    report.findings += [f"traceback in the log: {one}" for one in server.tracebacks()]
    return report, neighbour
