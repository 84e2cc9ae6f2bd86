"""The log of a job that only Ray's dashboard has: with its token, in pieces, and what keeps it from being read."""

from __future__ import annotations

import asyncio
import json
from argparse import Namespace
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from manta.api.meta import Key
from manta.api.ray.resources import RAY_CLUSTERS, RAY_JOBS
from manta.api.resources import PODS, SECRETS
from manta.cli import logs
from manta.cli.main import main
from manta.client import jobs
from manta.client.auth_token import TokenError
from manta.client.dashboard_access import DashboardError, NotAllowedError
from manta.client.job_logs import NoLogError, job_log
from manta.client.log_tail import MAX_BYTES, Tail
from manta.client.package import Package
from manta.client.submission import Submission
from manta.kube.client import Client
from manta.kube.errors import NotFound
from manta.kube.transport import Request, Response
from manta.manifests.head_pod import build_head_pod
from manta.rules.settings import Settings
from support.history import SESSION, WHO, recorded_session
from support.raycluster import ray_cluster
from support.raycluster_scenario import decode
from support.rayjob import ray_job
from support.virtual import running, virtually

KEY = Key("default", "demo")
EARLIER = replace(WHO, name="demo")
LINES = b"".join(b"line %d\n" % number for number in range(2000))
PIECE = 4096


def forbidden() -> bytes:
    status = {"kind": "Status", "reason": "Forbidden", "message": 'services "x" is forbidden'}
    return json.dumps({**status, "code": 403}).encode()


@dataclass
class Pieces:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)

    async def chunks(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self.body), PIECE):
            yield self.body[at : at + PIECE]


@dataclass
class Server:
    """An API server with one RayJob, behind whose proxy one dashboard answers."""

    mode: str = "HTTPMode"
    auth: dict[str, str] = field(default_factory=dict)
    head: dict[str, Any] | None = None
    """The running head; None: who asks may not read it."""
    exists: bool = True
    """Whether the cluster does."""
    secret: dict[str, str] | None = None
    stage: str = "Running"
    cluster: str = "demo"
    """The cluster that the job has, or had."""
    job_status: str = "RUNNING"
    token: str = ""
    status: int = 200
    body: bytes = json.dumps({"logs": LINES.decode()}).encode()
    asked: list[Request] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)

    @property
    def client(self) -> Client:
        return Client(self)  # type: ignore[arg-type]

    def _objects(self) -> dict[str, dict[str, Any]]:
        job = ray_job("demo", submissionMode=self.mode)
        status = {"jobId": "demo-1", "jobStatus": self.job_status, "rayClusterName": self.cluster}
        job["metadata"]["namespace"] = "default"
        cluster = ray_cluster("demo", authOptions=self.auth)
        cluster["metadata"]["namespace"] = "default"
        found = {
            RAY_JOBS.path("default", "demo"): {
                **job,
                "status": {**status, "jobDeploymentStatus": self.stage},
            }
        }
        if self.exists:
            named = {"status": {"head": {"podName": "demo-head"}}}
            found[RAY_CLUSTERS.path("default", "demo")] = {**cluster, **named}
        if self.head is not None:
            found[PODS.path("default", "demo-head")] = self.head
        if self.secret is not None:
            found[SECRETS.path("default", "demo")] = {"data": self.secret}
        return found

    def _answer(self, request: Request) -> tuple[int, bytes]:
        self.asked.append(request)
        given = request.headers.get("x-ray-authorization", "")
        if self.token and given != f"Bearer {self.token}":
            return 401, b"Unauthorized: the token is missing"
        return self.status, self.body

    async def send(self, request: Request, timeout: float | None = None) -> Response:
        if "/proxy/" in request.path:
            status, body = self._answer(request)
            return Response(status, {}, body)
        if request.method == "DELETE":
            self.deleted.append(request.path)
        found = self._objects().get(request.path)
        if request.path == PODS.path("default"):
            found = {"items": [], "metadata": {}}
        if request.method == "POST":
            found = json.loads(request.body or b"{}")
        if request.path == PODS.path("default", "demo-head") and not found:
            return Response(403, {}, forbidden())
        missing = {"kind": "Status", "reason": "NotFound", "message": request.path, "code": 404}
        return Response(200 if found else 404, {}, json.dumps(found or missing).encode())

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Pieces]:
        yield Pieces(*self._answer(request))


def with_token() -> Server:
    secret = {"auth_token": b64encode(b"secret").decode()}
    return Server(auth={"mode": "token"}, token="secret", secret=secret)


async def read(server: Server, *, tail: int = 0) -> bytes:
    async with aclosing(job_log(server.client, KEY, follow=False, tail=tail)) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def test_the_log_is_read_in_pieces() -> None:
    chunks = [one async for one in job_log(Server().client, KEY, follow=False)]
    assert b"".join(chunks) == LINES
    assert max(len(one) for one in chunks) <= PIECE


async def test_of_a_long_log_only_the_last_lines_come() -> None:
    assert await read(Server(), tail=2) == b"line 1998\nline 1999\n"


def test_a_tail_keeps_few_bytes_of_long_lines() -> None:
    tail, chunk = Tail(3), b"x" * 100_000
    for _ in range(1000):
        tail.add(chunk)
    assert len(tail.text()) == MAX_BYTES
    assert sum(len(one) for one in tail._chunks) < MAX_BYTES + len(chunk)
    assert tail.seen == 100_000_000


