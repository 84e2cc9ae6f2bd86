"""The HTTP API of the Ray dashboard, with typed results.

It knows which status code means "no such job", and which text means that a submission id exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from manta.api.text import without_credentials
from manta.ray.autoscaler_report import AutoscalerResult, ClusterStatus, read_report
from manta.ray.models import (
    Accepted,
    AlreadySubmitted,
    ApplicationStatus,
    JobInfo,
    JobRequest,
    JobResult,
    NoSuchJob,
    PutResult,
    Refused,
    ServeResult,
    ServeStatus,
    Session,
    SessionResult,
    SubmitResult,
    Target,
    TaskList,
    TasksResult,
    Unreachable,
)
from manta.ray.transport import DashboardTransport, Reply

SERVE = "/api/serve/applications/"
T = TypeVar("T")


MAX_MESSAGE: Final = 8192
"""Characters of one message from Ray that are kept."""
MAX_APPLICATIONS: Final = 1000


def job_path(submission_id: str, *more: str) -> str:
    """The path of a job. Its id, which a user may choose, is always one segment."""
    segment = quote(submission_id, safe="")
    if not segment.strip("."):  # `.` and `..` would change the path
        segment = segment.replace(".", "%2E")
    return "/".join(("/api/jobs", segment, *more))


def failed_tasks_path(ray_job_id: str) -> str:
    wanted = {"state": "FAILED", "job_id": ray_job_id}
    query = [("detail", "1"), ("limit", "100"), ("timeout", "2")]
    for name, value in wanted.items():
        query += [("filter_keys", name), ("filter_predicates", "="), ("filter_values", value)]
    return f"/api/v0/tasks?{urlencode(query)}"


class Dashboard:
    def __init__(self, transport: DashboardTransport) -> None:
        self._transport = transport

    async def job(self, target: Target, submission_id: str) -> JobResult:
        reply = await self._transport.send(target, "GET", job_path(submission_id))
        match reply:
            case Unreachable():
                return reply
            case Reply(status=404):
                return NoSuchJob()
            case Reply(status=status) if status >= 300:
                return Unreachable(_error_text(reply))
            case _:
                return _short_job(_decode(reply, JobInfo))

    async def failed_tasks(self, target: Target, ray_job_id: str) -> TasksResult:
        """Up to 100 failed tasks of a job, with their errors."""
        return await self.read(target, failed_tasks_path(ray_job_id), TaskList)

    async def read(self, target: Target, path: str, into: type[T]) -> T | Unreachable:
        """A GET, with its answer decoded as `into`; any other answer is Unreachable."""
        return _decode_success(await self._transport.send(target, "GET", path), into)

    async def autoscaler(self, target: Target) -> AutoscalerResult:
        """What the autoscaler reports, of either version: both answer with the text of `ray status`."""
        reply = await self._transport.send(target, "GET", "/api/cluster_status?format=1")
        found = _decode_success(reply, ClusterStatus)
        return found if isinstance(found, Unreachable) else read_report(found.text)

    async def session(self, target: Target) -> SessionResult:
        return await self.read(target, "/api/version", Session)

    async def submit(self, target: Target, request: JobRequest) -> SubmitResult:
        body = msgspec.json.encode(request.body())
        reply = await self._transport.send(target, "POST", "/api/jobs/", body)
        match reply:
            case Unreachable():
                return reply
            case Reply(status=status) if status < 300:
                return Accepted()
            # Ray says this with a 500 in some versions and a 400 in others.
            case Reply(body=text) if b"different submission_id" in text:
                return AlreadySubmitted()
            case Reply(status=status) if status >= 500:
                return Unreachable(_error_text(reply))
            case _:
                return Refused(reply.status, _text(reply))

    async def stop(self, target: Target, submission_id: str) -> PutResult:
        """Stop a job. Accepted also for a job that is unknown or has ended."""
        reply = await self._transport.send(target, "POST", job_path(submission_id, "stop"))
        match reply:
            case Unreachable():
                return reply
            case Reply(status=status) if status < 300 or status == 404:
                return Accepted()
            case _:
                return Refused(reply.status, _text(reply))

    async def serve_status(self, target: Target) -> ServeResult:
        reply = await self._transport.send(target, "GET", f"{SERVE}?api_type=declarative")
        return _short_serve(_decode_success(reply, ServeStatus))

    async def put_serve_config(self, target: Target, config: Mapping[str, Any]) -> PutResult:
        reply = await self._transport.send(target, "PUT", SERVE, msgspec.json.encode(config))
        match reply:
            case Unreachable():
                return reply
            case Reply(status=status) if status < 300:
                return Accepted()
            case Reply(status=status) if status >= 500:
                return Unreachable(_error_text(reply))
            case _:
                return Refused(reply.status, _text(reply))

    async def proxy_is_healthy(self, url: str) -> bool:
        """Whether the Serve proxy at this URL takes requests; False if it does not answer."""
        reply = await self._transport.probe(url)
        return isinstance(reply, Reply) and reply.status == 200

    async def page(self, url: str) -> Reply | Unreachable:
        """A page that a Pod of a cluster publishes, such as its metrics."""
        return await self._transport.probe(url)

    async def close(self) -> None:
        await self._transport.close()


def _decode_success(reply: Reply | Unreachable, into: type[T]) -> T | Unreachable:
    """The body of a reply; Unreachable for any other status than success."""
    if isinstance(reply, Unreachable):
        return reply
    return _decode(reply, into) if reply.status < 300 else Unreachable(_error_text(reply))


def _decode(reply: Reply, into: type[T]) -> T | Unreachable:
    try:
        return msgspec.json.decode(reply.body, type=into)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        return Unreachable(f"the dashboard's reply is invalid: {error}: {_text(reply)}")
    except RecursionError:
        return Unreachable("the dashboard's reply is invalid: it is nested too deeply")


def _short_job(answer: JobInfo | Unreachable) -> JobInfo | Unreachable:
    if isinstance(answer, Unreachable):
        return answer
    return msgspec.structs.replace(answer, message=_clipped(answer.message))


def _short_serve(answer: ServeResult) -> ServeResult:
    """With messages cut to what a status can hold."""
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


def _error_text(reply: Reply) -> str:
    return f"the dashboard answered {reply.status}: {_text(reply)}"


def _text(reply: Reply) -> str:
    return without_credentials(reply.body[:1000].decode("utf-8", "replace"), 200)
