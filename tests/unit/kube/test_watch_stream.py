"""Watch bytes to events, however the network cut them."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.api.meta import Object
from manta.kube.errors import Gone, Malformed, Unavailable
from manta.kube.watch_stream import LineSplitter, decode_event


def line(type_: str, **object_: object) -> bytes:
    return msgspec.json.encode({"type": type_, "object": object_})


@given(
    lines=st.lists(
        st.binary(min_size=1).filter(lambda b: b"\n" not in b and b.strip()), max_size=8
    ),
    cuts=st.lists(st.integers(0, 200), max_size=20),
)
def test_cutting_the_stream_anywhere_changes_nothing(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(each + b"\n" for each in lines)
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    splitter = LineSplitter()
    got = []
    for start, end in pairwise(edges):
        got += splitter.feed(stream[start:end])
    assert got == lines
    assert not splitter.cut_off


def test_an_object_larger_than_any_line_limit_passes() -> None:
    big = line("ADDED", metadata={"name": "big", "annotations": {"a": "x" * 3_000_000}})
    splitter = LineSplitter()
    stream = big + b"\n"
    got = [
        each for at in range(0, len(stream), 4096) for each in splitter.feed(stream[at : at + 4096])
    ]
    assert got == [big]


def test_an_end_inside_a_line_is_noticed() -> None:
    splitter = LineSplitter()
    splitter.feed(b'{"type":"ADDED"}\n{"ty')
    assert splitter.cut_off


@pytest.mark.parametrize("into", [dict, Object, msgspec.Raw])
def test_an_event_brings_its_version_whatever_it_is_decoded_into(into: type) -> None:
    event = decode_event(line("MODIFIED", metadata={"resourceVersion": "7"}), into, "pods")
    assert (event.type, event.resource_version) == ("MODIFIED", "7")


def test_a_bookmark_of_a_built_in_kind_has_nulls_and_does_no_harm() -> None:
    bookmark = line(
        "BOOKMARK",
        metadata={"resourceVersion": "9", "creationTimestamp": None},
        spec={"containers": None},
    )
    event = decode_event(bookmark, Object, "pods")
    assert (event.type, event.resource_version, event.initial_end) == ("BOOKMARK", "9", False)


def test_the_end_of_the_initial_events_is_marked() -> None:
    annotations = {"k8s.io/initial-events-end": "true"}
    bookmark = line("BOOKMARK", metadata={"resourceVersion": "9", "annotations": annotations})
    assert decode_event(bookmark, Object, "pods").initial_end


def test_an_expired_version_inside_the_stream_is_gone() -> None:
    error = line("ERROR", kind="Status", code=410, reason="Expired", message="too old")
    with pytest.raises(Gone, match="too old"):
        decode_event(error, Object, "pods")


def test_any_other_error_inside_the_stream_is_raised_as_what_it_is() -> None:
    error = line("ERROR", kind="Status", code=500, reason="InternalError", message="disabled")
    with pytest.raises(Unavailable, match="disabled"):
        decode_event(error, Object, "pods")


@pytest.mark.parametrize("broken", [b"nonsense", line("RENAMED"), b'{"type":"ADDED"}'])
def test_what_is_no_event_names_the_watch(broken: bytes) -> None:
    with pytest.raises(Malformed, match="watch of pods"):
        decode_event(broken, Object, "pods")


def test_an_object_that_does_not_fit_is_named() -> None:
    odd = line("ADDED", metadata={"name": "odd", "namespace": "ns", "generation": "x"})
    with pytest.raises(Malformed, match=r"pods ns/odd.*generation"):
        decode_event(odd, Object, "pods")
