"""Answers to requests about objects: JSON, YAML, Table or PartialObjectMetadata, as negotiated."""

from __future__ import annotations

import msgspec

from manta.api.documents.writer import to_yaml
from manta.httpserver.messages import HttpResponse, json_response
from manta.localplane.apiserver import rendering
from manta.localplane.apiserver.core import Call, Core, Written
from manta.localplane.apiserver.listing import Page
from manta.localplane.apiserver.status_errors import details
from manta.localplane.apiserver.tables import answers
from manta.localplane.store.objects import Record

_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


async def written_response(core: Core, call: Call, written: Written) -> HttpResponse:
    """The object after a write, once the write is durable."""
    await core.store.wait_durable(
        core.store.revision if written.removed else written.record.revision
    )
    return object_response(core, call, written.record, 201 if written.created else 200)


def object_response(core: Core, call: Call, record: Record, status: int = 200) -> HttpResponse:
    if call.answer.shape:
        include = call.request.param("includeObject")
        body = answers.one(call.resource, record, call.answer, include, core.now())
        return HttpResponse(status, body, call.headers())
    body = rendering.encode_object(call.resource, record)
    if call.answer.yaml:
        return HttpResponse(status, _sorted_yaml(body), call.headers(), "application/yaml")
    return HttpResponse(status, body + b"\n", call.headers())


def list_response(core: Core, call: Call, page: Page) -> HttpResponse:
    if call.answer.shape:
        include = call.request.param("includeObject")
        body = answers.many(call.resource, page, call.answer, include, core.now())
        return HttpResponse(200, body, call.headers())
    if call.answer.yaml:
        return HttpResponse(200, _yaml_list(call, page), call.headers(), "application/yaml")
    body = rendering.encode_list(
        call.resource, page.records, page.revision, page.token, page.remaining
    )
    return HttpResponse(200, body, call.headers())


def deleted_response(call: Call, record: Record) -> HttpResponse:
    resource = call.resource
    uid = record.decode()["metadata"]["uid"]
    shown = details(record.name, resource.plural, resource.group, uid=uid)
    return json_response(200, _SUCCESS | {"details": shown}, call.headers())


def created_response() -> HttpResponse:
    """The answer to a Binding or an Eviction."""
    return json_response(201, _SUCCESS | {"code": 201})


def _yaml_list(call: Call, page: Page) -> rendering.Body:
    """Item by item: a long list as one document would block the event loop."""
    shell = rendering.encode_list(call.resource, (), page.revision, page.token, page.remaining)
    assert isinstance(shell, bytes)
    if not page.records:
        return _sorted_yaml(shell)
    before, _, after = _sorted_yaml(shell).partition(b"items: []\n")
    items = (
        _sorted_yaml(b"[%b]" % rendering.encode_item(call.resource, record))
        for record in page.records
    )
    return rendering.join_items(before + b"items:\n", items, after, between=b"")


def _sorted_yaml(body: bytes) -> bytes:
    ordered = msgspec.json.encode(msgspec.json.decode(body), order="sorted")
    return to_yaml(msgspec.json.decode(ordered)).encode()
