"""What a Pod posts is appended to a file of lines."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from manta.httpserver.messages import HttpRequest
from manta.localplane.node.pod import posts
from manta.localplane.node.pod.posts import PostReceiver


async def post(receiver: PostReceiver, body: bytes) -> int:
    return (await receiver.handle(HttpRequest("POST", "/v1/events", body=body))).status


async def test_a_post_is_one_line(tmp_path: Path) -> None:
    receiver = PostReceiver(tmp_path / "posts.jsonl")
    assert await post(receiver, b'[{\n"a": 1}]') == 200
    assert await post(receiver, b"[]") == 200
    assert (tmp_path / "posts.jsonl").read_bytes() == b'[{ "a": 1}]\n[]\n'


async def test_a_full_disk_is_answered_with_503_and_leaves_no_half_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ray sends the events again; the next post would else be joined to the half one, and both be lost."""
    receiver = PostReceiver(tmp_path / "posts.jsonl")
    await post(receiver, b"[1]")
    real, done = os.write, []

    def half(descriptor: int, content: memoryview) -> int:
        if done:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done.append(real(descriptor, content[:2]))
        return done[0]

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        assert await post(receiver, b"[2]") == 503
    assert await post(receiver, b"[2]") == 200
    assert (tmp_path / "posts.jsonl").read_bytes() == b"[1]\n[2]\n"
    assert "No space left on device" in caplog.text


async def test_a_file_that_is_full_refuses_posts_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(posts, "MAX_FILE", 6)
    receiver = PostReceiver(tmp_path / "posts.jsonl")
    assert [await post(receiver, b"[1]") for _ in range(3)] == [200, 503, 503]
    assert (tmp_path / "posts.jsonl").read_bytes() == b"[1]\n"
    assert caplog.text.count("further posts are refused") == 1