async def test_the_log_of_a_cluster_with_token_is_read_with_it() -> None:
    assert await read(with_token()) == LINES


@pytest.mark.parametrize("auth", [{}, {"mode": "token", "secretName": "another"}])
async def test_the_token_is_that_which_the_running_head_knows(auth: dict[str, str]) -> None:
    """The cluster was edited since its head started."""
    server = with_token()
    started = decode(ray_cluster(authOptions=server.auth))
    server.head = build_head_pod(started, Settings(), spec_hash="")
    server.auth = auth
    assert await read(server) == LINES


async def test_a_token_that_is_missing_is_named() -> None:
    server = with_token()
    server.secret = None
    with pytest.raises(NotFound, match="secrets/demo"):
        await read(server)
    server.secret = {"other": "x"}
    with pytest.raises(TokenError, match="auth_token"):
        await read(server)


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (401, b"Unauthorized", NotAllowedError, "Ray: GET .*401: Unauthorized"),
        (403, forbidden(), NotAllowedError, 'services "x" is forbidden'),
        (500, b"Traceback: boom", DashboardError, "Ray: GET .*500: Traceback: boom"),
        (200, b"<html>" + b"please log in " * 9, DashboardError, "not a log"),
        (200, b'{"logs": "and then', DashboardError, "broke off"),
    ],
)
async def test_what_keeps_the_log_from_being_read_is_said(
    status: int, body: bytes, kind: type[Exception], words: str
) -> None:
    server = Server(status=status, body=body)
    with pytest.raises(kind, match=words):
        await read(server)
    server.stage = "Running" if kind is NotAllowedError else "Complete"
    if b"and then" not in body:
        with pytest.raises(kind, match=words):
            await anext(job_log(server.client, KEY, follow=True))


async def test_only_a_cluster_that_does_not_exist_is_said_not_to() -> None:
    with pytest.raises(NoLogError, match="does not exist"):
        await read(Server(exists=False))


@pytest.mark.parametrize(
    ("server", "from_history"),
    [
        (Server(exists=False), True),
        (Server(exists=False, stage="Complete"), True),
        (Server(cluster="", stage="Retrying"), True),
        (Server(cluster="", stage=""), False),
        (Server(cluster="", stage="Initializing"), False),
        (Server(exists=False, stage="Initializing"), False),  # it is refused by a quota
        (Server(mode="SidecarMode"), False),
        (Server(mode="SidecarMode", stage="Failed"), True),  # its head was lost
        (Server(exists=False, stage="Failed", job_status=""), False),  # it never began
        (Server(cluster="", stage="ValidationFailed"), False),
    ],
    ids=lambda one: (
        f"{one.mode} {one.stage or 'New'} {one.cluster} {one.exists}"
        if isinstance(one, Server)
        else ""
    ),
)
def test_the_history_of_an_earlier_job_is_not_that_of_one_that_has_just_begun(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    server: Server,
    from_history: bool,
) -> None:
    @asynccontextmanager
    async def opened(_args: Namespace) -> AsyncIterator[Client]:
        yield server.client

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MANTA_HISTORY_STORE", recorded_session(tmp_path, EARLIER).store.url)
    monkeypatch.setattr(logs, "open_client", opened)
    code = main(["logs", "rayjob/demo"])
    shown = capsys.readouterr()
    assert (code == 0, "the driver says hello" in shown.out) == (from_history, from_history)
    assert (SESSION in shown.err) is from_history


@virtually
async def test_a_followed_log_that_fails_for_a_while_comes_once() -> None:
    server, found = Server(), b""
    whole = server.body
    server.status, server.body = 503, b"the head is not there yet"

    async def recover() -> None:
        await asyncio.sleep(30)
        server.status, server.body = 200, whole

    log = job_log(server.client, KEY, follow=True, tail=1)
    async with running(recover()), aclosing(log) as chunks:
        async for chunk in chunks:
            found += chunk
            if found == b"line 1999\n":
                server.body = json.dumps({"logs": f"{LINES.decode()}more\n"}).encode()
            else:
                server.stage = "Complete"
    assert found == b"line 1999\nmore\n"


@virtually
async def test_a_followed_log_without_lines_ends_with_its_cluster() -> None:
    """The dashboard answered while it was there: nothing is missing."""
    server = Server(body=json.dumps({"logs": ""}).encode())

    async def end() -> None:
        await asyncio.sleep(30)
        server.exists, server.stage = False, "Complete"

    async with running(end()):
        assert [one async for one in job_log(server.client, KEY, follow=True)] == []


# ── what else is sent to the dashboard ───────────────────────────────────────────────────


async def test_a_job_is_stopped_with_the_token_of_its_cluster() -> None:
    server = with_token()
    assert "Ray stops the job" in await jobs.stop(server.client, KEY)
    assert server.deleted == []


@pytest.mark.parametrize("status", [401, 403, 500, 503])
async def test_a_job_that_ray_does_not_stop_is_not_deleted(status: int) -> None:
    server = Server(status=status)
    with pytest.raises(jobs.StopError, match="did not confirm"):
        await jobs.stop(server.client, KEY)
    assert server.deleted == []


async def test_a_package_is_uploaded_with_the_token_of_the_cluster() -> None:
    server = with_token()
    wanted = Submission("new", "default", ("python", "x.py"), cluster="demo")
    await jobs.create(server.client, wanted, Package(b"x" * 2_000_000, "a directory"))
    assert [(one.method, one.path.endswith(".zip")) for one in server.asked] == [("PUT", True)]
