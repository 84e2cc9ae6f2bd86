"""What a run asked of the API server, in the words of RBAC; and Ray behind the server's proxy."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from manta.kube.errors import Unreachable
from manta.kube.transport import Request, Response, StreamResponse, Transport
from manta.ray.models import Target
from manta.ray.transport import Reply
from support.fake_ray import FakeRay

Used = tuple[str, str, str]
"""(group, resource or resource/subresource, verb)"""

_PATH = re.compile(
    r"/(?:api|apis/(?P<group>[^/]+))/[^/]+/(?:namespaces/[^/]+/)?"
    r"(?P<resource>[^/]+)(?:/(?P<name>[^/]+)(?:/(?P<sub>[^/]+))?)?"
)
_PROXY = re.compile(
    r"/api/v1/namespaces/(?P<namespace>[^/]+)/(?P<kind>pods|services)/"
    r"(?:http:)?(?P<name>[^/:]+):[^/]+/proxy(?P<path>/.*)"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}


def permission_of(request: Request) -> Used | None:
    """None: discovery and the like, which every account may read."""
    found = _PATH.match(request.path)
    if found is None:
        return None
    resource = found["resource"] + (f"/{found['sub']}" if found["sub"] else "")
    return found["group"] or "", resource, _verb(request, named=bool(found["name"]))


def _verb(request: Request, *, named: bool) -> str:
    if request.method == "GET":
        watching = any(name == "watch" and value in ("true", "1") for name, value in request.query)
        return "watch" if watching else "get" if named else "list"
    if request.method == "DELETE":
        return "delete" if named else "deletecollection"
    return _VERBS[request.method]


class _CannotStreamLists:
    """What a server says that is asked for a list as a watch and is too old for it."""

    status = 400
    headers: Mapping[str, str] = {"content-type": "application/json"}

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b'{"kind": "Status", "code": 400, "reason": "BadRequest", "message": "no such option"}'


class RecordingTransport:
    """Notes every request, and what was refused.

    The server is an old one that cannot stream lists, and the first reply to each kind of write is
    lost: so the operator also does what it does when it has to look again.
    """

    def __init__(self, inner: Transport, ray: FakeRay) -> None:
        self._inner = inner
        self._ray = ray
        self.used: set[Used] = set()
        self.refused: set[Used] = set()
        self._lost: set[Used] = set()

    async def send(self, request: Request) -> Response:
        used = self._note(request)
        if proxied := _PROXY.match(request.path):
            return await self._to_ray(proxied, request)
        response = await self._inner.send(request)
        if used is not None:
            self._judge(used, request, response.status)
        return response

    def _judge(self, used: Used, request: Request, status: int) -> None:
        if status == 403:
            self.refused.add(used)
        elif request.method != "GET" and status < 300 and used not in self._lost:
            self._lost.add(used)
            raise Unreachable(f"reply to {request.method} {request.path} lost", sent=True)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[StreamResponse]:
        used = self._note(request)
        if ("sendInitialEvents", "true") in request.query:
            yield _CannotStreamLists()
            return
        async with self._inner.stream(request) as response:
            if response.status == 403 and used is not None:
                self.refused.add(used)
            yield response

    async def close(self) -> None:
        await self._inner.close()

    def _note(self, request: Request) -> Used | None:
        used = permission_of(request)
        if used is not None:
            self.used.add(used)
        return used

    async def _to_ray(self, proxied: re.Match[str], request: Request) -> Response:
        if proxied["kind"] == "pods":
            reply = await self._ray.probe(request.path)
        else:
            target = Target(proxied["namespace"], proxied["name"], host="")
            reply = await self._ray.send(target, request.method, proxied["path"], request.body)
        assert isinstance(reply, Reply)
        return Response(reply.status, {}, reply.body)
