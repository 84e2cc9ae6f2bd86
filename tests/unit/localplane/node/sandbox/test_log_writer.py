from __future__ import annotations

from pathlib import Path

from manta.localplane.node.sandbox.log_writer import MAX_LINE_BYTES, LogFile, Splitter, timestamp


def test_a_line_is_kept_back_until_it_is_complete() -> None:
    splitter = Splitter()
    assert list(splitter.feed(b"one\ntw")) == [(b"one", True)]
    assert list(splitter.feed(b"o\n")) == [(b"two", True)]


def test_what_has_no_line_end_is_written_as_a_part_at_the_end() -> None:
    splitter = Splitter()
    assert list(splitter.feed(b"rest")) == []
    assert list(splitter.flush()) == [(b"rest", False)]
    assert list(splitter.flush()) == []


def test_a_very_long_line_is_cut_into_parts_and_ends_once() -> None:
    splitter = Splitter()
    parts = list(splitter.feed(b"x" * (2 * MAX_LINE_BYTES + 5) + b"\n"))
    assert [complete for _, complete in parts] == [False, False, True]
    assert sum(len(text) for text, _ in parts) == 2 * MAX_LINE_BYTES + 5


def test_every_line_carries_time_stream_and_completeness(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "0.log"))
    log.write("stderr", iter([(b"hello", True), (b"par", False)]))
    log.close()
    first, second = (tmp_path / "0.log").read_text().splitlines()
    assert first.endswith("Z stderr F hello")
    assert second.endswith("Z stderr P par")


def test_a_log_at_its_limit_moves_aside(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("manta.localplane.node.sandbox.log_writer.MAX_FILE_BYTES", 100)
    log = LogFile(str(tmp_path / "0.log"))
    log.write("stdout", iter([(b"x" * 100, True)]))
    log.write("stdout", iter([(b"after", True)]))
    log.close()
    assert "x" * 100 in (tmp_path / "0.log.1").read_text()
    assert (tmp_path / "0.log").read_text().endswith("F after\n")


def test_times_have_nanoseconds_and_are_utc() -> None:
    assert timestamp(1_000_000_000_000_000_007) == "2001-09-09T01:46:40.000000007Z"
