"""The loader counts what a user would have seen."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LOADER = Path(__file__).parents[2] / "support" / "loader.py"


@contextmanager
def server(answers: list[int]) -> Iterator[str]:
    """Answers with these codes in turn, and with the last one for ever."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code = answers.pop(0) if len(answers) > 1 else answers[0]
            body = f"code {code}, host {self.headers['Host']}".encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{made.server_port}/"
        finally:
            made.shutdown()
            thread.join()


def load(url: str, until: Path, *flags: str) -> dict[str, Any]:
    until.touch()
    command = [sys.executable, str(LOADER), url, "--pause", "0.01", "--until", str(until), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_answers_are_counted_by_what_they_say(tmp_path: Path) -> None:
    with server([200]) as url:
        seen = load(url, tmp_path / "end", "--host", "echo.test")
    assert seen["failed"] == 0
    assert seen["answers"] == {"code 200, host echo.test": seen["requests"]}
    assert seen["requests"] > 0


def test_a_single_answer_other_than_200_is_a_failure_and_is_reported(tmp_path: Path) -> None:
    with server([200, 503, 200]) as url:
        seen = load(url, tmp_path / "end")
    assert seen["failed"] == 1
    assert "503" in seen["failures"][0]


def test_nobody_there_is_a_failure(tmp_path: Path) -> None:
    with server([200]) as url:
        pass
    seen = load(url, tmp_path / "end")
    assert seen["failed"] == seen["requests"] > 0
    assert "refused" in seen["failures"][0]
