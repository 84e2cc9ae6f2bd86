"""Log lines."""

from __future__ import annotations

import json
import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from manta.api.meta import Key
from manta.runtime.logging import add_file, begin_reconcile, end_reconcile, formatter


def record(message: str, *, broken: bool = False) -> logging.LogRecord:
    info = None
    if broken:
        try:
            _ = 1 / 0
        except ZeroDivisionError:
            info = sys.exc_info()
    return logging.LogRecord("manta.x", logging.WARNING, __file__, 1, message, (), info)


def test_a_line_is_one_json_object() -> None:
    line = json.loads(formatter("json").format(record("hello")))
    assert line["msg"] == "hello"
    assert line["level"] == "warning"
    assert line["logger"] == "manta.x"
    assert line["ts"].endswith("Z")
    assert "reconcile_id" not in line


def test_inside_a_round_every_line_bears_its_object() -> None:
    token = begin_reconcile("raycluster", Key("ns", "demo"))
    try:
        line = json.loads(formatter("json").format(record("hello")))
        plain = formatter("console").format(record("hello"))
    finally:
        end_reconcile(token)
    assert (line["controller"], line["object"]) == ("raycluster", "ns/demo")
    assert isinstance(line["reconcile_id"], int)
    assert "raycluster ns/demo" in plain


def test_errors_come_with_their_trace() -> None:
    line = json.loads(formatter("json").format(record("oops", broken=True)))
    assert "ZeroDivisionError" in line["stacktrace"]
    assert "ZeroDivisionError" in formatter("console").format(record("oops", broken=True))


def test_a_file_gets_the_same_lines_and_is_rotated_as_kuberays(tmp_path: Path) -> None:
    root = logging.getLogger()
    before = list(root.handlers)
    add_file(str(tmp_path / "log"))
    [added] = [one for one in root.handlers if one not in before]
    try:
        assert isinstance(added, RotatingFileHandler)
        assert (added.maxBytes, added.backupCount) == (500 * 2**20, 10)
        root.warning("hello")
    finally:
        root.removeHandler(added)
        added.close()
    assert json.loads((tmp_path / "log").read_text())["msg"] == "hello"
