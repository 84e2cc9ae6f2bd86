"""The Ray dashboard's HTTP API, as questions with typed answers.

Ray's own quirks end here: which status code means "no such job", and which text means that a
submission id is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote

import msgspec

from manta.api.text import without_credentials
from manta.ray.models import (
    Accepted,
    AlreadySubmitted,
    ApplicationStatus,
    JobAnswer,
    JobInfo,
    JobRequest,
    NoSuchJob,
    PutAnswer,
    Refused,
    ServeAnswer,
    ServeStatus,
    Session,
    SessionAnswer,
    SubmitAnswer,
    Target,
    Unreachable,
)
from manta.ray.transport import Courier, Reply

SERVE = "/api/serve/applications/"
T = TypeVar("T")


MAX_MESSAGE: Final = 8192
"""Characters of one message of Ray's that reach a status."""
MAX_APPLICATIONS: Final = 1000


def job_path(submission_id: str, *more: str) -> str:
    """The path of a job, whose id a user may have chosen: it is one segment, whatever is in it."""
    segment = quote(submission_id, safe="")
    if not segment.strip("."):  # `.` and `..` would be taken for steps
        segment = segment.replace(".", "%2E")
    return "/".join(("/api/jobs", segment, *more))


class Dashboard:
    def __init__(self, courier: Courier) -> None:
        self._courier = courier

    async def job(self, target: Target, submission_id: str) -> JobAnswer:
        reply = await self._courier.send(target, "GET", job_path(submission_id))
        match reply:
            case Unreachable():
                return reply
            case Reply(status=404):
                return NoSuchJob()
            case Reply(status=status) if status >= 300:
                return Unreachable(_complaint(reply))
            case _:
                return _short_job(_decode(reply, JobInfo))

    async def session(self, target: Target) -> SessionAnswer:
        reply = await self._courier.send(target, "GET", "/api/version")
        return _told(reply, Session)

    async def submit(self, target: Target, request: JobRequest) -> SubmitAnswer:
        body = msgspec.json.encode(request.body())
        reply = await self._courier.send(target, "POST", "/api/jobs/", body)
        match reply:
            case Unreachable():
                return reply
            case Reply(status=status) if status < 300:
                return Accepted()
            # Ray says this with a 500 in some versions and a 400 in others.
            case Reply(body=text) if b"different submission_id" in text:
                return AlreadySubmitted()
            case Reply(status=status) if status >= 500:
                return Unreachable(_complaint(reply))
            case _:
                return Refused(reply.status, _text(reply))

    async def stop(self, target: Target, submission_id: str) -> PutAnswer:
        """Ask a job to stop. A job that is unknown or over has stopped."""
        reply = await self._courier.send(target, "POST", job_path(submission_id, "stop"))
        match reply:
            case Unreachable():
                return reply
            case Reply(status=status) if status < 300 or status == 404:
                return Accepted()
            case _:
                return Refused(reply.status, _text(reply))

    async def serve_status(self, target: Target) -> ServeAnswer:
        reply = await self._courier.send(target, "GET", f"{SERVE}?api_type=declarative")
        return _short_serve(_told(reply, ServeStatus))

    async def put_serve_config(self, target: Target, config: Mapping[str, Any]) -> PutAnswer:
        reply = await self._courier.send(target, "PUT", SERVE, msgspec.json.encode(config))
        match reply:
            case Unreachable():
                return reply
            case Reply(status=status) if status < 300:
                return Accepted()
            case Reply(status=status) if status >= 500:
                return Unreachable(_complaint(reply))
            case _:
                return Refused(reply.status, _text(reply))

    async def proxy_is_healthy(self, url: str) -> bool:
        """Does the Serve proxy behind this URL take requests? Silence counts as no."""
        reply = await self._courier.probe(url)
        return isinstance(reply, Reply) and reply.status == 200

    async def close(self) -> None:
        await self._courier.close()


def _told(reply: Reply | Unreachable, into: type[T]) -> T | Unreachable:
    """The answer to a question that every healthy head can answer."""
    if isinstance(reply, Unreachable):
        return reply
    return _decode(reply, into) if reply.status < 300 else Unreachable(_complaint(reply))


def _decode(reply: Reply, into: type[T]) -> T | Unreachable:
    try:
        return msgspec.json.decode(reply.body, type=into)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return Unreachable(f"the dashboard's answer makes no sense: {error}: {_text(reply)}")
    except RecursionError:
        return Unreachable("the dashboard's answer makes no sense: it is nested too deeply")


def _short_job(answer: JobInfo | Unreachable) -> JobInfo | Unreachable:
    if isinstance(answer, Unreachable):
        return answer
    return msgspec.structs.replace(answer, message=_clipped(answer.message))


def _short_serve(answer: ServeAnswer) -> ServeAnswer:
    """What a Ray program says of itself, cut to what a status can hold."""
    if isinstance(answer, Unreachable):
        return answer
    if len(answer.applications) > MAX_APPLICATIONS:
        return Unreachable(f"Serve reports more than {MAX_APPLICATIONS} applications")
    applications = {name: _short_application(one) for name, one in answer.applications.items()}
    return msgspec.structs.replace(answer, applications=applications)


def _short_application(one: ApplicationStatus) -> ApplicationStatus:
    deployments = {
        name: msgspec.structs.replace(each, message=_clipped(each.message) or "")
        for name, each in one.deployments.items()
    }
    message = _clipped(one.message) or ""
    return msgspec.structs.replace(one, message=message, deployments=deployments)


def _clipped(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_MESSAGE else text[: MAX_MESSAGE - 1] + "…"


def _complaint(reply: Reply) -> str:
    return f"the dashboard answered {reply.status}: {_text(reply)}"


def _text(reply: Reply) -> str:
    return without_credentials(reply.body[:1000].decode("utf-8", "replace"), 200)
