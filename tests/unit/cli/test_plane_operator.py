"""The health of a plane's operator, as `manta up`, `status` and `doctor` see it (U2)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest

from manta.api.usage import UsageError
from manta.cli.checks.finding import Level
from manta.cli.checks.server import check_deployed_operator, check_objects, check_plane_operator
from manta.cli.main import main
from manta.cli.plane import bring_up
from manta.cli.plane.operator import (
    MAX_PAUSE,
    OperatorRecord,
    operator_health,
    operator_log,
    pause_after,
)
from manta.cli.plane.process import start_ticks


def note(directory: Path, record: OperatorRecord, log: str = "") -> None:
    (directory / "operator.json").write_bytes(msgspec.json.encode(record))
    operator_log(directory).parent.mkdir(exist_ok=True)
    operator_log(directory).write_text(log)


def running(port: int, exits: int = 0, last_exit: int | None = None) -> OperatorRecord:
    """A record of this very process."""
    ticks = start_ticks(os.getpid())
    assert ticks is not None
    return OperatorRecord(os.getpid(), ticks, port, exits, last_exit)


@pytest.fixture
def probe() -> Iterator[tuple[int, list[int]]]:
    """A port whose /readyz answers with the status in the list."""
    status = [200]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status[0])
            self.end_headers()
            self.wfile.write(b"caches are being filled")

        def log_message(self, *_: object) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, status
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_gate_that_nobody_knows_ends_up_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """U2: was rc 0, with an operator that ended again and again."""
    directory = tmp_path / "plane"
    flags = ["--dir", str(directory), "--nodes", "0", "--feature-gates", "RayCronjob=true"]
    assert main(["up", *flags]) == 2
    said = capsys.readouterr().err
    assert "--feature-gates: unknown feature gate 'RayCronjob'; did you mean 'RayCronJob'?" in said
    assert not directory.exists()


async def test_up_ends_with_the_last_words_of_an_operator_that_keeps_ending(
    tmp_path: Path,
) -> None:
    note(tmp_path, OperatorRecord(exits=3, last_exit=1), "one\nno such account\n")
    with pytest.raises(UsageError, match=r"exited 3 times.*exit code 1(.|\n)*no such account"):
        await bring_up.await_operator(tmp_path)


async def test_up_waits_no_longer_for_an_operator_that_was_started_wrongly(tmp_path: Path) -> None:
    note(tmp_path, OperatorRecord(exits=1, last_exit=2), "unknown flag")
    with pytest.raises(UsageError, match="unknown flag"):
        await bring_up.await_operator(tmp_path)


async def test_up_goes_on_when_the_operator_is_ready(
    tmp_path: Path, probe: tuple[int, list[int]]
) -> None:
    note(tmp_path, running(probe[0]))
    await bring_up.await_operator(tmp_path)


def test_an_operator_that_is_not_ready_says_why(
    tmp_path: Path, probe: tuple[int, list[int]]
) -> None:
    port, status = probe
    status[0] = 503
    note(tmp_path, running(port))
    health = operator_health(tmp_path)
    assert not health.ready
    assert health.text == "not ready: caches are being filled"


def test_a_record_of_a_process_that_is_gone_is_not_believed(tmp_path: Path) -> None:
    note(tmp_path, OperatorRecord(pid=os.getpid(), ticks=1, port=1))
    assert operator_health(tmp_path).text == "not running"


def test_the_doctor_fails_for_an_operator_that_does_not_run(tmp_path: Path) -> None:
    note(tmp_path, OperatorRecord(exits=5, last_exit=1), "Unauthorized\n")
    found = check_plane_operator(tmp_path)
    assert found.level is Level.FAIL
    assert "exited 5 times" in found.found
    assert "Unauthorized" in found.fix


def test_the_doctor_warns_of_one_that_was_restarted(
    tmp_path: Path, probe: tuple[int, list[int]]
) -> None:
    note(tmp_path, running(probe[0], exits=1, last_exit=-9))
    assert check_plane_operator(tmp_path).level is Level.WARN


def test_restarts_become_slower() -> None:
    assert [pause_after(exits) for exits in (1, 3, 4, 5)] == [1, 1, 2, 4]
    assert pause_after(100) == MAX_PAUSE


def test_the_doctor_names_objects_that_are_stuck() -> None:
    """U17."""
    stuck = {
        "metadata": {"name": "x", "namespace": "a"},
        "status": {"jobDeploymentStatus": "Failed", "message": "no such file\nat all"},
    }
    found = check_objects([("RayJob", stuck)])
    assert found.level is Level.WARN
    assert "rayjob a/x failed (no such file at all)" in found.found
    assert check_objects([]).level is Level.OK


def test_the_doctor_fails_for_a_cluster_without_an_operator() -> None:
    """U17."""
    assert check_deployed_operator([]).level is Level.FAIL
    unavailable = {"metadata": {"name": "manta", "namespace": "m"}, "spec": {}, "status": {}}
    found = check_deployed_operator([unavailable])
    assert found.level is Level.FAIL
    assert "m/manta: 0 of 1 Pods" in found.found
