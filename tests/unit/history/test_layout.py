"""Keys of objects, and what is refused as part of one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manta.history.layout import (
    InvalidName,
    SessionKey,
    log_key,
    parse_log_key,
    quote_path,
    session_of_metadata,
)

KEY = SessionKey("default", "rayjob", "train", "session_2026-01-31_1")


@pytest.mark.parametrize(
    "key",
    [
        KEY._replace(namespace="../x"),
        KEY._replace(namespace=""),
        KEY._replace(name="a/b"),
        KEY._replace(kind="pod"),
        KEY._replace(session="session_../../etc"),
        KEY._replace(session=".."),
        KEY._replace(session="session_a\n"),
    ],
)
def test_a_part_that_is_no_name_is_refused(key: SessionKey) -> None:
    with pytest.raises(InvalidName):
        key.checked()


def test_only_a_session_json_names_a_session() -> None:
    assert session_of_metadata(KEY.metadata) == KEY
    assert session_of_metadata(f"{KEY.prefix}/pods/x/events/1.jsonl.gz") is None
    assert session_of_metadata("sessions/a/b/c/d/session.json") is None


@pytest.mark.parametrize("path", ["", "..", "a/../b", "/etc/passwd", "a//b", "\udcff.log"])
def test_a_log_path_that_cannot_be_part_of_a_key_is_refused(path: str) -> None:
    with pytest.raises(InvalidName):
        quote_path(path)


LONG = KEY._replace(namespace="n" * 63, name="a" * 253, session="session_" + "s" * 200)


@pytest.mark.parametrize(
    "path", ["日" * 85, "x" * 255, "a/" * 600 + "b", "deep/" + "ä" * 100], ids=len
)
@pytest.mark.parametrize("session", [KEY, LONG])
def test_a_long_name_is_cut_to_what_stores_allow(path: str, session: SessionKey) -> None:
    """255 bytes between slashes on a file system, 1,024 bytes in S3."""
    key = log_key(session, "p" * 200, path, (1, 2**64, 10**14, 10**14))
    assert len(key) <= 1024
    assert max(map(len, key.split("/"))) <= 253
    chunk = parse_log_key(session.prefix, key)
    assert chunk is not None
    assert path.startswith(chunk.path.rpartition("~")[0])
    assert log_key(session, "p" * 200, path + "x", (1, 2**64, 10**14, 10**14)) != key


@given(st.lists(st.text(min_size=1, max_size=20).filter(lambda one: one not in (".", "..") and "/" not in one and max(one) < "\ud800"), min_size=1, max_size=4))  # fmt: skip
def test_every_log_path_survives_its_key(parts: list[str]) -> None:
    path = "/".join(parts)
    key = log_key(KEY, "pod-1", path, (1, 22, 333, 4444))
    chunk = parse_log_key(KEY.prefix, key)
    assert chunk is not None
    assert chunk[:6] == ("pod-1", path, 1, 22, 333, 4444)
