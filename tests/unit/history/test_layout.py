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


@pytest.mark.parametrize("path", ["", "..", "a/../b", "/etc/passwd", "a//b", "x" * 600])
def test_a_log_path_that_leaves_its_directory_is_refused(path: str) -> None:
    with pytest.raises(InvalidName):
        quote_path(path)


@given(st.lists(st.text(min_size=1, max_size=20).filter(lambda one: one not in (".", "..") and "/" not in one and max(one) < "\ud800"), min_size=1, max_size=4))  # fmt: skip
def test_every_log_path_survives_its_key(parts: list[str]) -> None:
    path = "/".join(parts)
    key = log_key(KEY, "pod-1", path, (1, 22, 333, 4444))
    chunk = parse_log_key(KEY.prefix, key)
    assert chunk is not None
    assert chunk[:6] == ("pod-1", path, 1, 22, 333, 4444)
