"""Answers in another shape than the object itself: Table and PartialObjectMetadata."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from manta.localplane.apiserver import rendering
from manta.localplane.apiserver.listing import Page
from manta.localplane.apiserver.negotiation import Answer
from manta.localplane.apiserver.served import Served
from manta.localplane.apiserver.status_errors import Refusal, bad_request
from manta.localplane.apiserver.tables.columns import table_of
from manta.localplane.store.objects import Record

_encode = msgspec.json.Encoder().encode


class _Partial(msgspec.Struct):
    metadata: msgspec.Raw


_metadata_of = msgspec.json.Decoder(_Partial).decode


def check(answer: Answer, include: str, listed: str) -> None:
    """Refuse what cannot be shown; `listed` is the kind of a list, where one is asked for."""
    if answer.shape == "Table" and include not in ("", "None", "Metadata", "Object"):
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    if answer.shape == "PartialObjectMetadata" and listed:
        raise Refusal(
            406,
            "NotAcceptable",
            f"you requested PartialObjectMetadata, but the requested object is a list ({listed})",
        )


def one(served: Served, record: Record, answer: Answer, include: str, now: datetime) -> bytes:
    check(answer, include, "")
    if answer.shape == "Table":
        return _encode(_table(served, [record], str(record.revision), answer, include, now))
    return partial(record, answer.version)


def many(served: Served, page: Page, answer: Answer, include: str, now: datetime) -> rendering.Body:
    group = "core" if not served.group else served.group.partition(".")[0]
    custom = served.custom is not None
    check(
        answer,
        include,
        "*unstructured.UnstructuredList" if custom else f"*{group}.{served.list_kind}",
    )
    meta: dict[str, Any] = {"resourceVersion": str(page.revision)}
    if page.token:
        meta["continue"] = page.token
    if page.remaining:
        meta["remainingItemCount"] = page.remaining
    if answer.shape == "Table":
        definitions, _ = table_of(served)
        head = {**_table_head(answer), "metadata": meta, "columnDefinitions": definitions}
        start = _encode(head)[:-1] + b',"rows":['
        rows = (_encode(_row(served, record, answer, include, now)) for record in page.records)
        return rendering.joined(start, rows, b"]}")
    start = (
        b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/%s","metadata":'
        % answer.version.encode()
    )
    items = (partial(record, answer.version) for record in page.records)
    return rendering.joined(start + _encode(meta) + b',"items":[', items, b"]}\n")


def partial(record: Record, version: str) -> bytes:
    head = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/%s","metadata":'
    return head % version.encode() + bytes(_metadata_of(record.raw).metadata) + b"}"


def watch_renderer(
    served: Served, answer: Answer, include: str, clock: Callable[[], datetime]
) -> Callable[[Record], bytes]:
    """How each object of one watch is written. Only the first Table names its columns."""
    if answer.shape != "Table":
        return lambda record: partial(record, answer.version)
    first = True

    def render(record: Record) -> bytes:
        nonlocal first
        table = _table(served, [record], str(record.revision), answer, include, clock())
        if not first:
            table["columnDefinitions"] = None
        first = False
        return _encode(table)

    return render


def _table(
    served: Served,
    records: list[Record],
    revision: str,
    answer: Answer,
    include: str,
    now: datetime,
) -> dict[str, Any]:
    definitions, _ = table_of(served)
    return {
        **_table_head(answer),
        "metadata": {"resourceVersion": revision},
        "columnDefinitions": definitions,
        "rows": [_row(served, record, answer, include, now) for record in records],
    }


def _table_head(answer: Answer) -> dict[str, Any]:
    return {"kind": "Table", "apiVersion": f"meta.k8s.io/{answer.version}"}


def _row(
    served: Served, record: Record, answer: Answer, include: str, now: datetime
) -> dict[str, Any]:
    definitions, cells_of = table_of(served)
    obj = rendering.whole(served, record)
    # A bookmark is an object without a name: there is nothing to show.
    blank = [""] + [None] * (len(definitions) - 1)
    row: dict[str, Any] = {"cells": cells_of(obj, now) if record.key else blank}
    if include == "Object":
        row["object"] = obj
    elif include == "None":
        row["object"] = None
    else:
        row["object"] = msgspec.Raw(partial(record, answer.version))
    return row
