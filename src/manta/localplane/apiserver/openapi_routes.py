"""`/openapi/v3`: the index and the documents, which are built on request.

The URL of a document holds a hash of its content, so that clients can cache it for ever. There is no
`/openapi/v2`: clients work without it.
"""

from __future__ import annotations

from manta.httpserver.messages import HttpRequest, HttpResponse, json_response, text_response
from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.openapi.documents import (
    document,
    document_hash,
    group_version_path,
    index,
)
from manta.localplane.apiserver.registry import Registry


class OpenApi:
    def __init__(self, registry: Registry, server_version: str) -> None:
        self._registry = registry
        self._server_version = server_version
        self._cached_version = -1
        self._hashes: dict[str, str] = {}

    def answer(self, request: HttpRequest) -> HttpResponse | None:
        """None for paths outside of /openapi."""
        path = request.path.rstrip("/")
        if path == "/openapi/v3":
            return json_response(200, index(self._index()))
        if not path.startswith("/openapi/"):
            return None
        name = path.removeprefix("/openapi/v3/")
        digest = self._index().get(name)
        if digest is None:
            return text_response(404, "404 page not found\n")
        return self._document(request, name, digest)

    def _document(self, request: HttpRequest, name: str, digest: str) -> HttpResponse:
        etag = f'"{digest}"'
        named = request.param("hash") == digest
        lasting = "public, immutable" if named else "no-cache, private"
        headers = (("ETag", etag), ("Cache-Control", lasting), ("Vary", "Accept"))
        if request.headers.get("if-none-match") == etag:
            return HttpResponse(304, b"", headers)
        body = document(self._resources(name), self._server_version)
        return json_response(200, body, headers)

    def _index(self) -> dict[str, str]:
        if self._cached_version != self._registry.version:
            self._hashes = {name: document_hash(self._resources(name)) for name in self._names()}
            self._cached_version = self._registry.version
        return self._hashes

    def _names(self) -> list[str]:
        found = {group_version_path(one.group, one.version) for one in self._registry.all()}
        return sorted(found)

    def _resources(self, name: str) -> list[ApiResource]:
        return [
            one
            for one in self._registry.all()
            if group_version_path(one.group, one.version) == name
        ]
