"""Decoding of single objects and of pages."""

from __future__ import annotations

import msgspec
import pytest

from manta.api.meta import Object
from manta.kube import codec
from manta.kube.errors import Malformed


def test_a_null_list_of_items_is_an_empty_page() -> None:
    page = codec.decode_page(b'{"metadata":{"resourceVersion":"1"},"items":null}', Object, "pods")
    assert page.items is None
    assert page.metadata.resource_version == "1"


def test_a_broken_item_of_a_page_is_named() -> None:
    items = [{"metadata": {"name": "fine"}}, {"metadata": {"name": "odd", "labels": 5}}]
    with pytest.raises(Malformed, match=r"list of pods odd: .*labels"):
        codec.decode_page(msgspec.json.encode({"items": items}), Object, "list of pods")


def test_an_answer_that_is_no_json_is_malformed() -> None:
    with pytest.raises(Malformed, match="list of pods"):
        codec.decode_page(b"<html>", Object, "list of pods")
    with pytest.raises(Malformed, match="Pod a"):
        codec.decode(b"<html>", Object, "Pod a")


def test_items_can_stay_raw_for_those_who_keep_bytes() -> None:
    page = codec.decode_page(b'{"items":[{"a":1}]}', msgspec.Raw, "pods")
    assert [bytes(item) for item in page.items or []] == [b'{"a":1}']


def test_bytes_are_sent_as_they_are() -> None:
    assert codec.encode_body(b"raw") == b"raw"
    assert codec.encode_body([{"op": "remove", "path": "/x"}]) == b'[{"op":"remove","path":"/x"}]'


def test_one_decoder_serves_all_calls_of_a_type() -> None:
    assert codec.decoder(Object) is codec.decoder(Object)
    assert codec.page_decoder(Object) is codec.page_decoder(Object)
