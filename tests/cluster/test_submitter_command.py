"""The submitter's own command, run by a real shell against dashboards that come back empty.

`ray` is a small stand-in that talks to the same addresses as Ray's own; tests/e2e has Ray itself.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from manta.manifests.session_guard import OTHER_SESSION_EXIT_CODE
from manta.manifests.submitter import Submission, build_submitter_job
from manta.ray.models import Target
from manta.ray.transport import Reply
from support.fake_ray import FakeHead, FakeRay
from support.rayjob import a_cluster, a_job

JOB, SERVICE = "demo-12345", "demo-head-svc"
RAY = """\
import json, os, sys, time, urllib.request
verb, address, job = sys.argv[2], sys.argv[4], os.environ['RAY_JOB_SUBMISSION_ID']
headers = {'Authorization': 'Bearer ' + os.environ.get('RAY_AUTH_TOKEN', '')}
def send(path, body=None):
    request = urllib.request.Request(address + path, body, headers)
    return json.load(urllib.request.urlopen(request, timeout=10))
if verb == 'status':
    assert not os.environ.get('STATUS_IS_LOST')
    send('/api/jobs/' + job)
if verb == 'submit':
    entrypoint = ' '.join(sys.argv[sys.argv.index('--') + 1:])
    body = {'submission_id': job, 'entrypoint': entrypoint}
    send('/api/jobs/', json.dumps(body).encode())
if verb == 'logs':
    while send('/api/jobs/' + job)['status'] == 'RUNNING':
        time.sleep(0.05)
"""


@dataclass
class Rehearsal:
    """One cluster's dashboard, and submitters for it."""

    ray: FakeRay
    address: str
    path: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def head(self) -> FakeHead:
        return self.ray.head("default", SERVICE)

    def come_back_empty(self) -> None:
        self.ray.restart_head("default", SERVICE)

    async def submit(self, session: str, **env: str) -> tuple[int, str]:
        """What a Pod of the submitter that was made for this session ends with, and says."""
        job = build_submitter_job(
            a_job(), a_cluster(), Submission(JOB, self.address, {}, session=session)
        )
        [container] = job["spec"]["template"]["spec"]["containers"]
        reported = {one["name"]: one["value"] for one in container["env"]}
        ran = await asyncio.create_subprocess_exec(
            *container["command"],
            *container["args"],
            env={**reported, "PATH": f"{self.path}:{os.environ['PATH']}", **self.env, **env},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await ran.communicate()
        assert ran.returncode is not None
        return ran.returncode, said.decode()


@asynccontextmanager
async def dry_run(path: Path, token: str = "") -> AsyncIterator[Rehearsal]:
    (path / "stand_in.py").write_text(RAY)
    for name, text in {"python": '"$@"', "ray": f'{path}/stand_in.py "$@"'}.items():
        (path / name).write_text(f"#!/bin/sh\nexec {sys.executable} -E {text}\n")
        (path / name).chmod(0o755)
    ray = FakeRay(finish_after=0.2)

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/api/gcs_healthz":
            return web.Response(text="success")
        if token and request.headers.get("Authorization") != f"Bearer {token}":
            return web.Response(status=401)
        target = Target("default", SERVICE, request.host)
        reply = await ray.send(target, request.method, request.path, await request.read())
        assert isinstance(reply, Reply)
        return web.Response(status=reply.status, body=reply.body)

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield Rehearsal(ray, f"127.0.0.1:{runner.addresses[0][1]}", path)
    finally:
        await runner.cleanup()


async def test_a_submitter_submits_to_its_session_and_follows_when_it_is_started_again(
    tmp_path: Path,
) -> None:
    async with dry_run(tmp_path) as stage:
        session = stage.head.session
        assert await stage.submit(session) == (0, "")
        assert stage.head.jobs[JOB].entrypoint == "python main.py"
        assert await stage.submit(session) == (0, "")
        assert len(stage.ray.executions) == 1


async def test_a_submitter_that_is_started_again_submits_nothing_to_another_session(
    tmp_path: Path,
) -> None:
    async with dry_run(tmp_path) as stage:
        session = stage.head.session
        await stage.submit(session)
        stage.come_back_empty()
        code, said = await stage.submit(session)
        assert code == OTHER_SESSION_EXIT_CODE
        assert f"meant for Ray session {session} and {stage.head.session} answers" in said
        assert len(stage.ray.executions) == 1
        assert (await stage.submit(""))[0] == 0
        assert len(stage.ray.executions) == 2  # what would happen without a session


async def test_what_the_first_head_never_got_the_second_does_not_get_either(tmp_path: Path) -> None:
    """Nobody can tell the two cases apart once the first head is gone."""
    async with dry_run(tmp_path) as stage:
        session = stage.head.session
        stage.come_back_empty()
        assert (await stage.submit(session))[0] == OTHER_SESSION_EXIT_CODE
        assert stage.ray.executions == []


async def test_a_status_that_is_lost_on_its_way_is_no_reason_to_submit_again(
    tmp_path: Path,
) -> None:
    async with dry_run(tmp_path) as stage:
        session = stage.head.session
        await stage.submit(session)
        code, said = await stage.submit(session, STATUS_IS_LOST="yes")
        assert (code, len(stage.ray.executions)) == (1, 1)
        assert f"Ray has job {JOB} by now" in said


@pytest.mark.parametrize("where", ["variable", "file"])
async def test_a_dashboard_that_wants_a_token_gets_it(tmp_path: Path, where: str) -> None:
    async with dry_run(tmp_path, token="t0ken") as stage:
        file = tmp_path / "token"
        file.write_text("t0ken\n")
        stage.env = {"RAY_AUTH_TOKEN": "t0ken"}
        if where == "file":
            submitter = {"RAY_AUTH_TOKEN_PATH": str(file)}
            ray = tmp_path / "ray"
            ray.write_text(ray.read_text().replace("exec", "RAY_AUTH_TOKEN=t0ken exec"))
            stage.env = submitter
        assert await stage.submit(stage.head.session) == (0, "")
        assert len(stage.ray.executions) == 1


async def test_a_dashboard_that_refuses_the_question_gets_no_job(tmp_path: Path) -> None:
    async with dry_run(tmp_path) as stage:
        stage.ray.weather = lambda _method, path: "500" if path == "/api/version" else ""
        code, _ = await stage.submit(stage.head.session)
        assert (code, stage.ray.executions) == (1, [])
