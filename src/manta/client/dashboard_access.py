"""A Ray dashboard for clients: through the proxy of the API server, or at an address.

Unlike `dashboard.py`, which operators use, it can stream, and its failures are exceptions.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

import msgspec

from manta.api.text import without_credentials
from manta.client.dashboard import is_from_api_server, message_of
from manta.kube.client import Client
from manta.kube.errors import MantaError
from manta.kube.proxy import service_proxy_path
from manta.kube.transport import Request, Response, UpgradingTransport
from manta.ray.dashboard import job_path
from manta.ray.log_reply import LogReply
from manta.ray.models import JobInfo, Target

TIMEOUT_SECONDS = 30.0
UPLOAD_TIMEOUT_SECONDS = 600.0
MAX_REPLY_BYTES = 16 * 1024 * 1024
TERMINAL = frozenset(("SUCCEEDED", "FAILED", "STOPPED"))


class DashboardError(MantaError):
    """The dashboard refused a request, or did not answer."""


class NotAllowedError(DashboardError):
    """Who asks may not ask: the right or the token is missing."""


class JobEnd(JobInfo, frozen=True):
    """A job with the exit code of its entrypoint, which newer versions of Ray report."""

    driver_exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class DashboardAccess:
    client: Client
    base: str = ""
    """Path of the dashboard on the client's server."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def through_api_server(cls, client: Client, target: Target) -> DashboardAccess:
        base = service_proxy_path(target.namespace, target.service, target.port_name).rstrip("/")
        # In Ray's own header: the API server keeps `Authorization` for itself.
        headers = {"x-ray-authorization": f"Bearer {target.token}"} if target.token else {}
        return cls(client, base, headers)

    # ── requests ─────────────────────────────────────────────────────────────────────────
    async def ping(self) -> str:
        """Why the dashboard does not answer; empty if it does."""
        try:
            await self._send("GET", "/api/version")
        except MantaError as error:
            return str(error)
        return ""

    async def upload(self, name: str, data: bytes) -> str:
        """Store a package unless Ray has it. Returns its URI. Raises DashboardError."""
        path = f"/api/packages/gcs/{name}"
        found = await self._send("GET", path, check=False)
        if found.status != 200:
            await self._send("PUT", path, data, seconds=UPLOAD_TIMEOUT_SECONDS)
        return f"gcs://{name}"

    async def submit(self, body: Mapping[str, object]) -> None:
        """Submit a job. Raises DashboardError with Ray's reason."""
        await self._send(
            "POST", "/api/jobs/", msgspec.json.encode(body), seconds=UPLOAD_TIMEOUT_SECONDS
        )

    async def job(self, submission_id: str) -> JobEnd | None:
        """The job; None if Ray does not know it. Raises DashboardError."""
        reply = await self._send("GET", job_path(submission_id), check=False)
        if reply.status == 404 and not is_from_api_server(reply):
            return None
        _raise_for_status(reply, "GET", job_path(submission_id))
        try:
            return msgspec.json.decode(reply.body, type=JobEnd)
        except msgspec.MsgspecError as error:
            raise DashboardError(f"the dashboard's reply is invalid: {error}") from error

    async def log(self, submission_id: str) -> AsyncGenerator[bytes, None]:
        """The log so far, in chunks. Raises DashboardError and Unreachable."""
        path, reply = job_path(submission_id, "logs"), LogReply()
        async with aclosing(self._pieces(path)) as pieces:
            async for piece in pieces:
                try:
                    if text := reply.feed(piece):
                        yield text
                except ValueError as error:
                    raise DashboardError(f"Ray: GET {path}: {error}") from error
        if not reply.ended:
            raise DashboardError(f"Ray: GET {path}: the reply broke off")

    async def tail(self, submission_id: str) -> AsyncGenerator[bytes, None]:
        """The log from its beginning, as it is written, until the job ends.

        Raises Unreachable when the connection breaks, and the ApiError of a refused WebSocket.
        """
        transport = self.client.transport
        if not isinstance(transport, UpgradingTransport):
            raise DashboardError("this connection cannot be upgraded to a stream")
        path = self.base + job_path(submission_id, "logs", "tail")
        request = Request("GET", path, headers=self.headers)
        async with transport.websocket(request, ()) as socket:
            async for message in socket.messages():
                yield message

    async def _pieces(self, path: str) -> AsyncGenerator[bytes, None]:
        """The body of a reply as it comes. Raises DashboardError and Unreachable."""
        request = Request("GET", self.base + path, headers=self.headers, timeout=TIMEOUT_SECONDS)
        async with self.client.transport.stream(request) as answer:
            body = answer.chunks()
            if answer.status >= 300:
                said = await _next(body, path)
                _raise_for_status(Response(answer.status, answer.headers, said), "GET", path)
            while piece := await _next(body, path):
                yield piece

    async def _send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        seconds: float = TIMEOUT_SECONDS,
        limit: int = MAX_REPLY_BYTES,
        check: bool = True,
    ) -> Response:
        headers = {**self.headers}
        if body is not None:
            is_json = path.startswith("/api/jobs")
            headers["content-type"] = "application/json" if is_json else "application/octet-stream"
        reply = await self.client.send(
            method,
            self.base + path,
            headers=headers,
            body=body,
            timeout=seconds,
            check=False,
            limit=limit,
        )
        if check:
            _raise_for_status(reply, method, path)
        return reply


async def _next(body: AsyncIterator[bytes], path: str) -> bytes:
    """The next piece that is not empty; empty: there is none. Raises DashboardError if it does not come."""
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            async for piece in body:
                if piece:
                    return piece
    except TimeoutError as error:
        why = f"nothing came for {TIMEOUT_SECONDS:g} s"
        raise DashboardError(f"Ray: GET {path}: {why}") from error
    return b""


def _raise_for_status(reply: Response, method: str, path: str) -> None:
    if reply.status < 300:
        return
    who, said = "Ray", reply.body[:2000].decode("utf-8", "replace")
    if is_from_api_server(reply):
        who, said = "the API server did not reach the dashboard", message_of(reply)
    text = without_credentials(said, 1000)
    kind = NotAllowedError if reply.status in (401, 403) else DashboardError
    raise kind(f"{who}: {method} {path}: {reply.status}: {text}")
