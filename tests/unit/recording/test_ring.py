from __future__ import annotations

from pathlib import Path

import pytest

from manta.api.usage import UsageError
from manta.recording.reader import Recorded, files_of, read_recording
from manta.recording.ring import MIN_BYTES, Ring, segments

HEADER = b'{"line":"header","format":"manta-recording","version":1,"manta":"1"}\n'


def fill(ring: Ring, lines: int) -> None:
    for _ in range(lines):
        if ring.needs_new_file:
            ring.start_file()
        ring.append([b"x" * 999 + b"\n"])


def test_the_ring_is_bounded_and_keeps_the_newest(tmp_path: Path) -> None:
    ring = Ring(tmp_path, MIN_BYTES, lambda: HEADER)
    fill(ring, 5000)
    files = segments(tmp_path)
    assert sum(path.stat().st_size for path in files) <= MIN_BYTES
    assert files[0].name != "recording-00000001.jsonl"
    assert len(files) > 4


def test_only_the_owner_may_read(tmp_path: Path) -> None:
    ring = Ring(tmp_path / "new", MIN_BYTES, lambda: HEADER)
    fill(ring, 1)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert segments(tmp_path / "new")[0].stat().st_mode & 0o777 == 0o600


def test_a_new_process_starts_a_new_file(tmp_path: Path) -> None:
    for _ in range(2):
        fill(Ring(tmp_path, MIN_BYTES, lambda: HEADER), 1)
    assert [path.name for path in segments(tmp_path)] == [
        "recording-00000001.jsonl",
        "recording-00000002.jsonl",
    ]


def test_a_torn_line_is_noted_and_the_rest_is_read(tmp_path: Path) -> None:
    path = tmp_path / "recording-00000001.jsonl"
    line = (
        b'{"line":"reconcile","number":1,"controller":"raycluster","key":["a","b"],"snapshot":{}}\n'
    )
    path.write_bytes(HEADER + line + line[:30])
    found = list(read_recording(path))
    assert [isinstance(one, Recorded) for one in found] == [True, False]
    assert "incomplete" in str(found[1])


def test_lines_and_versions_that_are_not_known_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "recording-00000001.jsonl"
    path.write_bytes(HEADER.replace(b'"version":1', b'"version":2') + b'{"line":"new"}\n[]\n')
    found = " ".join(map(str, read_recording(path)))
    assert "format version 2" in found
    assert "unknown lines 'new'" in found


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text("{}\n")
    with pytest.raises(UsageError, match="is not a recording"):
        list(read_recording(path))
    with pytest.raises(UsageError, match="has no recording"):
        files_of([tmp_path])
    with pytest.raises(UsageError, match="no such file"):
        files_of([tmp_path / "missing"])
