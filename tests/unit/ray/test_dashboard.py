"""Every reply of a dashboard, valid or not, becomes one of a closed set of values."""

from __future__ import annotations

import json

import pytest

from manta.api.ray.job import JobStatus
from manta.ray.dashboard import Dashboard
from manta.ray.models import (
    Accepted,
    AlreadySubmitted,
    JobInfo,
    JobRequest,
    NoSuchJob,
    Refused,
    ServeStatus,
    Session,
    Target,
    Unreachable,
)
from manta.ray.transport import Reply, headers_for

HEAD = Target("ns", "c-head-svc", "c-head-svc.ns.svc.cluster.local", token="t0ken")


class ScriptedTransport:
    """Answers every request with one reply and records the requests."""

    def __init__(self, reply: Reply | Unreachable) -> None:
        self._reply = reply
        self.asked: list[tuple[str, str, bytes | None]] = []

    async def send(
        self, target: Target, method: str, path: str, body: bytes | None = None
    ) -> Reply | Unreachable:
        self.asked.append((method, path, body))
        return self._reply

    async def probe(self, url: str) -> Reply | Unreachable:
        return self._reply

    async def close(self) -> None:
        pass


def answering(status: int, body: object) -> Dashboard:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Dashboard(ScriptedTransport(Reply(status, text)))


async def test_a_running_job_has_its_start_time() -> None:
    dashboard = answering(
        200, {"status": "RUNNING", "start_time": 1700000000000, "type": "SUBMISSION"}
    )
    answer = await dashboard.job(HEAD, "id")
    assert answer == JobInfo(JobStatus.RUNNING, start_time=1700000000000)


@pytest.mark.parametrize(
    ("body", "session"),
    [
        ({"version": "4", "session_name": "session_2026_1"}, "session_2026_1"),
        ({"version": "4", "ray_version": "2.9.3"}, ""),
    ],
)
async def test_a_head_reports_its_session(body: object, session: str) -> None:
    assert await answering(200, body).session(HEAD) == Session(session)


async def test_an_unreachable_head_has_no_session() -> None:
    assert isinstance(await answering(503, {}).session(HEAD), Unreachable)


async def test_a_job_that_ray_does_not_know_is_no_error() -> None:
    assert await answering(404, b"Job id does not exist").job(HEAD, "id") == NoSuchJob()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b"Traceback"),
        (200, b"<html>"),
        (200, b"{}"),
        (200, b'{"status": "HAPPY"}'),
        (302, b""),
    ],
)
async def test_an_invalid_reply_about_a_job_is_unreachable(status: int, body: bytes) -> None:
    assert isinstance(await answering(status, body).job(HEAD, "id"), Unreachable)


async def test_unreachable_is_returned_as_it_is() -> None:
    silence = Unreachable("no answer within 2 s")
    assert await Dashboard(ScriptedTransport(silence)).job(HEAD, "id") is silence


async def test_a_submission_has_only_the_fields_that_are_set() -> None:
    transport = ScriptedTransport(Reply(200, b"{}"))
    answer = await Dashboard(transport).submit(HEAD, JobRequest("id", "python x.py", num_cpus=0.5))
    assert answer == Accepted()
    [(method, path, body)] = transport.asked
    assert (method, path) == ("POST", "/api/jobs/")
    assert json.loads(body or b"") == {
        "submission_id": "id",
        "entrypoint": "python x.py",
        "entrypoint_num_cpus": 0.5,
    }


async def test_an_existing_submission_id_means_that_an_earlier_try_succeeded() -> None:
    text = b"ValueError: Job with submission_id id already exists. Please use a different submission_id."
    for status in (400, 500):
        assert (
            await answering(status, text).submit(HEAD, JobRequest("id", "x")) == AlreadySubmitted()
        )


async def test_a_refused_submission_has_rays_message() -> None:
    answer = await answering(400, b"bad runtime_env").submit(HEAD, JobRequest("id", "x"))
    assert answer == Refused(400, "bad runtime_env")


async def test_a_server_error_on_submit_leaves_the_outcome_open() -> None:
    assert isinstance(await answering(500, b"boom").submit(HEAD, JobRequest("i", "x")), Unreachable)


async def test_stopping_an_unknown_job_is_done() -> None:
    assert await answering(404, b"").stop(HEAD, "id") == Accepted()


async def test_serve_applications_are_read_with_their_deployments() -> None:
    body = {
        "applications": {"app": {"status": "RUNNING", "deployments": {"D": {"status": "HEALTHY"}}}}
    }
    answer = await answering(200, body).serve_status(HEAD)
    assert isinstance(answer, ServeStatus)
    assert answer.applications["app"].deployments["D"].status == "HEALTHY"


async def test_only_a_200_makes_a_proxy_healthy() -> None:
    assert await answering(200, b"success").proxy_is_healthy("http://10.0.0.1:8000/-/healthz")
    assert not await answering(503, b"DRAINING").proxy_is_healthy("http://10.0.0.1:8000/-/healthz")


def test_the_token_goes_into_rays_own_header_and_never_into_a_repr() -> None:
    assert headers_for(HEAD, None)["x-ray-authorization"] == "Bearer t0ken"
    assert "t0ken" not in repr(HEAD)


def test_an_ipv6_address_is_bracketed() -> None:
    assert Target("ns", "svc", "fd00::1").url == "http://[fd00::1]:8265"
