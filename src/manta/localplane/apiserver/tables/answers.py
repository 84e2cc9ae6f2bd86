"""Answers as Table or PartialObjectMetadata."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from manta.localplane.apiserver import rendering
from manta.localplane.apiserver.api_resources import ApiResource
from manta.localplane.apiserver.listing import Page
from manta.localplane.apiserver.negotiation import Answer
from manta.localplane.apiserver.status_errors import StatusError, bad_request
from manta.localplane.store.objects import Record

_encode = msgspec.json.Encoder().encode


class _Partial(msgspec.Struct):
    metadata: msgspec.Raw


_metadata_of = msgspec.json.Decoder(_Partial).decode


def check(answer: Answer, include: str, listed: str) -> None:
    """Raise a 400 or 406 for an invalid combination; `listed` is the Go type of a list, or ''."""
    if answer.shape == "Table" and include not in ("", "None", "Metadata", "Object"):
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    if answer.shape == "PartialObjectMetadata" and listed:
        raise StatusError(
            406,
            "NotAcceptable",
            f"you requested PartialObjectMetadata, but the requested object is a list ({listed})",
        )


def one(
    resource: ApiResource, record: Record, answer: Answer, include: str, now: datetime
) -> bytes:
    check(answer, include, "")
    if answer.shape == "Table":
        return _encode(_table(resource, [record], str(record.revision), answer, include, now))
    return partial(record, answer.version)


def many(
    resource: ApiResource, page: Page, answer: Answer, include: str, now: datetime
) -> rendering.Body:
    check(answer, include, resource.strategy.go_list_type())
    meta: dict[str, Any] = {"resourceVersion": str(page.revision)}
    if page.token:
        meta["continue"] = page.token
    if page.remaining:
        meta["remainingItemCount"] = page.remaining
    if answer.shape == "Table":
        columns = resource.strategy.table.columns
        head = {**_table_head(answer), "metadata": meta, "columnDefinitions": columns}
        start = _encode(head)[:-1] + b',"rows":['
        rows = (_encode(_row(resource, record, answer, include, now)) for record in page.records)
        return rendering.join_items(start, rows, b"]}")
    start = (
        b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/%s","metadata":'
        % answer.version.encode()
    )
    items = (partial(record, answer.version) for record in page.records)
    return rendering.join_items(start + _encode(meta) + b',"items":[', items, b"]}\n")


def partial(record: Record, version: str) -> bytes:
    head = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%s","metadata":'
    return head % version.encode() + bytes(_metadata_of(record.raw).metadata) + b"}"


def watch_renderer(
    resource: ApiResource, answer: Answer, include: str, clock: Callable[[], datetime]
) -> Callable[[Record], bytes]:
    """The renderer of the objects of one watch. Only the first Table has column definitions."""
    if answer.shape != "Table":
        return lambda record: partial(record, answer.version)
    first = True

    def render(record: Record) -> bytes:
        nonlocal first
        table = _table(resource, [record], str(record.revision), answer, include, clock())
        if not first:
            table["columnDefinitions"] = None
        first = False
        return _encode(table)

    return render


def _table(
    resource: ApiResource,
    records: list[Record],
    revision: str,
    answer: Answer,
    include: str,
    now: datetime,
) -> dict[str, Any]:
    return {
        **_table_head(answer),
        "metadata": {"resourceVersion": revision},
        "columnDefinitions": resource.strategy.table.columns,
        "rows": [_row(resource, record, answer, include, now) for record in records],
    }


def _table_head(answer: Answer) -> dict[str, Any]:
    return {"kind": "Table", "apiVersion": f"meta.k8s.io/{answer.version}"}


def _row(
    resource: ApiResource, record: Record, answer: Answer, include: str, now: datetime
) -> dict[str, Any]:
    table = resource.strategy.table
    obj = rendering.decode_object(resource, record)
    # A bookmark is an object without a name: its cells are empty.
    blank = [""] + [None] * (len(table.columns) - 1)
    row: dict[str, Any] = {"cells": table.cells(obj, now) if record.key else blank}
    if include == "Object":
        row["object"] = obj
    elif include == "None":
        row["object"] = None
    else:
        row["object"] = msgspec.Raw(partial(record, answer.version))
    return row
