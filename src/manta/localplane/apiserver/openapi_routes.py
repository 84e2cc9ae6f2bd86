"""`/openapi/v3`: which documents there are, and each of them, written when somebody asks.

The hash in a document's address changes with its content, so clients may keep it for ever.
`/openapi/v2` does not exist here: clients do without it.
"""

from __future__ import annotations

from manta.localplane.apiserver.messages import (
    HttpRequest,
    HttpResponse,
    json_response,
    text_response,
)
from manta.localplane.apiserver.openapi.documents import (
    Documented,
    document,
    document_hash,
    group_version_path,
    index,
)
from manta.localplane.apiserver.registry import Registry
from manta.localplane.apiserver.served import Served


class OpenApi:
    def __init__(self, registry: Registry, server_version: str) -> None:
        self._registry = registry
        self._server_version = server_version
        self._made_for = -1
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
        body = document(self._described(name, schemas=True), self._server_version)
        return json_response(200, body, headers)

    def _index(self) -> dict[str, str]:
        if self._made_for != self._registry.version:
            self._hashes = {name: document_hash(self._described(name)) for name in self._names()}
            self._made_for = self._registry.version
        return self._hashes

    def _names(self) -> list[str]:
        found = {group_version_path(one.group, one.version) for one in self._registry.all()}
        return sorted(found)

    def _described(self, name: str, *, schemas: bool = False) -> list[Documented]:
        return [
            _described(one, schemas=schemas)
            for one in self._registry.all()
            if group_version_path(one.group, one.version) == name
        ]


def _described(served: Served, *, schemas: bool) -> Documented:
    custom = served.custom
    return Documented(
        served.group,
        served.version,
        served.plural,
        served.kind,
        served.namespaced,
        served.verbs,
        tuple((sub.name, sub.verbs) for sub in served.subresources),
        custom.openapi() if custom is not None and schemas else None,
        str(custom.epoch) if custom is not None else "",
    )
