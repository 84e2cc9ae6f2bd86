"""A reply with a log is decoded as it arrives, wherever it is cut."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.ray.log_reply import LogReply


def decoded(body: bytes, cuts: list[int]) -> tuple[bytes, bool]:
    reply, found, ends = LogReply(), b"", sorted({*cuts, len(body)})
    for begin, end in zip([0, *ends], ends, strict=False):
        found += reply.feed(body[begin:end])
    return found, reply.ended


@given(
    st.text(alphabet=st.sampled_from('ab\\"\n\x1b\x00ä€😀/u'), max_size=60),
    st.lists(st.integers(min_value=0, max_value=400)),
    st.booleans(),
)
def test_it_is_the_log_wherever_the_reply_is_cut(text: str, cuts: list[int], plain: bool) -> None:
    body = json.dumps({"logs": text}, ensure_ascii=not plain).encode()
    assert decoded(body, [min(one, len(body)) for one in cuts]) == (text.encode(), True)


@pytest.mark.parametrize(
    ("body", "log"),
    [
        (b'{"logs": null}', b""),
        (b' { "logs" : "a" , "more": "b" }', b"a"),
        (b'{"logs": "\\ud83d alone"}', b"? alone"),
        (b'{"logs": "\xff"}', "\ufffd".encode()),
    ],
)
def test_odd_replies_are_decoded_too(body: bytes, log: bytes) -> None:
    assert decoded(body, list(range(len(body)))) == (log, True)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>please log in, because this page is not for everybody, and so it goes on</html>",
        b'{"error": "no such job, and a sentence that is long enough to be recognized as such"}',
        b'{"logs": "\\x"}',
        b'{"logs": "a\\u12zz and so on and on"}',
    ],
)
def test_what_is_no_log_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a log|invalid JSON|Invalid"):
        decoded(body, list(range(len(body))))


def test_little_is_held_of_a_long_log() -> None:
    reply, random = LogReply(), Random(7)
    reply.feed(b'{"logs": "')
    for _ in range(100):
        text = "".join(random.choice('ab\\"\n😀') for _ in range(1000))
        body = json.dumps(text).encode()[1:-1]
        assert reply.feed(body) == text.encode()
        assert len(reply._held) == 0
