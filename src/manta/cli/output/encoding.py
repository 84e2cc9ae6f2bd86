"""The encoding of standard output and standard error."""

from __future__ import annotations

import io
import sys


def write_utf8() -> None:
    """Write UTF-8, as kubectl does: a pipe on Windows has an encoding without most characters."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8":
            stream.reconfigure(encoding="utf-8")
