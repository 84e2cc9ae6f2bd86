from __future__ import annotations

from pathlib import Path

from manta.localplane.node.sandbox.log_reader import (
    Line,
    Tail,
    chosen,
    last_lines,
    older_lines,
    parse,
)

LINES = [Line(f"2026-01-01T00:00:0{n}.0Z".encode(), b"stdout", b"%d\n" % n) for n in range(5)]


def test_a_line_is_read_with_its_time_and_stream() -> None:
    line = parse(b"2026-01-01T00:00:00.0Z stderr F two words")
    assert line == Line(b"2026-01-01T00:00:00.0Z", b"stderr", b"two words\n")
    assert line.shown(timestamps=True) == b"2026-01-01T00:00:00.0Z two words\n"


def test_a_part_of_a_line_has_no_end() -> None:
    line = parse(b"2026-01-01T00:00:00.0Z stdout P part")
    assert line is not None
    assert line.text == b"part"


def test_what_is_no_line_of_ours_is_passed_over() -> None:
    assert parse(b"something else") is None


def test_lines_are_chosen_by_time_and_from_the_end() -> None:
    assert [line.text for line in chosen(LINES, "2026-01-01T00:00:03", None)] == [b"3\n", b"4\n"]
    assert [line.text for line in chosen(LINES, "", 2)] == [b"3\n", b"4\n"]


def test_reading_goes_on_where_it_stopped_and_over_a_moved_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"t stdout F one\nt stdout F tw")
    with Tail(log) as tail:
        assert [line.text for line in tail.read()] == [b"one\n"]
        with log.open("ab") as file:
            file.write(b"o\n")
        log.rename(tmp_path / "log.1")
        log.write_bytes(b"t stdout F three\n")
        assert [line.text for line in tail.read()] == [b"two\n", b"three\n"]
    assert [line.text for line in older_lines(log)] == [b"one\n", b"two\n"]


def test_the_last_lines_of_a_log_have_no_times(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"".join(b"t stdout F line %d\n" % n for n in range(100)))
    assert last_lines(log, lines=2, limit=100) == "line 98\nline 99"
    assert last_lines(tmp_path / "none", lines=2, limit=100) == ""
